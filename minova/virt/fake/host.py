"""The resources of a fake host."""

import time
from typing import ClassVar, NamedTuple

from oslo_config import cfg

from minova import errors
from minova.hardware.cpu_sets import cpu_sets
from minova.hardware.guest.features import NEED_SECRETS
from minova.objects.catalogue.flavor import Flavor, Overhead
from minova.objects.catalogue.guest_hardware import DISK_BUSES, SECURE_BOOT, UEFI, VIF_MODELS
from minova.objects.hosts.compute_node import AvailableResources
from minova.objects.hosts.cpu_times import CpuTimes
from minova.objects.hosts.numa import NUMACell, NUMAPages, NUMATopology
from minova.objects.servers.states import PowerState
from minova.virt.fake.records import FakeRecords
from minova.virt.uptime import uptime

HYPERVISOR_VERSION = 1

# Everything that a guest may request by its image or flavor.
_TRAITS = (
    "COMPUTE_FIRMWARE_BIOS",
    UEFI,
    SECURE_BOOT,
    *(f"COMPUTE_GRAPHICS_MODEL_{model}" for model in ("BOCHS", "CIRRUS", "NONE", "QXL", "VGA", "VIRTIO", "VMVGA")),
    *(f"COMPUTE_NET_VIF_MODEL_{model}".upper() for model in VIF_MODELS),
    *(f"COMPUTE_STORAGE_BUS_{bus}".upper() for bus in DISK_BUSES),
    *(f"COMPUTE_SOUND_MODEL_{model}" for model in ("SB16", "ES1370", "AC97", "ICH6", "ICH9", "USB")),
    *(f"COMPUTE_USB_MODEL_{model}" for model in ("NEC_XHCI", "QEMU_XHCI")),
    *(f"COMPUTE_VIOMMU_MODEL_{model}" for model in ("INTEL", "VIRTIO", "AUTO")),
    *sorted(NEED_SECRETS),
    "COMPUTE_NET_VIRTIO_PACKED",
    "COMPUTE_SECURITY_STATELESS_FIRMWARE",
    "COMPUTE_ADDRESS_SPACE_EMULATED",
)

SMALL_PAGE_KB = 4

_IDLE = CpuTimes(user=0, kernel=0, idle=0, iowait=0, frequency=1000)


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


class FakeHost(FakeRecords):
    reports_resources: ClassVar[bool] = True

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        super().__init__(conf)
        self._memory_mb = conf.fake_memory_mb
        self._vcpus, self._pcpus, self._cells = _cpus_of(conf)
        self._local_gb = conf.fake_local_gb
        self._networks = conf.networks
        self._started = time.monotonic_ns()
        self._cpu_times: dict[str, tuple[int, CpuTimes]] = {}

    def init_host(self, host: str) -> None:
        self._begin("init_host")

    def recognise(self, former_hosts: tuple[str, ...]) -> None:
        """Does nothing: the recorded domains are not marked with a host."""

    def available_nodes(self) -> tuple[str, ...]:
        self._begin("available_nodes")
        return self.nodes

    def host_view(self, node: str) -> AvailableResources:
        """Raises NotFound if there is no such node."""
        with self._lock:
            self._begin("host_view")
            if node not in self.nodes:
                raise errors.NotFound(f"Node {node} is not one of {', '.join(self.nodes)}")
            on_node = [domain for domain in self._domains.values() if self._is_on(domain, node)]
        disk = sum(domain.disk_gb for domain in on_node)
        return AvailableResources(
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
        """All configured bridges exist."""
        return dict(self._networks.bridge_mappings)

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
            before, former_times = self._cpu_times.get(node, (self._started, _IDLE))
            now = time.monotonic_ns()
            passed, busy = now - before, min(sum(domain.vcpus for domain in running), self._vcpus)
            times = CpuTimes(
                user=former_times.user + passed * busy * 3 // 4,
                kernel=former_times.kernel + passed * busy // 4,
                idle=former_times.idle + passed * (self._vcpus - busy),
                iowait=0,
                frequency=1000,
            )
            self._cpu_times[node] = (now, times)
            return times

    def uptime(self) -> str:
        self._begin("uptime")
        return uptime()

    def overhead(self, flavor: Flavor) -> Overhead:
        return Overhead()

    def close(self) -> None:
        with self._lock:
            self._changed.clear()
