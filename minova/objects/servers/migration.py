"""A move of an instance to another node, or a resize on the same node: Nova's Migration.

accepted -> pre-migrating (the destination has claimed) -> migrating -> post-migrating -> finished
                                     of a live migration: -> queued -> pre-migrating, and last -> completed
                                     finished -> confirming -> confirmed | reverting -> reverted
                                     any -> error | cancelled (before the switch)

The phases of a move are in `moves.py`.
"""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

import msgspec

from minova.objects.catalogue.flavor import Flavor
from minova.objects.hosts.numa import InstanceNUMATopology
from minova.objects.hosts.pci import InstancePCIRequest
from minova.objects.servers.instance import Instance
from minova.objects.servers.states import EVACUABLE, PowerState, State, TaskState, VmState


class MigrationType(StrEnum):
    MIGRATION = "migration"
    RESIZE = "resize"
    LIVE_MIGRATION = "live-migration"
    EVACUATION = "evacuation"


# The task state while a migration of this type is in progress, until the instance has arrived or is back.
BEGUN: Mapping[MigrationType, TaskState] = {
    MigrationType.RESIZE: TaskState.RESIZE_PREP,
    MigrationType.MIGRATION: TaskState.RESIZE_PREP,
    MigrationType.LIVE_MIGRATION: TaskState.MIGRATING,
    MigrationType.EVACUATION: TaskState.REBUILDING,
}
# The states in which a migration may begin, as in Nova. Audits count instances in other states as not moving
# (`minova.compute.accounting.migrations.is_moving`).
MOVABLE: Mapping[MigrationType, frozenset[VmState]] = {
    MigrationType.RESIZE: frozenset({VmState.ACTIVE, VmState.STOPPED}),
    MigrationType.MIGRATION: frozenset({VmState.ACTIVE, VmState.STOPPED}),
    MigrationType.LIVE_MIGRATION: frozenset({VmState.ACTIVE, VmState.PAUSED}),
    MigrationType.EVACUATION: frozenset(EVACUABLE),
}


# The task states of a cold move in their order. The last one begins with the switch to the destination.
COLD_STEPS = (
    TaskState.RESIZE_PREP,
    TaskState.RESIZE_MIGRATING,
    TaskState.RESIZE_MIGRATED,
    TaskState.RESIZE_FINISH,
)
# The vm_state of a server whose move ends without a confirmation.
_MOVED = frozenset({VmState.ACTIVE, VmState.PAUSED, VmState.STOPPED})


def transitions() -> dict[State, set[State]]:
    """Returns the states of instances from which and to which migrations lead: begun, on their way, arrived, or back."""
    table: dict[State, set[State]] = {}
    for kind, vm_states in MOVABLE.items():
        steps = COLD_STEPS if BEGUN[kind] is COLD_STEPS[0] else (BEGUN[kind],)
        for vm_state in vm_states:
            table.setdefault((vm_state, None), set()).add((vm_state, steps[0]))
            arrived = {(VmState.RESIZED, None), (VmState.ERROR, None), *((state, None) for state in _MOVED)}
            for number, step in enumerate(steps):
                # The last one may repeat: the switch of a live migration does not change it, and a cold move whose
                # destination is lost after the switch goes back.
                later = {(vm_state, following) for following in (*steps[number + 1 :], steps[-1])}
                table.setdefault((vm_state, step), set()).update({(vm_state, None), *arrived, *later})
    # Confirmed or reverted.
    back: set[State] = {(VmState.ACTIVE, None), (VmState.STOPPED, None), (VmState.ERROR, None)}
    reverting: State = (VmState.RESIZED, TaskState.RESIZE_REVERTING)
    table[VmState.RESIZED, None] = {*back, reverting, (VmState.RESIZED, None)}
    table[reverting] = {*back, reverting, (VmState.RESIZED, None)}
    return table


# A migration holds no resources before its destination has claimed, and after it has ended.
NOT_IN_PROGRESS = frozenset(
    {"accepted", "queued", "confirmed", "reverted", "error", "failed", "completed", "cancelled", "done"}
)
# Statuses of migrations that nothing continues.
ENDED = NOT_IN_PROGRESS - {"accepted", "queued"}
# Statuses of migrations that have failed or were cancelled.
GIVEN_UP = frozenset({"error", "failed", "cancelled"})
# From these statuses on, the instance's row has the destination and the new flavor.
SWITCHED = frozenset({"finished", "confirming", "reverting"})


class Hold(StrEnum):
    """Why what a migration has left on `cleanup_host` may not be removed yet, unless the server is deleted.

    UNPROVEN: the row's host has not shown since that its own copy of the disks starts.
    OPEN: unproven, and a guest without its memory has the disks open there still.
    LAST: the last copy of what the disks had: the row's host has made its own anew from the image, or the guest may have gone on here
      after its source's disks were left, or beside it. An operator decides.
    """

    NONE = ""
    UNPROVEN = "unproven"
    OPEN = "open"
    LAST = "last"


class HostNode(NamedTuple):
    """A node of a host; None: not chosen yet."""

    host: str | None
    node: str | None


class Migration(msgspec.Struct, frozen=True, kw_only=True):
    """Old values are what the source holds, new values what the destination holds; both have the topology that was
    fitted there.

    `old_vm_state`: the instance's vm_state before the move.
    `attempt`: of the instance at the destination, and from the switch on in its row: each destination that is tried has
    the next number. 0: of a release before moves were tasks.
    `old_attempt`: of the guest at the source; 0: of a release that knew it of evacuations alone. After a failed evacuation, and if the
    source has its guest still whose live migration has switched, the instance's row has it again. The attempts from there to that of a
    failed evacuation were given up.
    `stops`: an evacuated server is stopped at its destination, even if it was not before.
    `has_switched`: the instance's row has the destination, whatever the status says.
    `cleanup_host`: the host that has still to remove what this move left there, after the end of the migration. Until
    then the migration keeps its allocation of that host.
    `hold`: whether it may do so already.
    `proven`: the row's host, or a later one, has started the guest from its own disks since. `hold` has ended by that.
    `stayed`: the live migration has failed, and its source has reported that the guest is there as before. A paused copy at the
    destination may be removed, since it was never seen running.
    `refused`: how often in a row the destination had no guest to show when the move was to be confirmed.
    """

    uuid: str
    instance_uuid: str
    migration_type: MigrationType
    status: str = "accepted"
    source_compute: str
    source_node: str
    dest_compute: str | None = None
    dest_node: str | None = None
    old_flavor: Flavor
    new_flavor: Flavor
    old_vm_state: VmState = VmState.ACTIVE
    old_numa_topology: InstanceNUMATopology | None = None
    new_numa_topology: InstanceNUMATopology | None = None
    new_pci_requests: tuple[InstancePCIRequest, ...] = ()
    attempt: int = 0
    old_attempt: int = 0
    stops: bool = False
    has_switched: bool = False
    cleanup_host: str | None = None
    hold: Hold = Hold.NONE
    proven: bool = False
    stayed: bool = False
    refused: int = 0
    created_at: datetime | None = None
    updated_at: datetime | None = None

    @property
    def in_progress(self) -> bool:
        return self.status not in NOT_IN_PROGRESS

    @property
    def is_evacuation(self) -> bool:
        return self.migration_type is MigrationType.EVACUATION

    @property
    def is_live(self) -> bool:
        return self.migration_type is MigrationType.LIVE_MIGRATION

    @property
    def succeeded(self) -> bool:
        """Whether it has ended with the instance at its destination."""
        return self.status in {"confirmed", "completed", "done"}

    @property
    def new_vm_state(self) -> VmState:
        """Returns the instance's vm_state after a successful move. A stopped instance stays stopped, as in Nova."""
        return VmState.STOPPED if self.stops or self.old_vm_state is VmState.STOPPED else VmState.ACTIVE

    def vm_state_confirmed(self, power_state: PowerState) -> VmState:
        """Returns the instance's vm_state once its move is confirmed. As in Nova, it may have been turned off or on since it has
        moved.
        """
        since = {PowerState.SHUTDOWN: VmState.STOPPED, PowerState.RUNNING: VmState.ACTIVE}
        return since.get(power_state, self.new_vm_state)

    @property
    def switched(self) -> bool:
        """Whether the instance's row has the destination, until the end of the migration."""
        return self.has_switched or self.status in SWITCHED

    @property
    def counts_larger(self) -> bool:
        """Whether the server stays on its node, which holds the larger of both sizes for it, and not both. Guests with NUMA cells have
        other CPUs and pages in each of their sizes.
        """
        return self.source == self.dest and self.old_numa_topology is None and self.new_numa_topology is None

    @property
    def source(self) -> HostNode:
        return HostNode(self.source_compute, self.source_node)

    @property
    def dest(self) -> HostNode:
        return HostNode(self.dest_compute, self.dest_node)


class MoveState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a move after a step: the migration, and its instance as its row is now."""

    migration: Migration
    instance: Instance
