"""What a host records of guests that move: what it holds for them, and the guests themselves."""

import msgspec

from minova import errors
from minova.compute.guest_records import GuestRecords
from minova.compute.instances.domains import is_newer, pause_stray
from minova.compute.tracker.nodes import Nodes
from minova.context import RequestContext
from minova.objects.actions.power_rules import ON
from minova.objects.servers.instance import Instance
from minova.objects.servers.migration import Migration
from minova.objects.servers.moves import MoveMessage
from minova.objects.servers.states import PowerState, VmState
from minova.objects.unexpected.guest_record import GuestRecord
from minova.virt.driver import ComputeDriver
from minova.virt.driver.domains import RowHost


class MoveRecords:
    def __init__(self, driver: ComputeDriver, nodes: Nodes, records: GuestRecords) -> None:
        self._driver = driver
        self._nodes = nodes
        self._records = records

    def note(self, ctx: RequestContext, instance: Instance, migration: Migration, node: str) -> None:
        self._nodes.tracker(node).note_move(ctx, instance, migration)

    def note_settled(self, ctx: RequestContext, instance: Instance, migration: Migration, node: str) -> None:
        """As `note`, where the move ends for this host with this phase: the instance counts as one at rest."""
        self._nodes.tracker(node).note_move(ctx, instance, migration, _settled(instance, migration))

    def note_left(self, ctx: RequestContext, move: MoveMessage) -> None:
        """The row names the destination now. Here the migration holds what a revert needs."""
        migration = msgspec.structs.replace(move.migration, has_switched=True)
        at_destination = msgspec.structs.replace(move.instance, host=migration.dest_compute, node=migration.dest_node)
        self.note(ctx, at_destination, migration, migration.source_node)

    def note_given_up(self, ctx: RequestContext, move: MoveMessage) -> None:
        """The move has ended, or goes to another host, since this destination has claimed."""
        migration = msgspec.structs.replace(move.migration, status="error")
        self.note(ctx, move.instance, migration, migration.dest_node or "")

    def note_leaving(self, move: MoveMessage) -> None:
        """The guest begins to leave. A restored database may know neither the migration nor its destination."""
        record = self._records.of(move.instance.uuid)
        if record is not None:
            self._records.keep(msgspec.structs.replace(record, left_for=move.migration.dest_compute))

    def keep(self, instance: Instance, migration: Migration, node: str, state: PowerState) -> None:
        """Records the moved guest, so that a restored database can recognise it. On the same host its actions stay recorded."""
        record = self._records.of(instance.uuid) or GuestRecord(instance=instance, attempt=0, node=node)
        after = msgspec.structs.replace(_settled(instance, migration), power_state=state)
        accepted = record.accepted and record.attempt == migration.attempt
        self._records.keep(
            msgspec.structs.replace(record, instance=after, attempt=migration.attempt, node=node, accepted=accepted)
        )

    def require_none_newer(self, move: MoveMessage) -> None:
        """Raises GuestStateUnexpected if the destination has a guest of the instance that runs, or files that are newer than those at the
        source, before the move has brought any. A restored database, or an operator, has taken the instance from it, and numbers of lost
        attempts are given again: the disks that are to come would replace those files, or be taken for them.
        """
        uuid, attempt = move.instance.uuid, move.migration.old_attempt
        if self._driver.power_state(uuid) in ON:
            raise errors.GuestStateUnexpected(f"Another guest of instance {uuid} runs here")
        if is_newer(self._driver, self._records, uuid, attempt):
            raise errors.GuestStateUnexpected(
                f"Files of instance {uuid} are here that are newer than its attempt {attempt}: they are left as they are"
            )

    def note_accepted(self, ctx: RequestContext, move: MoveMessage) -> None:
        """The row names this host with the attempt of its guest."""
        self._records.accepted(move.instance.uuid, move.migration.attempt)

    def pause_stray(self, ctx: RequestContext, move: MoveMessage) -> None:
        """The guest has begun to run here, but another host has the server by now, because this one was forced down without being off."""
        pause_stray(self._driver, move.instance.uuid)

    def remove(self, instance_uuid: str, row_host: str | None, attempt: int | None) -> None:
        """Remove what this attempt, or an earlier one, has left here. Raises GuestStateUnexpected if a later one has brought the
        server back.
        """
        if is_newer(self._driver, self._records, instance_uuid, attempt):
            raise errors.GuestStateUnexpected(
                f"A later attempt than {attempt} has brought instance {instance_uuid} here"
            )
        self._driver.destroy(instance_uuid, RowHost(host=row_host))
        self._records.forget(instance_uuid)


def _settled(instance: Instance, migration: Migration) -> Instance:
    vm_state = VmState.RESIZED if migration.switched and not migration.is_live else migration.old_vm_state
    return msgspec.structs.replace(instance, vm_state=vm_state, task_state=None)
