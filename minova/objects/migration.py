"""A move of an instance from one node to another, or to another size on the same one: Nova's Migration.

accepted -> pre-migrating (the destination has claimed) -> migrating -> post-migrating -> finished
                                     finished -> confirming -> confirmed | reverting -> reverted
                                     any -> error
"""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

import msgspec

from minova.objects.flavor import Flavor
from minova.objects.instance import Instance
from minova.objects.numa import InstanceNUMATopology
from minova.objects.pci import InstancePCIRequest
from minova.objects.states import State, TaskState, VmState


class MigrationType(StrEnum):
    MIGRATION = "migration"
    RESIZE = "resize"
    LIVE_MIGRATION = "live-migration"
    EVACUATION = "evacuation"


# While a migration of this type is done, until the instance has arrived or is back.
BEGUN: Mapping[MigrationType, TaskState] = {
    MigrationType.RESIZE: TaskState.RESIZE_PREP,
    MigrationType.MIGRATION: TaskState.RESIZE_PREP,
    MigrationType.LIVE_MIGRATION: TaskState.MIGRATING,
    MigrationType.EVACUATION: TaskState.REBUILDING,
}
# States in which it may begin, as in Nova; audits count no other instance (`minova.compute.accounting.migrations.is_moving`).
MOVABLE: Mapping[MigrationType, frozenset[VmState]] = {
    MigrationType.RESIZE: frozenset({VmState.ACTIVE, VmState.STOPPED}),
    MigrationType.MIGRATION: frozenset({VmState.ACTIVE, VmState.STOPPED}),
    MigrationType.LIVE_MIGRATION: frozenset({VmState.ACTIVE}),
    MigrationType.EVACUATION: frozenset({VmState.ACTIVE, VmState.STOPPED, VmState.ERROR}),
}


def transitions() -> dict[State, set[State]]:
    """States of instances that migrations lead from and to: begun, arrived, or back."""
    table: dict[State, set[State]] = {}
    for kind, vm_states in MOVABLE.items():
        for vm_state in vm_states:
            begun = (vm_state, BEGUN[kind])
            table.setdefault((vm_state, None), set()).add(begun)
            arrived = {(VmState.RESIZED, None), (VmState.ACTIVE, None), (VmState.STOPPED, None)}
            table.setdefault(begun, set()).update({(vm_state, None), *arrived})
    # Confirmed or reverted.
    table[VmState.RESIZED, None] = {(VmState.ACTIVE, None), (VmState.STOPPED, None)}
    return table


# Nothing is held for a migration before its destination has claimed, nor once it has ended.
NOT_IN_PROGRESS = frozenset(
    {"accepted", "queued", "confirmed", "reverted", "error", "failed", "completed", "cancelled", "done"}
)
# Nothing continues it.
ENDED = NOT_IN_PROGRESS - {"accepted", "queued"}
# The guest runs at the source as before.
UNTOUCHED = frozenset({"accepted", "queued", "pre-migrating"})
# From here on the instance is as the move makes it: its row says the destination and the new flavor.
SWITCHED = frozenset({"finished", "confirming", "reverting"})


class Place(NamedTuple):
    """A node of a host; None: not chosen yet."""

    host: str | None
    node: str | None


class Migration(msgspec.Struct, frozen=True, kw_only=True):
    """Old is what the source holds, new what the destination does; both with the topology that was fitted there.

    `old_vm_state`: the instance's before the move.
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
    created_at: datetime | None = None
    updated_at: datetime | None = None

    @property
    def in_progress(self) -> bool:
        return self.status not in NOT_IN_PROGRESS

    @property
    def succeeded(self) -> bool:
        """It has ended, and the instance is where it should go."""
        return self.status in {"confirmed", "completed", "done"}

    @property
    def new_vm_state(self) -> VmState:
        """The instance's when the move has succeeded: one that was stopped stays so, as in Nova."""
        return VmState.STOPPED if self.old_vm_state is VmState.STOPPED else VmState.ACTIVE

    @property
    def switched(self) -> bool:
        return self.status in SWITCHED

    @property
    def source(self) -> Place:
        return Place(self.source_compute, self.source_node)

    @property
    def dest(self) -> Place:
        return Place(self.dest_compute, self.dest_node)


class Moved(msgspec.Struct, frozen=True, kw_only=True):
    """Where a move stands after a step: the migration, and its instance as its row is now."""

    migration: Migration
    instance: Instance
