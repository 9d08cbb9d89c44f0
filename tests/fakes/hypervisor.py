"""A hypervisor in memory, with any number of nodes, whose every operation a test can watch or make fail."""

import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import ClassVar

import msgspec

from minova import errors
from minova.objects.compute_node import DomainView, HypervisorView
from minova.objects.cpu_times import CpuTimes
from minova.objects.flavor import Flavor, Overhead
from minova.objects.instance import Instance
from minova.objects.states import PowerState
from minova.virt.driver import NO_ROW, RowHost


def nothing(operation: str) -> None:
    """The hook that does nothing."""


class Hypervisor:
    """Implements `virt.driver.Driver`. `on_call` is told each operation before it works; what it raises is raised."""

    reports_resources: ClassVar[bool] = True

    def __init__(self, *nodes: str, vcpus: int = 16, memory_mb: int = 8704, local_gb: int = 200) -> None:
        self.nodes = nodes
        self.size = {"vcpus": vcpus, "memory_mb": memory_mb, "local_gb": local_gb}
        self.extra = Overhead()
        self.wants_image = False
        self.on_call: Callable[[str], None] = nothing
        self.calls: list[str] = []
        self.images: dict[str, Path | None] = {}
        self.closed = False
        self.bases: frozenset[str] = frozenset()
        self.cpus: CpuTimes | None = None
        self.shared = False
        self.owned: set[str] = set()
        self.destroyed: list[tuple[str, RowHost]] = []
        self._domains: dict[str, tuple[str, DomainView]] = {}
        self._changed: Callable[[str, PowerState], None] | None = None
        self._lock = threading.RLock()

    def _note(self, operation: str) -> None:
        self.calls.append(operation)
        self.on_call(operation)

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

    def turn(self, uuid: str, state: PowerState) -> None:
        """The domain's state changes from inside, and the driver says so."""
        node, domain = self._domains[uuid]
        self._domains[uuid] = (node, msgspec.structs.replace(domain, power_state=state))
        if self._changed is not None:
            self._changed(uuid, state)

    # -- what a compute asks ---------------------------------------------------------------------------------------

    def init_host(self, host: str) -> None:
        self._note("init_host")

    def recognise(self, former_hosts: tuple[str, ...]) -> None:
        pass

    def available_nodes(self) -> tuple[str, ...]:
        self._note("available_nodes")
        return self.nodes

    def host_view(self, node: str) -> HypervisorView:
        self._note("host_view")
        return HypervisorView(
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
        )

    def domains(self) -> tuple[DomainView, ...]:
        self._note("domains")
        return tuple(domain for _, domain in self._domains.values())

    def needs_image(self) -> bool:
        return self.wants_image

    def prepare(self, instance: Instance, node: str, attempt: int, image_path: Path | None) -> None:
        self._note("prepare")
        self.images[instance.uuid] = image_path
        known = self._domains.get(instance.uuid)
        running = known is not None and known[1].power_state is PowerState.RUNNING
        self.add_domain(instance.uuid, node, instance.flavor.memory_mb, attempt=attempt, running=running)

    def power_on(self, instance: Instance) -> PowerState:
        self._note("power_on")
        with self._lock:
            node, domain = self._domains[instance.uuid]
            self._domains[instance.uuid] = (node, msgspec.structs.replace(domain, power_state=PowerState.RUNNING))
        return PowerState.RUNNING

    def destroy(self, instance_uuid: str, row: RowHost = NO_ROW) -> None:
        self._note("destroy")
        self._domains.pop(instance_uuid, None)
        self.destroyed.append((instance_uuid, row))

    def shares_disks(self) -> bool:
        return self.shared

    def own_disks(self, instance_uuids: Iterable[str]) -> None:
        self.owned.update(instance_uuids)

    def power_off(self, instance_uuid: str, timeout: float = 0.0, cancelled: threading.Event | None = None) -> None:
        self._note("power_off")
        if instance_uuid in self._domains:
            self.turn(instance_uuid, PowerState.SHUTDOWN)

    def bases_in_use(self) -> frozenset[str]:
        self._note("bases_in_use")
        return self.bases

    def bound_console_logs(self) -> None:
        self._note("bound_console_logs")

    def power_state(self, instance_uuid: str) -> PowerState | None:
        self._note("power_state")
        found = self._domains.get(instance_uuid)
        return PowerState(found[1].power_state) if found is not None else None

    def console_output(self, instance_uuid: str, tail_length: int | None) -> str:
        if instance_uuid not in self._domains:
            raise errors.NotFound(f"Domain {instance_uuid}")
        lines = ["booting", "ready"]
        return "\n".join(lines if tail_length is None else lines[-tail_length:])

    def cpu_times(self, node: str) -> CpuTimes | None:
        self._note("cpu_times")
        return self.cpus

    def overhead(self, flavor: Flavor) -> Overhead:
        return self.extra

    def watch(self, changed: Callable[[str, PowerState], None]) -> None:
        self._changed = changed

    def close(self) -> None:
        self.closed = True


class BlindHypervisor(Hypervisor):
    """It knows nothing of its resources."""

    reports_resources: ClassVar[bool] = False
