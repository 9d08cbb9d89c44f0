"""One virtual machine, as services send it to each other."""

from datetime import datetime

import msgspec

from minova.objects.catalogue.flavor import Flavor
from minova.objects.catalogue.image import Image
from minova.objects.hosts.numa import InstanceNUMATopology
from minova.objects.hosts.pci import InstancePCIRequest, PciDevice
from minova.objects.network.vif import Vif
from minova.objects.servers.states import EVACUABLE, EVACUATION_STEPS, PowerState, TaskState, VmState


class InstanceFault(msgspec.Struct, frozen=True, kw_only=True):
    """The last failure, shown by `server show` (OpenStack's `fault`)."""

    code: int
    message: str
    created_at: datetime
    details: str = ""


class Instance(msgspec.Struct, frozen=True, kw_only=True):
    """`host` and `node` are set by the compute's claim, not by the scheduler's choice, as in Nova.

    `numa_topology`: until the claim as requested, then as fitted to the host's cells. `network_info`: its interfaces in
    their order, as they were when the instance was read. `attempt`: the number of the last build attempt that the
    conductor has committed (0: none yet).
    """

    uuid: str
    display_name: str
    flavor: Flavor
    project_id: str = ""
    user_id: str = ""
    hostname: str = ""
    image_ref: str = ""
    image: Image | None = None
    vm_state: VmState = VmState.BUILDING
    task_state: TaskState | None = None
    power_state: PowerState = PowerState.NOSTATE
    host: str | None = None
    node: str | None = None
    availability_zone: str | None = None
    attempt: int = 0
    launch_index: int = 0
    reservation_id: str = ""
    metadata: dict[str, str] = {}
    system_metadata: dict[str, str] = {}
    user_data: str | None = None
    key_name: str | None = None
    key_data: str | None = None
    key_type: str | None = None
    config_drive: bool = False
    numa_topology: InstanceNUMATopology | None = None
    pci_requests: tuple[InstancePCIRequest, ...] = ()
    pci_devices: tuple[PciDevice, ...] = ()
    network_info: tuple[Vif, ...] = ()
    progress: int = 0
    created_at: datetime | None = None
    updated_at: datetime | None = None
    launched_at: datetime | None = None
    terminated_at: datetime | None = None
    deleted: bool = False
    fault: InstanceFault | None = None

    @property
    def is_evacuated(self) -> bool:
        """Whether it is in a state of an evacuation. A rebuild on its own host has the same states."""
        return self.vm_state in EVACUABLE and self.task_state in EVACUATION_STEPS
