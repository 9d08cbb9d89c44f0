"""A fake hypervisor that only records its domains: for tests, benchmarks and first trials."""

import struct
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, NamedTuple

import msgspec
from oslo_config import cfg

from minova import errors
from minova.codecs import Decoder
from minova.hardware.cpu_sets import cpu_sets
from minova.objects.actions.power_rules import OFF, ON
from minova.objects.catalogue.flavor import Flavor, Overhead
from minova.objects.catalogue.guest_hardware import DISK_BUSES, SECURE_BOOT, UEFI, VIF_MODELS
from minova.objects.catalogue.image import Image
from minova.objects.hosts.compute_node import DomainView, HypervisorView
from minova.objects.hosts.cpu_times import CpuTimes
from minova.objects.hosts.numa import NUMACell, NUMAPages, NUMATopology
from minova.objects.network.vif import GroupMembers, Vif
from minova.objects.servers.console import ConsoleAddress, ConsoleType
from minova.objects.servers.diagnostics import GuestDiagnostics
from minova.objects.servers.instance import Instance
from minova.objects.servers.states import PowerState
from minova.private_files import make_folder
from minova.virt.driver import NO_DATA, NO_ROW, GuestData, LeftDisks, RowHost, last_lines

HYPERVISOR_VERSION = 1
LINES_OF_A_START = 12
# Everything that a guest may request by its image or flavor.
_TRAITS = (
    "COMPUTE_FIRMWARE_BIOS",
    UEFI,
    SECURE_BOOT,
    *(f"COMPUTE_GRAPHICS_MODEL_{model}" for model in ("BOCHS", "CIRRUS", "NONE", "QXL", "VGA", "VIRTIO", "VMVGA")),
    *(f"COMPUTE_NET_VIF_MODEL_{model}".upper() for model in VIF_MODELS),
    *(f"COMPUTE_STORAGE_BUS_{bus}".upper() for bus in DISK_BUSES),
)
SMALL_PAGE_KB = 4
_CLUSTER_BITS = 16
# The port of the Discard protocol.
_CONSOLE_PORT = 9
_IDLE = CpuTimes(user=0, kernel=0, idle=0, iowait=0, frequency=1000)


class Domain(msgspec.Struct, frozen=True, kw_only=True):
    """The record of one domain.

    `boots`: how often its guest has booted. While it does not change, the guest has the memory of that boot.
    `saved`: the memory of the guest is saved, and its next start goes on from it.
    """

    uuid: str
    node: str
    attempt: int
    memory_mb: int
    disk_gb: int
    vcpus: int
    power_state: PowerState = PowerState.SHUTDOWN
    console: str = ""
    macs: tuple[str, ...] = ()
    boots: int = 0
    saved: bool = False

    def turned(self, state: PowerState) -> "Domain":
        """Returns the domain in this state: a guest that is off boots, or goes on from its saved memory."""
        if self.power_state not in OFF or state in OFF:
            return msgspec.structs.replace(self, power_state=state)
        return msgspec.structs.replace(self, power_state=state, boots=self.boots + (not self.saved), saved=False)

    @property
    def view(self) -> DomainView:
        return DomainView(
            uuid=self.uuid,
            name=f"instance-{self.uuid}",
            memory_mb=self.memory_mb,
            vcpus=self.vcpus,
            power_state=self.power_state,
            attempt=self.attempt,
        )


_DOMAINS = Decoder(list[Domain])


def empty_qcow2(virtual_size: int) -> bytes:
    """Returns an image without data: a header, tables of reference counts, and an L1 table that maps nothing."""
    cluster = 1 << _CLUSTER_BITS
    l1_entries = -(-virtual_size // (cluster * (cluster // 8)))
    used = 3 + -(-l1_entries * 8 // cluster)
    header = struct.pack(
        ">4sIQIIQIIQQIIQ",
        *(b"QFI\xfb", 2, 0, 0, _CLUSTER_BITS, virtual_size, 0, l1_entries, 3 * cluster, cluster, 1, 0, 0),
    )
    counts_at, counts = struct.pack(">Q", 2 * cluster), struct.pack(">H", 1) * used
    return b"".join(part.ljust(cluster, b"\0") for part in (header, counts_at, counts)) + bytes((used - 3) * cluster)


def _macs_of(instance: Instance) -> tuple[str, ...]:
    return tuple(vif.mac_address for vif in instance.network_info)


class _Cpus(NamedTuple):
    """The number of CPUs for shared guests and for pinned ones, and the host's cell."""

    shared: int
    dedicated: int = 0
    topology: NUMATopology | None = None


def _cpus_of(conf: cfg.ConfigOpts) -> _Cpus:
    options = conf.compute
    sets = cpu_sets(
        conf.vcpu_pin_set, options.cpu_shared_set, options.cpu_dedicated_set, frozenset(range(conf.fake_vcpus))
    )
    if not sets.limited:
        return _Cpus(conf.fake_vcpus)
    pages = NUMAPages(size_kb=SMALL_PAGE_KB, total=conf.fake_memory_mb * 1024 // SMALL_PAGE_KB)
    cell = NUMACell(id=0, cpuset=sets.shared, pcpuset=sets.dedicated, memory=conf.fake_memory_mb, mempages=(pages,))
    return _Cpus(*sets.counted, NUMATopology((cell,)))


class FakeDriver:
    """Implements `virt.driver.Driver`. A file keeps the records after the end of the process, as real domains outlive
    it.

    Safe for threads. Nodes are `fake_nodes`, or one with the name of the host. With `cpu_shared_set` or
    `cpu_dedicated_set` each has one NUMA cell, so that pinned guests run there, too.
    """

    reports_resources: ClassVar[bool] = True

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self.nodes: tuple[str, ...] = tuple(conf.fake_nodes) or (conf.host,)
        self._memory_mb = conf.fake_memory_mb
        self._vcpus, self._pcpus, self._cells = _cpus_of(conf)
        self._local_gb = conf.fake_local_gb
        self._consoles = {ConsoleType.NOVNC: conf.vnc.enabled, ConsoleType.SERIAL: conf.serial_console.enabled}
        self._bridges: dict[str, str] = dict(conf.networks.bridge_mappings)
        self._file = Path(conf.instances_path) / "fake-domains.json" if conf.fake_persistent else None
        self._lock = threading.RLock()
        self._failures: dict[str, list[Exception]] = defaultdict(list)
        self._changed: list[Callable[[str, PowerState], None]] = []
        self._domains: dict[str, Domain] = self._read()
        self._started = time.monotonic_ns()
        self._cpu_times: dict[str, tuple[int, CpuTimes]] = {}

    # -- methods for tests -----------------------------------------------------------------------------------------

    def fail(self, operation: str, failures: Iterable[Exception]) -> None:
        """Make the next calls of the operation raise these exceptions, one each; then it works again. `operation` is a
        method name.
        """
        with self._lock:
            self._failures[operation].extend(failures)

    def turn(self, instance_uuid: str, state: PowerState) -> None:
        """Change the state of the domain by itself, as a guest that shuts down does. Raises NotFound if there is no
        domain.
        """
        with self._lock:
            self._write(self._domain(instance_uuid).turned(state))
            watchers = tuple(self._changed)
        for changed in watchers:
            changed(instance_uuid, state)

    def set_bridges(self, bridges: Mapping[str, str]) -> None:
        """Set the bridges that exist, by the segment that they carry. At the start all configured bridges exist."""
        self._bridges = dict(bridges)

    def domain(self, instance_uuid: str) -> Domain | None:
        """Returns the record of the domain; None if there is no domain."""
        with self._lock:
            return self._domains.get(instance_uuid)

    # -- methods of Driver -----------------------------------------------------------------------------------------

    def init_host(self, host: str) -> None:
        self._begin("init_host")

    def recognise(self, former_hosts: tuple[str, ...]) -> None:
        """Does nothing: the recorded domains are not marked with a host."""

    def available_nodes(self) -> tuple[str, ...]:
        self._begin("available_nodes")
        return self.nodes

    def host_view(self, node: str) -> HypervisorView:
        """Raises NotFound if there is no such node."""
        with self._lock:
            self._begin("host_view")
            if node not in self.nodes:
                raise errors.NotFound(f"Node {node} is not one of {', '.join(self.nodes)}")
            on_node = [domain for domain in self._domains.values() if self._is_on(domain, node)]
        disk = sum(domain.disk_gb for domain in on_node)
        return HypervisorView(
            node=node,
            vcpus=self._vcpus,
            memory_mb=self._memory_mb,
            memory_mb_used=sum(domain.memory_mb for domain in on_node),
            local_gb=self._local_gb,
            local_gb_used=disk,
            disk_available_least=self._local_gb - disk,
            hypervisor_type="fake",
            hypervisor_version=HYPERVISOR_VERSION,
            hypervisor_hostname=node,
            supported_instances=(("x86_64", "fake", "hvm"),),
            numa_topology=self._cells,
            traits=_TRAITS,
            bridges=self.bridges(),
            pcpus=self._pcpus,
            domains=tuple(domain.view for domain in on_node),
        )

    def bridges(self) -> dict[str, str]:
        return dict(self._bridges)

    def domains(self) -> tuple[DomainView, ...]:
        with self._lock:
            self._begin("domains")
            return tuple(domain.view for domain in self._domains.values())

    def needs_image(self) -> bool:
        return False

    def prepare(
        self, instance: Instance, node: str, attempt: int, image_path: Path | None, data: GuestData = NO_DATA
    ) -> None:
        with self._lock:
            self._begin("prepare")
            known = self._domains.get(instance.uuid)
            if known is not None and known.attempt == attempt:
                return
            if known is not None and known.attempt > attempt:
                raise errors.GuestIsNewer(f"The domain of {instance.uuid} is of attempt {known.attempt}, not {attempt}")
            flavor = instance.flavor
            self._write(
                Domain(
                    uuid=instance.uuid,
                    node=node,
                    attempt=attempt,
                    memory_mb=flavor.memory_mb,
                    disk_gb=flavor.disk_gb,
                    vcpus=flavor.vcpus,
                    macs=_macs_of(instance),
                )
            )

    def power_on(self, instance: Instance, *, paused: bool = False) -> PowerState:
        wanted = PowerState.PAUSED if paused else PowerState.RUNNING
        with self._lock:
            self._begin("power_on")
            domain = self._domain(instance.uuid)
            if domain.power_state is not PowerState.RUNNING:
                name = instance.hostname or instance.uuid
                lines = [
                    f"{name}: line {number} of a start in a book only\n" for number in range(1, LINES_OF_A_START + 1)
                ]
                console = "".join((domain.console, *lines))
                self._write(msgspec.structs.replace(domain.turned(wanted), console=console))
                return wanted
            return PowerState.RUNNING

    def destroy(self, instance_uuid: str, row: RowHost = NO_ROW) -> None:
        with self._lock:
            self._begin("destroy")
            if self._domains.pop(instance_uuid, None) is not None:
                self._save()

    def shares_disks(self) -> bool:
        return False

    def left_disks(self, with_domain: Container[str]) -> tuple[LeftDisks, ...]:
        """Returns nothing: fake guests have no disks."""
        return ()

    def own_disks(self, instance_uuids: Iterable[str]) -> None:
        """Does nothing: fake guests have no disks."""

    def power_off(self, instance_uuid: str) -> None:
        with self._lock:
            self._begin("power_off")
            if instance_uuid in self._domains:
                self.turn(instance_uuid, PowerState.SHUTDOWN)

    def shut_down(self, instance_uuid: str, timeout: float, cancelled: threading.Event) -> bool:
        """Fake guests shut down at once."""
        self._begin("shut_down")
        self.power_off(instance_uuid)
        return True

    def start(self, instance: Instance) -> PowerState:
        with self._lock:
            self._begin("start")
            domain = self._domains.get(instance.uuid)
            if domain is not None and domain.power_state in {PowerState.RUNNING, PowerState.PAUSED}:
                return self._turn_to(instance.uuid, PowerState.RUNNING)
            return self.resume(instance) if domain is not None and domain.saved else self.hard_reboot(instance)

    def hard_reboot(self, instance: Instance) -> PowerState:
        with self._lock:
            self._begin("hard_reboot")
            if instance.uuid not in self._domains:
                self.prepare(instance, instance.node or self.nodes[0], instance.attempt, None)
            self._turn_to(instance.uuid, PowerState.SHUTDOWN)
            self._write(msgspec.structs.replace(self._domain(instance.uuid), macs=_macs_of(instance), saved=False))
            return self.power_on(instance)

    def set_admin_password(self, instance: Instance, password: str) -> None:
        """Fake guests have no agent and accept any password."""
        self._begin("set_admin_password")
        self._domain(instance.uuid)

    def pause(self, instance_uuid: str) -> PowerState:
        self._begin("pause")
        return self._turn_to(instance_uuid, PowerState.PAUSED)

    def unpause(self, instance_uuid: str) -> PowerState:
        self._begin("unpause")
        return self._turn_to(instance_uuid, PowerState.RUNNING)

    def suspend(self, instance_uuid: str) -> PowerState:
        with self._lock:
            self._begin("suspend")
            domain = self._domain(instance_uuid)
            if domain.power_state in ON:
                self._write(msgspec.structs.replace(domain, saved=True))
            return self._turn_to(instance_uuid, PowerState.SHUTDOWN)

    def resume(self, instance: Instance) -> PowerState:
        self._begin("resume")
        return self._turn_to(instance.uuid, PowerState.RUNNING)

    def prepare_rescue(self, instance: Instance, image: Image, image_path: Path | None) -> None:
        self._begin("prepare_rescue")
        self._require_no_saved_memory(instance.uuid)

    def rescue(self, instance: Instance) -> PowerState:
        with self._lock:
            self._begin("rescue")
            self._require_no_saved_memory(instance.uuid)
            self._turn_to(instance.uuid, PowerState.SHUTDOWN)
            return self.power_on(instance)

    def snapshot(self, instance: Instance, path: Path, check: Callable[[], None]) -> None:
        with self._lock:
            self._begin("snapshot")
            self._domain(instance.uuid)
        check()
        path.write_bytes(empty_qcow2(max(instance.flavor.root_gb, 1) << 30))

    def has_saved_memory(self, instance_uuid: str) -> bool:
        with self._lock:
            self._begin("has_saved_memory")
            domain = self._domains.get(instance_uuid)
            return domain is not None and domain.saved

    def has_open_snapshot(self, instance_uuid: str) -> bool:
        """Returns False: fake guests have no disks."""
        return False

    def open_snapshots(self) -> tuple[str, ...]:
        """Returns nothing: fake guests have no disks."""
        return ()

    def end_snapshot(self, instance_uuid: str) -> None:
        """Does nothing: there are no open snapshots."""

    def refresh_interfaces(self, vifs: Mapping[str, Sequence[Vif]]) -> tuple[str, ...]:
        """Filters nothing: there are no packets."""
        wanted = {uuid: {vif.mac_address for vif in of_instance} for uuid, of_instance in vifs.items()}
        with self._lock:
            self._begin("refresh_interfaces")
            known = {uuid: set(domain.macs) for uuid, domain in self._domains.items()}
        return tuple(uuid for uuid, macs in known.items() if macs != wanted.get(uuid, set()))

    def refresh_members(self, members: Sequence[GroupMembers]) -> None:
        """Does nothing, as `refresh_interfaces`."""
        self._begin("refresh_members")

    def interfaces(self, instance_uuid: str) -> tuple[Vif, ...]:
        with self._lock:
            self._begin("interfaces")
            macs = self._domain(instance_uuid).macs
        return tuple(Vif(port_id="", mac_address=mac, network_id="") for mac in macs)

    def attach_interface(self, instance: Instance, vif: Vif) -> PowerState:
        with self._lock:
            self._begin("attach_interface")
            domain = self._domain(instance.uuid)
            if vif.mac_address not in domain.macs:
                self._write(msgspec.structs.replace(domain, macs=(*domain.macs, vif.mac_address)))
            return domain.power_state

    def detach_interface(self, instance_uuid: str, vif: Vif, check: Callable[[], None]) -> PowerState:
        """Fake guests release the interface at once."""
        check()
        with self._lock:
            self._begin("detach_interface")
            domain = self._domains.get(instance_uuid)
            if domain is None:
                return PowerState.SHUTDOWN
            left = tuple(mac for mac in domain.macs if mac != vif.mac_address)
            self._write(msgspec.structs.replace(domain, macs=left))
            return domain.power_state

    def rebuild(self, instance: Instance, image_path: Path | None, data: GuestData = NO_DATA) -> None:
        """Also clears the console, which is lost with the disks."""
        with self._lock:
            self._begin("rebuild")
            if instance.uuid not in self._domains:
                self.prepare(instance, instance.node or self.nodes[0], instance.attempt, None)
            self._turn_to(instance.uuid, PowerState.SHUTDOWN)
            self._write(msgspec.structs.replace(self._domain(instance.uuid), console="", saved=False))

    def inject_nmi(self, instance_uuid: str) -> PowerState:
        with self._lock:
            self._begin("inject_nmi")
            domain = self._domain(instance_uuid)
            self._write(msgspec.structs.replace(domain, console=f"{domain.console}NMI received\n"))
            return domain.power_state

    def _require_no_saved_memory(self, instance_uuid: str) -> None:
        if self._domain(instance_uuid).saved:
            raise errors.SavedMemoryKept(f"The memory of instance {instance_uuid} is saved: resume it first")

    def _turn_to(self, instance_uuid: str, state: PowerState) -> PowerState:
        """Change the state. Sends no event if the domain is in that state already."""
        with self._lock:
            if self._domain(instance_uuid).power_state is not state:
                self.turn(instance_uuid, state)
        return state

    def lost_base(self, instance_uuid: str) -> Path | None:
        """Returns None: fake guests have no disks."""
        return None

    def bases_in_use(self) -> frozenset[str]:
        return frozenset()

    def bound_console_logs(self) -> None:
        """Does nothing: fake guests print only LINES_OF_A_START lines at each start."""

    def power_state(self, instance_uuid: str) -> PowerState | None:
        with self._lock:
            self._begin("power_state")
            domain = self._domains.get(instance_uuid)
            return None if domain is None else domain.power_state

    def diagnostics(self, instance_uuid: str) -> GuestDiagnostics:
        """Fake guests use nothing. As Nova's fake driver, it reports the driver as libvirt, because clients do not know
        a fake one.
        """
        with self._lock:
            self._begin("diagnostics")
            memory_kb = self._domain(instance_uuid).memory_mb << 10
        return GuestDiagnostics(driver="libvirt", memory_kb=memory_kb)

    def console(self, instance_uuid: str, console_type: ConsoleType) -> ConsoleAddress:
        """Returns, for an enabled type, an address at which nothing listens."""
        with self._lock:
            self._begin("console")
            domain = self._domain(instance_uuid)
        if not self._consoles[console_type]:
            raise errors.ConsoleTypeUnavailable(f"Unavailable console type {console_type}.")
        if domain.power_state is not PowerState.RUNNING:
            raise errors.Conflict(f"Instance {instance_uuid} does not run.")
        return ConsoleAddress(host="127.0.0.1", port=_CONSOLE_PORT)

    def console_output(self, instance_uuid: str, tail_length: int | None) -> str:
        with self._lock:
            self._begin("console_output")
            return last_lines(self._domain(instance_uuid).console, tail_length)

    def cpu_times(self, node: str) -> CpuTimes:
        """Returns times as if every vCPU of a running domain were busy: three quarters as user time, one quarter as
        kernel time.
        """
        with self._lock:
            self._begin("cpu_times")
            running = [
                domain
                for domain in self._domains.values()
                if self._is_on(domain, node) and domain.power_state is PowerState.RUNNING
            ]
            before, kept = self._cpu_times.get(node, (self._started, _IDLE))
            now = time.monotonic_ns()
            passed, busy = now - before, min(sum(domain.vcpus for domain in running), self._vcpus)
            times = CpuTimes(
                user=kept.user + passed * busy * 3 // 4,
                kernel=kept.kernel + passed * busy // 4,
                idle=kept.idle + passed * (self._vcpus - busy),
                iowait=0,
                frequency=1000,
            )
            self._cpu_times[node] = (now, times)
            return times

    def overhead(self, flavor: Flavor) -> Overhead:
        return Overhead()

    def watch(self, changed: Callable[[str, PowerState], None]) -> None:
        with self._lock:
            self._changed.append(changed)

    def close(self) -> None:
        with self._lock:
            self._changed.clear()

    def _is_on(self, domain: Domain, node: str) -> bool:
        """Whether the domain is on the node. If there is only one node, it has every domain, whatever its name was when
        they were made.
        """
        return len(self.nodes) == 1 or domain.node == node

    # -- the records -----------------------------------------------------------------------------------------------

    def _begin(self, operation: str) -> None:
        with self._lock:
            planned = self._failures[operation]
            if planned:
                raise planned.pop(0)

    def _domain(self, instance_uuid: str) -> Domain:
        domain = self._domains.get(instance_uuid)
        if domain is None:
            raise errors.NotFound(f"Domain of instance {instance_uuid}")
        return domain

    def _write(self, domain: Domain) -> None:
        self._domains[domain.uuid] = domain
        self._save()

    def _read(self) -> dict[str, Domain]:
        if self._file is None or not self._file.exists():
            return {}
        known = _DOMAINS.from_json(self._file.read_bytes())
        return {domain.uuid: domain for domain in known}

    def _save(self) -> None:
        if self._file is None:
            return
        make_folder(self._file.parent)
        half = self._file.with_suffix(".part")
        half.write_bytes(msgspec.json.encode(list(self._domains.values())))
        half.rename(self._file)
