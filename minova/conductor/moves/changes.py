"""The transactions of a move: each enters a phase, or ends the move. Instance, migration, task, records, quota and
allocations of both sides change together.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from oslo_config import cfg
from sqlalchemy.orm import Session

from minova.backoff import Backoff
from minova.conductor.compute_messages import zones_of_hosts
from minova.conductor.moves import notices
from minova.conductor.moves.in_progress import LockedMove
from minova.conductor.moves.notices import MoveNotice
from minova.conductor.moves.plan import MoveEnd, MovePlan, host_of, is_in_doubt, is_local, may_be_open
from minova.conductor.notifications.instances import note
from minova.conductor.servers.finish import announce_hosts, release_old_size
from minova.conductor.tasks.worker import TaskWorker
from minova.context import RequestContext
from minova.db import quotas
from minova.db.models import Task
from minova.db.servers import actions, instances, migrations, state_changes, tasks
from minova.objects.servers.failures import Failure
from minova.objects.servers.instance import Instance
from minova.objects.servers.migration import BEGUN, Hold, Migration
from minova.objects.servers.moves import MigrationOrder, MoveMessage, MovePhase
from minova.objects.servers.states import PowerState, State, TaskState, VmState
from minova.placement.allocations import claims
from minova.placement.allocations.transfers import exchange, transfer

replace = msgspec.structs.replace
FAILED = "MoveFailed"
# Seconds until a host that has not reported is asked for the second time; then twice as long each time, up to the
# limit. A compute that restarts is asked at once, when it registers.
BACKOFF = Backoff(first=15.0, longest=30.0)
# Seconds until hosts say again what they have of a guest, or try again what the guest waits for.
BACKOFF_OF_LOOKS = Backoff(first=2.0, longest=15.0)
_WITH_KEY = frozenset({MovePhase.EXPORT, MovePhase.IMPORT, MovePhase.DESCRIBE, MovePhase.PREPARE})
_WITH_DESTINATION = frozenset({MovePhase.MIGRATE, MovePhase.HOLD})
_LOOKS = frozenset({MovePhase.LOOK, MovePhase.LOOK_THERE})
# Nova's events.
_EVENTS = {
    MovePhase.CLAIM: "compute_prep_resize",
    MovePhase.EXPORT: "compute_resize_instance",
    MovePhase.START: "compute_finish_resize",
    MovePhase.LEAVE: "compute_confirm_resize",
}
_EVENTS_OF_LIVE = {
    MovePhase.DESCRIBE: "compute_check_can_live_migrate_source",
    MovePhase.CHECK: "compute_check_can_live_migrate_destination",
    MovePhase.PREPARE: "compute_pre_live_migration",
    MovePhase.MIGRATE: "compute_live_migration",
    MovePhase.ARRIVE: "compute_post_live_migration_at_destination",
    MovePhase.DISCARD: "compute_rollback_live_migration_at_destination",
}
_EVENTS_OF_REVERT = {MovePhase.DISCARD: "compute_revert_resize", MovePhase.RESTORE: "compute_finish_revert_resize"}
_STATUS = {
    MovePhase.EXPORT: "migrating",
    MovePhase.IMPORT: "post-migrating",
    MovePhase.RELEASE: "post-migrating",
    MovePhase.START: "post-migrating",
    MovePhase.SHOW_THERE: "confirming",
    MovePhase.LEAVE: "confirming",
}
_STATUS_OF_LIVE = {
    MovePhase.QUEUE: "queued",
    MovePhase.DESCRIBE: "pre-migrating",
    MovePhase.CHECK: "pre-migrating",
    MovePhase.MIGRATE: "migrating",
    MovePhase.ARRIVE: "post-migrating",
}
# Failures of SHOW_THERE that say that the destination has no copy. The next try to confirm by itself comes later each time.
_NOTHING_TO_SHOW = frozenset({"GuestMissing", "GuestStateUnexpected"})
# The row has the destination from these phases on.
_SWITCHES = frozenset({MovePhase.START, MovePhase.ARRIVE})
_TASK_STATE = {
    MovePhase.EXPORT: TaskState.RESIZE_MIGRATING,
    MovePhase.IMPORT: TaskState.RESIZE_MIGRATED,
    MovePhase.START: TaskState.RESIZE_FINISH,
}


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A move that is about to enter a phase. `failure`: of the phase before. `changed`: fields of the plan."""

    move: LockedMove
    phase: MovePhase
    failure: Failure | None = None
    changed: Mapping[str, Any] = {}


class _Entered(msgspec.Struct, frozen=True, kw_only=True):
    """A move as it will be in its next phase."""

    entry: Entry
    plan: MovePlan
    migration: Migration

    @property
    def move(self) -> LockedMove:
        return self.entry.move

    @property
    def host(self) -> str | None:
        return host_of(self.plan.phase, self.migration)


class MoveChanges:
    """Each method runs inside the transaction of its caller, which holds the locks of the move.

    `timeout`: the seconds of a phase, which begin anew with each sign of life of its host.
    """

    def __init__(self, conf: cfg.ConfigOpts, worker: TaskWorker) -> None:
        self._worker = worker
        self.timeout = float(conf.conductor.action_timeout)

    # -- phases ----------------------------------------------------------------------------------------------------

    def enter(
        self, session: Session, move: LockedMove, phase: MovePhase, failure: Failure | None = None, **changed: Any
    ) -> MoveMessage:
        """Returns the message to the host of the phase. `changed`: fields of the plan."""
        (message,) = self.enter_all(session, [Entry(move=move, phase=phase, failure=failure, changed=changed)])
        return message

    def enter_all(self, session: Session, entries: Sequence[Entry]) -> list[MoveMessage]:
        """As `enter`, for different moves, which share their statements. Returns their messages in the same order."""
        if not entries:
            return []
        at, now = self._worker.at(), self._worker.now()
        entered = [self._entered(entry) for entry in entries]
        self._change_instances(session, entered)
        migrations.write_all(session, [step.migration for step in entered], at, now)
        for step in entered:
            notes = notices.of_step(step.move.plan, step.plan, step.migration, step.move.task.host, step.entry.failure)
            _note(session, step.migration, notes)
        self._change_events(session, entered)
        tasks.change(
            session,
            [(step.move.task, _task_in(step)) for step in entered],
            BACKOFF.first,
            now,
            deadline_in=self.timeout,
        )
        sides = ({step.migration.source_compute, step.migration.dest_compute} for step in entered)
        announce_hosts(session, set().union(*sides), now)
        return self._messages(session, [(step.migration, step.plan) for step in entered])

    def _entered(self, entry: Entry) -> _Entered:
        plan = replace(entry.move.plan, phase=entry.phase, asks=1, waits="", **entry.changed)
        if entry.failure is not None:
            plan = replace(plan, failure=plan.failure or entry.failure)
        if entry.phase is MovePhase.LOOK:
            plan = replace(plan, round=plan.round + 1)
        if entry.phase in {MovePhase.EXPORT, MovePhase.PREPARE}:
            plan = replace(plan, claimed=True)
        if entry.phase is MovePhase.STAY:
            plan = replace(plan, switched_back=entry.move.migration.has_switched)
        return _Entered(entry=entry, plan=plan, migration=self._migration_in(entry.move.migration, plan))

    def _change_instances(self, session: Session, entered: Iterable[_Entered]) -> None:
        steps: defaultdict[tuple[State, State], list[str]] = defaultdict(list)
        for step in entered:
            vm_state, before = step.move.instance.state
            if step.plan.phase in _SWITCHES:
                self._switch(session, step.move, step.migration)
            elif step.plan.phase is MovePhase.RESTORE and step.plan.reverting:
                self._give_back(session, step.migration, owed=step.plan.owed)
                self._switch_back(session, step.move, step.migration, step.migration.attempt)
            elif step.plan.phase is MovePhase.STAY and step.move.migration.has_switched:
                # The source's guest is the one that has been paused there: it has the attempt that it had.
                self._switch_back(session, step.move, step.migration, step.migration.old_attempt)
            elif step.plan.phase in _TASK_STATE:
                steps[(vm_state, before), (vm_state, _TASK_STATE[step.plan.phase])].append(step.move.uuid)
        for (state, after), uuids in steps.items():
            state_changes.transition(session, uuids, [state], after, updated_at=self._worker.at())

    def ask_again(self, session: Session, move: LockedMove) -> MoveMessage:
        plan = replace(move.plan, asks=move.plan.asks + 1, waits="")
        changed = {"payload": msgspec.to_builtins(plan)}
        tasks.change(session, [(move.task, changed)], BACKOFF.pause(plan.asks), self._worker.now())
        return self.message(session, move.migration, plan)

    def look_again(self, session: Session, move: LockedMove, failure: Failure | None) -> None:
        """Ask both sides of a live migration again, after a pause, because what they say decides nothing yet."""
        asks, number = move.plan.asks + 1, move.plan.round + 1
        plan, migration = replace(move.plan, phase=MovePhase.LOOK, asks=asks, round=number), move.migration
        if failure is not None:
            plan = _with_wait(session, move.task, plan, failure)
        changed = {
            "payload": msgspec.to_builtins(plan),
            "host": migration.source_compute,
            "node": migration.source_node,
        }
        pause = BACKOFF_OF_LOOKS.pause(plan.asks)
        tasks.change(session, [(move.task, changed)], pause, self._worker.now(), deadline_in=self.timeout)

    def wait(self, session: Session, move: LockedMove, failure: Failure, pause: float = BACKOFF.longest) -> None:
        """The move waits for its host, which is asked again after so many seconds."""
        changed = {"payload": msgspec.to_builtins(_with_wait(session, move.task, move.plan, failure))}
        tasks.change(session, [(move.task, changed)], pause, self._worker.now(), deadline_in=self.timeout)

    def give_time(self, session: Session, move: LockedMove) -> None:
        """The host works on it. Its time begins anew."""
        pause = BACKOFF.pause(move.plan.asks)
        changed = {"host": move.task.host}
        tasks.change(session, [(move.task, changed)], pause, self._worker.now(), deadline_in=self.timeout)

    def order(self, session: Session, move: LockedMove, order: MigrationOrder) -> None:
        """The source learns it when it reports the progress."""
        self.note_order(session, move, order)
        tasks.set_payload(session, move.task, msgspec.to_builtins(replace(move.plan, order=order)))

    def note_order(self, session: Session, move: LockedMove, order: MigrationOrder) -> None:
        _note(session, move.migration, notices.of_order(move.plan, order, move.migration))

    def record(self, session: Session, ctx: RequestContext, instance_uuid: str, action: str) -> None:
        """Show in the server's actions that a user has asked for it."""
        at = self._worker.at()
        row = {
            "instance_uuid": instance_uuid,
            "action": action,
            "request_id": ctx.request_id,
            "user_id": ctx.user_id,
            "project_id": ctx.project_id,
            "start_time": at,
        }
        actions.end(session, [actions.begin(session, [row])[instance_uuid]], at)

    def message(self, session: Session, migration: Migration, plan: MovePlan) -> MoveMessage:
        (message,) = self._messages(session, [(migration, plan)])
        return message

    def _messages(self, session: Session, moves: Sequence[tuple[Migration, MovePlan]]) -> list[MoveMessage]:
        moving = instances.by_uuids(session, [migration.instance_uuid for migration, _ in moves])
        zones = zones_of_hosts(session) if any(instance.config_drive for instance in moving.values()) else {}
        return [_message(moving[migration.instance_uuid], migration, plan, zones) for migration, plan in moves]

    def cleaning(self, session: Session, migration: Migration) -> MoveMessage | None:
        """Returns the request to remove what an ended move has left, or to end its guest; None: the instance is purged."""
        instance = instances.by_uuids(session, [migration.instance_uuid]).get(migration.instance_uuid)
        if instance is None:
            return None
        ends = migration.hold is Hold.OPEN and not instance.deleted
        phase = MovePhase.CLOSE if ends else MovePhase.LEAVE
        return MoveMessage(migration=migration, instance=instance, phase=phase)

    def _migration_in(self, migration: Migration, plan: MovePlan) -> Migration:
        phase = plan.phase
        if plan.reverting:
            if phase is MovePhase.RESTORE:
                # The source's guest is another attempt again, so that no report of the destination's counts any more.
                return replace(migration, status="reverted", has_switched=False, attempt=migration.attempt + 1)
            return replace(migration, status="reverting")
        if phase is MovePhase.STAY and migration.has_switched:
            return replace(migration, status="migrating", has_switched=False)
        status = (_STATUS_OF_LIVE if migration.is_live else _STATUS).get(phase, migration.status)
        return replace(migration, status=status, has_switched=migration.has_switched or phase in _SWITCHES)

    def _switch(self, session: Session, move: LockedMove, migration: Migration) -> None:
        """The row has the destination from now on, which has the whole copy; the source has reported that its guest is
        off.
        """
        vm_state, before = move.instance.state
        after = BEGUN[migration.migration_type] if migration.is_live else TaskState.RESIZE_FINISH
        state_changes.transition(
            session,
            [move.uuid],
            [(vm_state, before)],
            (vm_state, after),
            updated_at=self._worker.at(),
            host=migration.dest_compute,
            node=migration.dest_node,
            flavor=migration.new_flavor,
            numa_topology=migration.new_numa_topology,
            attempt=migration.attempt,
        )

    def _switch_back(self, session: Session, move: LockedMove, migration: Migration, attempt: int) -> None:
        """The destination has reported that its copy is gone, or it is fenced. `attempt`: of the source's guest."""
        state = move.instance.state
        state_changes.transition(
            session,
            [move.uuid],
            [state],
            state,
            updated_at=self._worker.at(),
            host=migration.source_compute,
            node=migration.source_node,
            flavor=migration.old_flavor,
            numa_topology=migration.old_numa_topology,
            attempt=attempt,
        )

    # -- ends ------------------------------------------------------------------------------------------------------

    def end(
        self,
        session: Session,
        move: LockedMove,
        end: MoveEnd,
        failure: Failure | None = None,
        power_state: PowerState | None = None,
        *,
        unclean: bool = False,
    ) -> None:
        """`failure`: of the last phase. `unclean`: its host has still to remove what it has."""
        at, now = self._worker.at(), self._worker.now()
        reason = move.plan.failure or failure
        if end in _SUCCESSES or (end is MoveEnd.REVERTED and failure is None and not move.plan.fell_back):
            reason = None
        if end is MoveEnd.BROKEN and not move.migration.has_switched:
            # The guest's memory is lost on its way: it can only start again at the destination.
            move = replace(move, migration=replace(move.migration, has_switched=True))
            self._switch(session, move, move.migration)
        migration = self._ended(move, end, unclean=unclean)
        if migration.cleanup_host is not None:
            migration = _what_stays(migration, end, move.plan, failure)
        if move.plan.phase is MovePhase.SHOW_THERE and failure is not None and failure.kind in _NOTHING_TO_SHOW:
            migration = replace(migration, refused=migration.refused + 1)
        migrations.write(session, migration, at, now)
        if end is MoveEnd.COMPLETED or (end is MoveEnd.FINISHED and power_state is PowerState.RUNNING):
            migrations.change_holds(session, [move.uuid], Hold.NONE, at, now)
        self._settle(session, move.instance.project_id, migration, end)
        values: dict[str, Any] = {} if power_state is None else {"power_state": int(power_state)}
        if end is MoveEnd.FINISHED:
            values["launched_at"] = at
        state = (_vm_state_after(end, move, failure), None)
        state_changes.transition(session, [move.uuid], [move.instance.state], state, updated_at=at, **values)
        if reason is not None:
            reason = _explained(reason)
            actions.add_faults(session, [move.uuid], at, replace(reason, kind=FAILED))
        if move.task.action_id is not None:
            actions.end(session, [move.task.action_id], at, error=reason)
        _note(session, migration, notices.of_end(move.plan, end, migration, move.task.host, failure, reason))
        tasks.remove(session, [move.uuid])
        announce_hosts(session, {migration.source_compute, migration.dest_compute}, now)

    def _ended(self, move: LockedMove, end: MoveEnd, *, unclean: bool) -> Migration:
        migration, plan = move.migration, move.plan
        match end:
            case MoveEnd.FINISHED | MoveEnd.REFUSED:
                return replace(migration, status="finished")
            case MoveEnd.CONFIRMED:
                return replace(migration, status="confirmed", cleanup_host=_other(migration.source_compute, unclean))
            case MoveEnd.REVERTED:
                return replace(migration, status="reverted", cleanup_host=_other(migration.dest_compute, plan.owed))
            case MoveEnd.BROKEN:
                leaves_host = not is_local(migration)
                return replace(migration, status="error", cleanup_host=_other(migration.source_compute, leaves_host))
            case MoveEnd.COMPLETED:
                return replace(migration, status="completed", cleanup_host=_other(migration.source_compute, unclean))
            case MoveEnd.FAILED | MoveEnd.LOST:
                status = "cancelled" if plan.cancelled else "error"
                return replace(migration, status=status, cleanup_host=_other(migration.dest_compute, unclean))

    def _settle(self, session: Session, project_id: str, migration: Migration, end: MoveEnd) -> None:
        """Gives back allocations and quota of the side that is over."""
        old, new = migration.old_flavor, migration.new_flavor
        if end in {MoveEnd.CONFIRMED, MoveEnd.BROKEN, MoveEnd.COMPLETED}:
            release_old_size(session, migration, project_id, self._worker.now())
        elif end in {MoveEnd.FAILED, MoveEnd.LOST}:
            self._give_back(session, migration, owed=migration.cleanup_host is not None)
            quotas.give(session, project_id, quotas.more_than(new, old))
        elif end is MoveEnd.REVERTED:
            quotas.give(session, project_id, quotas.more_than(new, old))

    def _give_back(self, session: Session, migration: Migration, *, owed: bool) -> None:
        """The instance holds again what the migration has kept for it, and nothing else. `owed`: the migration holds the destination's
        until the destination has removed its copy.
        """
        now = self._worker.now()
        if owed and exchange(session, migration.instance_uuid, migration.uuid, now):
            return
        claims.release(session, [migration.instance_uuid], now)
        transfer(session, migration.uuid, migration.instance_uuid, now)

    # -- records ---------------------------------------------------------------------------------------------------

    def _change_events(self, session: Session, entered: Iterable[_Entered]) -> None:
        """Ends the events of the phases before, and begins those of the next ones."""
        at = self._worker.at()
        ended: defaultdict[Failure | None, list[int]] = defaultdict(list)
        begun = []
        for step in entered:
            action_id = step.move.task.action_id
            if action_id is None:
                continue
            ended[step.entry.failure].append(action_id)
            if event := _events(step.migration, step.plan).get(step.plan.phase):
                begun.append({"action_id": action_id, "host": step.host, "start_time": at, "event": event})
        for failure, action_ids in ended.items():
            actions.end_events(session, action_ids, at, error=failure)
        if begun:
            actions.begin_events(session, begun)

    def end_event(self, session: Session, task: Task, failure: Failure | None) -> None:
        if task.action_id is not None:
            actions.end_events(session, [task.action_id], self._worker.at(), error=failure)


# Ends with which whatever failed on the way does not count.
_SUCCESSES = frozenset({MoveEnd.FINISHED, MoveEnd.CONFIRMED, MoveEnd.COMPLETED})


def _with_wait(session: Session, task: Task, plan: MovePlan, failure: Failure) -> MovePlan:
    """Says in the server's actions, once for each kind of failure, why the move waits. Returns the plan that knows it."""
    if plan.waits != failure.kind and task.action_id is not None:
        actions.explain_wait(session, task.action_id, failure)
    return replace(plan, waits=failure.kind)


def _events(migration: Migration, plan: MovePlan) -> Mapping[MovePhase, str]:
    if migration.is_live:
        return _EVENTS_OF_LIVE
    return _EVENTS_OF_REVERT if plan.reverting else _EVENTS


def _note(session: Session, migration: Migration, move_notices: Iterable[MoveNotice]) -> None:
    for notice in move_notices:
        kind, text = ("", "") if notice.failure is None else (notice.failure.kind, notice.failure.details)
        flavor = migration.new_flavor if notice.has_flavor else None
        note(session, notice.event, [migration.instance_uuid], notice.host, kind, text, flavor)


def _task_in(step: _Entered) -> dict[str, Any]:
    node = _node(step.plan.phase, step.migration)
    return {"payload": msgspec.to_builtins(step.plan), "host": step.host, "node": node}


def _message(instance: Instance, migration: Migration, plan: MovePlan, zones: Mapping[str, str]) -> MoveMessage:
    host = host_of(plan.phase, migration)
    return MoveMessage(
        migration=migration,
        instance=instance,
        phase=plan.phase,
        limits=plan.limits,
        export=plan.export if plan.phase is MovePhase.IMPORT else None,
        key=plan.key if plan.phase in _WITH_KEY else None,
        live_source=plan.live_source if plan.phase in {MovePhase.CHECK, MovePhase.PREPARE} else None,
        live_destination=plan.live_destination if plan.phase in _WITH_DESTINATION else None,
        block=plan.block,
        lacks_images=plan.lacks_images if plan.phase is MovePhase.EXPORT else (),
        availability_zone=zones.get(host or "", "") if instance.config_drive else "",
        round=plan.round if plan.phase in _LOOKS else None,
        switched_back=plan.switched_back if plan.phase is MovePhase.STAY else None,
    )


def _node(phase: MovePhase, migration: Migration) -> str | None:
    host = host_of(phase, migration)
    return migration.dest_node if host == migration.dest_compute else migration.source_node


def _other(host: str | None, unclean: bool) -> str | None:
    return host if unclean else None


def _vm_state_after(end: MoveEnd, move: LockedMove, failure: Failure | None) -> VmState:
    migration = move.migration
    match end:
        case MoveEnd.FINISHED | MoveEnd.REFUSED:
            return VmState.RESIZED
        case MoveEnd.CONFIRMED:
            return migration.vm_state_confirmed(move.instance.power_state)
        case MoveEnd.BROKEN | MoveEnd.LOST:
            return VmState.ERROR
        case MoveEnd.COMPLETED:
            return migration.old_vm_state
        case MoveEnd.REVERTED:
            return migration.old_vm_state if failure is None else VmState.ERROR
        case MoveEnd.FAILED:
            # The guest of a host that is down is where its row says, as any other guest of that host.
            is_off = move.plan.phase is MovePhase.RESTORE and failure is not None and failure.kind != "HostDown"
            return VmState.ERROR if is_off else migration.old_vm_state


def _explained(reason: Failure) -> Failure:
    return replace(reason, text=f"The server could not be moved. {reason.message}")


def _what_stays(migration: Migration, end: MoveEnd, plan: MovePlan, failure: Failure | None) -> Migration:
    """Returns the ended migration with what may become of the copy that has not been removed yet."""
    if is_in_doubt(end, plan, failure):
        return replace(migration, hold=_hold(end, plan, failure))
    if end is not MoveEnd.FAILED or not plan.stayed:
        return migration
    if failure is not None and failure.kind == "GuestStateUnexpected":
        # The destination has found the copy running: it may have written what the source has not.
        return replace(migration, hold=Hold.LAST)
    return replace(migration, stayed=True)


def _hold(end: MoveEnd, plan: MovePlan, failure: Failure | None) -> Hold:
    """Returns what holds the copy of a move that ends in doubt."""
    if end is MoveEnd.BROKEN and may_be_open(plan, failure):
        return Hold.OPEN
    # A start from the source's disks proves nothing about what the guest has written at the destination.
    return Hold.LAST if end is MoveEnd.FAILED and plan.may_have_run_there else Hold.UNPROVEN
