"""A hypervisor in memory, with any number of nodes, whose every operation a test can watch or make fail."""

import threading
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import msgspec

from minova import errors
from minova.objects.actions.guest_changes import FAULTS
from minova.objects.catalogue.flavor import Flavor, Overhead
from minova.objects.catalogue.image import Image
from minova.objects.guests.console import ConsoleAddress, ConsoleType
from minova.objects.guests.diagnostics import GuestDiagnostics
from minova.objects.guests.guest_secrets import TpmState
from minova.objects.guests.guest_states import GuestReason, GuestState, reason_of
from minova.objects.hosts.compute_node import AvailableResources, DomainView
from minova.objects.hosts.cpu_times import CpuTimes
from minova.objects.network.vif import GroupMembers, Vif
from minova.objects.servers.chosen_hardware import ChosenHardware
from minova.objects.servers.instance import Instance
from minova.objects.servers.states import PowerState
from minova.virt.driver.disks import LeftDisks
from minova.virt.driver.domains import NO_DATA, NO_ROW, GuestData, RowHost
from minova.virt.driver.secrets import SecretSource
from minova.virt.fake.power import FakeTurns
from tests.fakes.immovable import Immovable


def nothing(operation: str) -> None:
    """The hook that does nothing."""


class Hypervisor(Immovable, FakeTurns):
    """Implements `virt.driver.ComputeDriver`. `on_call` is told each operation before it works; what it raises is raised."""

    reports_resources: ClassVar[bool] = True

    def __init__(self, *nodes: str, vcpus: int = 16, memory_mb: int = 8704, local_gb: int = 200) -> None:
        self.hardware: dict[str, ChosenHardware] = {}
        self.nodes = nodes
        self.size = {"vcpus": vcpus, "memory_mb": memory_mb, "local_gb": local_gb}
        self.extra = Overhead()
        self.wants_image = False
        self.on_call: Callable[[str], None] = nothing
        # Whether guests follow the request to shut down, and what happens while that is waited for.
        self.shuts_down = True
        self.waits_for_guest: Callable[[threading.Event], None] = lambda cancelled: None
        self.on_rebuild: Callable[[], None] = lambda: None
        self.on_snapshot: Callable[[Callable[[], None]], None] = lambda check: check()
        self.calls: list[str] = []
        self.timeouts: list[float] = []
        self.copied_images: dict[str, bool] = {}
        self.images: dict[str, Path | None] = {}
        self.on_password: Callable[[], None] = lambda: None
        self.passwords: dict[str, str] = {}
        self.guest_data: dict[str, GuestData] = {}
        self.closed = False
        self.has_space = True
        self.bases: frozenset[str] = frozenset()
        self.lost_bases: dict[str, Path] = {}
        self.cpus: CpuTimes | None = None
        self.shared = False
        self.secrets: SecretSource | None = None
        # By instance, in base64.
        self.tpm_states: dict[str, TpmState] = {}
        self.present_bridges: dict[str, str] = {}
        self.owned: set[str] = set()
        self.renamed: set[str] = set()
        self.disks_left: list[LeftDisks] = []
        self.vifs: dict[str, tuple[Vif, ...]] = {}
        self.members: list[GroupMembers] = []
        self.differing: tuple[str, ...] = ()
        # Instances whose memory is saved.
        self.saved: set[str] = set()
        # Instances whose snapshot is open.
        self.aside: set[str] = set()
        self.on_commit: Callable[[Callable[[], None]], None] = lambda check: None
        # Rescued guests without their disk, and whether they have booted.
        self.broken: dict[str, bool] = {}
        self.destroyed: list[tuple[str, RowHost]] = []
        self._domains: dict[str, tuple[str, DomainView]] = {}
        self._changed: Callable[[str, PowerState], None] | None = None
        self._lock = threading.RLock()

    def _begin(self, operation: str) -> None:
        self.calls.append(operation)
        self.on_call(operation)

    def use_secrets(self, source: SecretSource) -> None:
        self.secrets = source

    def tpm_state(self, instance: Instance) -> TpmState | None:
        return self.tpm_states.get(instance.uuid)

    # -- what tests do ---------------------------------------------------------------------------------------------

    def add_domain(
        self,
        uuid: str,
        node: str,
        memory_mb: int,
        *,
        ours: bool = True,
        attempt: int | None = None,
        running: bool = True,
    ) -> None:
        """A domain that no build of this test made."""
        state = PowerState.RUNNING if running else PowerState.SHUTDOWN
        self._domains[uuid] = (
            node,
            DomainView(
                uuid=uuid, name=uuid, memory_mb=memory_mb, vcpus=1, power_state=state, ours=ours, attempt=attempt
            ),
        )

    def turn(self, uuid: str, state: PowerState, reason: GuestReason = GuestReason.NONE) -> None:
        """The domain's state changes from inside, and the driver says so."""
        node, domain = self._domains[uuid]
        self._domains[uuid] = (node, msgspec.structs.replace(domain, power_state=state, reason=reason))
        if self._changed is not None:
            self._changed(uuid, state)

    # -- what a compute asks ---------------------------------------------------------------------------------------

    def init_host(self, host: str) -> None:
        self._begin("init_host")

    def recognise(self, former_hosts: tuple[str, ...]) -> None:
        pass

    def available_nodes(self) -> tuple[str, ...]:
        self._begin("available_nodes")
        return self.nodes

    def host_view(self, node: str) -> AvailableResources:
        self._begin("host_view")
        return AvailableResources(
            node=node,
            hypervisor_hostname=node,
            memory_mb_used=0,
            local_gb_used=0,
            hypervisor_type="test",
            hypervisor_version=1,
            domains=tuple(domain for on, domain in self._domains.values() if on == node),
            vcpus=self.size["vcpus"],
            memory_mb=self.size["memory_mb"],
            local_gb=self.size["local_gb"],
            bridges=self.bridges(),
        )

    def bridges(self) -> dict[str, str]:
        return dict(self.present_bridges)

    def domains(self) -> tuple[DomainView, ...]:
        self._begin("domains")
        return tuple(domain for _, domain in self._domains.values())

    def needs_image(self) -> bool:
        return self.wants_image

    def prepare(
        self,
        instance: Instance,
        node: str,
        attempt: int,
        image_path: Path | None,
        data: GuestData = NO_DATA,
        *,
        with_disks: bool = True,
        copies_image: bool = False,
    ) -> None:
        self._begin("prepare")
        self.copied_images[instance.uuid] = copies_image
        self.images[instance.uuid] = image_path
        self.guest_data[instance.uuid] = data
        former_domain = self._domains.get(instance.uuid)
        running = former_domain is not None and former_domain[1].power_state is PowerState.RUNNING
        self.add_domain(instance.uuid, node, instance.flavor.memory_mb, attempt=attempt, running=running)

    def power_on(self, instance: Instance, *, paused: bool = False) -> PowerState:
        self._begin("power_on")
        state = PowerState.PAUSED if paused else PowerState.RUNNING
        with self._lock:
            node, domain = self._domains[instance.uuid]
            self._domains[instance.uuid] = (node, msgspec.structs.replace(domain, power_state=state))
        return state

    def latest_attempt(self, instance_uuid: str) -> int | None:
        self._begin("latest_attempt")
        former_domain = self._domains.get(instance_uuid)
        of_disks = [disks.attempt for disks in self.disks_left if disks.uuid == instance_uuid]
        of_domain = (
            [former_domain[1].attempt] if former_domain is not None and former_domain[1].attempt is not None else []
        )
        return max([*of_domain, *of_disks], default=None)

    def destroy(self, instance_uuid: str, row: RowHost = NO_ROW) -> None:
        self._begin("destroy")
        self._domains.pop(instance_uuid, None)
        self.destroyed.append((instance_uuid, row))

    def shares_disks(self) -> bool:
        return self.shared

    def left_disks(self, with_domain: Container[str]) -> tuple[LeftDisks, ...]:
        return tuple(disks for disks in self.disks_left if disks.uuid not in with_domain)

    def take_over(self, instance_uuid: str, attempt: int, old_attempt: int = 0) -> bool:
        return False

    def own_renamed(self, instances: Iterable[Instance]) -> None:
        self.renamed.update(instance.uuid for instance in instances)

    def own_disks(self, instance_uuids: Iterable[str]) -> None:
        self.owned.update(instance_uuids)

    def power_off(self, instance_uuid: str) -> None:
        self._begin("power_off")
        if instance_uuid in self._domains:
            self.turn(instance_uuid, PowerState.SHUTDOWN)

    def shut_down(self, instance_uuid: str, timeout: float, cancelled: threading.Event) -> bool:
        self._begin("shut_down")
        self.timeouts.append(timeout)
        self.waits_for_guest(cancelled)
        if self.shuts_down and not cancelled.is_set():
            self.turn(instance_uuid, PowerState.SHUTDOWN)
        return self.shuts_down or cancelled.is_set()

    def start(self, instance: Instance) -> PowerState:
        self._begin("start")
        return self._run(instance)

    def hard_reboot(self, instance: Instance) -> PowerState:
        self._begin("hard_reboot")
        return self._run(instance)

    def _run(self, instance: Instance) -> PowerState:
        if instance.uuid not in self._domains:
            self.add_domain(instance.uuid, instance.node or "", instance.flavor.memory_mb, attempt=instance.attempt)
        self.turn(instance.uuid, PowerState.RUNNING)
        return PowerState.RUNNING

    def suspend(self, instance_uuid: str) -> PowerState:
        self._begin("suspend")
        return self._turn_to(instance_uuid, PowerState.SHUTDOWN)

    def prepare_rescue(self, instance: Instance, image: Image, image_path: Path | None) -> None:
        self._begin("prepare_rescue")
        self.images[instance.uuid] = image_path

    def rescue(self, instance: Instance, image: Image | None = None) -> PowerState:
        self._begin("rescue")
        return self._turn_to(instance.uuid, PowerState.RUNNING)

    def without_broken_disk(self) -> tuple[str, ...]:
        self._begin("without_broken_disk")
        return tuple(self.broken)

    def attach_broken_disk(self, instance_uuid: str) -> None:
        self._begin("attach_broken_disk")
        if self.broken[instance_uuid]:
            del self.broken[instance_uuid]

    def snapshot(self, instance: Instance, path: Path, check: Callable[[], None]) -> None:
        self._begin("snapshot")
        self.on_snapshot(check)
        if instance.uuid not in self._domains:
            raise errors.NotFound(f"Domain of instance {instance.uuid}")
        path.write_bytes(b"the disk")

    def has_saved_memory(self, instance_uuid: str) -> bool:
        self._begin("has_saved_memory")
        return instance_uuid in self.saved

    def has_open_snapshot(self, instance_uuid: str) -> bool:
        self._begin("has_open_snapshot")
        return instance_uuid in self.aside

    def open_snapshots(self) -> tuple[str, ...]:
        self._begin("open_snapshots")
        return tuple(sorted(self.aside))

    def end_snapshot(self, instance_uuid: str, check: Callable[[], None] = lambda: None) -> None:
        self._begin("end_snapshot")
        self.on_commit(check)
        self.aside.discard(instance_uuid)

    def refresh_interfaces(self, vifs: Mapping[str, Sequence[Vif]]) -> tuple[str, ...]:
        self._begin("refresh_interfaces")
        self.vifs.update({uuid: tuple(of_instance) for uuid, of_instance in vifs.items()})
        return self.differing

    def refresh_members(self, members: Sequence[GroupMembers]) -> None:
        self._begin("refresh_members")
        self.members.extend(members)

    def interfaces(self, instance_uuid: str) -> tuple[Vif, ...]:
        self._begin("interfaces")
        return self.vifs.get(instance_uuid, ())

    def attach_interface(self, instance: Instance, vif: Vif) -> PowerState:
        self._begin("attach_interface")
        self.vifs[instance.uuid] = (*self.vifs.get(instance.uuid, ()), vif)
        return PowerState(self._domains[instance.uuid][1].power_state)

    def detach_interface(self, instance_uuid: str, vif: Vif, check: Callable[[], None]) -> PowerState:
        self._begin("detach_interface")
        check()
        self.vifs[instance_uuid] = tuple(each_vif for each_vif in self.vifs.get(instance_uuid, ()) if each_vif != vif)
        return PowerState(self._domains[instance_uuid][1].power_state)

    def rebuild(
        self,
        instance: Instance,
        image_path: Path | None,
        data: GuestData = NO_DATA,
        replaces: Callable[[], None] = lambda: None,
    ) -> None:
        self.images[instance.uuid] = image_path
        self.guest_data[instance.uuid] = data
        self.on_rebuild()
        replaces()
        self._begin("rebuild")
        self._turn_to(instance.uuid, PowerState.SHUTDOWN)

    def inject_nmi(self, instance_uuid: str) -> PowerState:
        self._begin("inject_nmi")
        return PowerState(self._domains[instance_uuid][1].power_state)

    def set_admin_password(self, instance: Instance, password: str) -> None:
        self._begin("set_admin_password")
        self.on_password()
        self.passwords[instance.uuid] = password

    def _turn_to(self, instance_uuid: str, state: PowerState) -> PowerState:
        self.turn(instance_uuid, state)
        return state

    def lost_base(self, instance_uuid: str) -> Path | None:
        self._begin("lost_base")
        return self.lost_bases.get(instance_uuid)

    def bases_in_use(self) -> frozenset[str]:
        self._begin("bases_in_use")
        return self.bases

    def bound_console_logs(self) -> None:
        self._begin("bound_console_logs")

    def guest_state(self, instance_uuid: str) -> GuestState | None:
        self._begin("power_state")
        own_domain = self._domains.get(instance_uuid)
        return (
            GuestState(PowerState(own_domain[1].power_state), reason_of(own_domain[1].reason))
            if own_domain is not None
            else None
        )

    def guests_in_trouble(self) -> dict[str, GuestState]:
        self._begin("guests_in_trouble")
        return {
            uuid: GuestState(PowerState(domain.power_state), reason_of(domain.reason))
            for uuid, (_, domain) in self._domains.items()
            if reason_of(domain.reason) in FAULTS
        }

    def go_on(self, instance_uuid: str) -> bool:
        self._begin("go_on")
        if self._domains[instance_uuid][1].reason == GuestReason.DISK_FULL and self.has_space:
            self.turn(instance_uuid, PowerState.RUNNING)
        return self.has_space

    def power_state(self, instance_uuid: str) -> PowerState | None:
        self._begin("power_state")
        own_domain = self._domains.get(instance_uuid)
        return PowerState(own_domain[1].power_state) if own_domain is not None else None

    def console_output(self, instance_uuid: str, tail_length: int | None) -> str:
        if instance_uuid not in self._domains:
            raise errors.NotFound(f"Domain {instance_uuid}")
        lines = ["booting", "ready"]
        return "\n".join(lines if tail_length is None else lines[-tail_length:])

    def uptime(self) -> str:
        self._begin("uptime")
        return " 08:32:11 up 93 days, 18:25, 12 users,  load average: 0.20, 0.12, 0.14\n"

    def diagnostics(self, instance_uuid: str) -> GuestDiagnostics:
        self._begin("diagnostics")
        if instance_uuid not in self._domains:
            raise errors.NotFound(f"Domain {instance_uuid}")
        return GuestDiagnostics(driver="libvirt", memory_kb=131072)

    def console(self, instance_uuid: str, console_type: ConsoleType) -> ConsoleAddress:
        self._begin("console")
        if instance_uuid not in self._domains:
            raise errors.NotFound(f"Domain {instance_uuid}")
        return ConsoleAddress(host="127.0.0.1", port=5900)

    def cpu_times(self, node: str) -> CpuTimes | None:
        self._begin("cpu_times")
        return self.cpus

    def overhead(self, flavor: Flavor) -> Overhead:
        return self.extra

    def chosen_hardware(self, instance_uuids: Sequence[str]) -> dict[str, ChosenHardware]:
        return {uuid: self.hardware[uuid] for uuid in instance_uuids if uuid in self.hardware}

    def watch(self, changed: Callable[[str, PowerState], None]) -> None:
        self._changed = changed

    def close(self) -> None:
        self.closed = True


class BlindHypervisor(Hypervisor):
    """It knows nothing of its resources."""

    reports_resources: ClassVar[bool] = False
