"""Which phase of a live migration follows which. Pure.

    schedule --> (queue) --> describe --> check --> prepare --> migrate --> (land --> hold) ==> arrive --> leave --> (completed)
                                |           | no       | no        | no                '--> ERROR at the destination
                                |     next alternate   |           v
                                '--------------------> stay   look, look there: what both sides have of the guest
                                                       |                 |
                                                       '--> discard      '--> stay, arrive, halt there, close, ERROR: the resolver's verdict
                                                               |
                                                               '--> (error, cancelled)

`==>`: the row changes its host. A next alternate that is busy: queue, and describe.

A destination that is fenced in `arrive`, or has nothing of the guest: look, look there. The row has the source again with `stay`.
"""

from collections.abc import Mapping

import msgspec

from minova.conductor.moves.plan import PASSING, Loss, MoveEnd, MovePlan, keeps_other_copy
from minova.conductor.moves.resolver import MoveVerdict, Side, resolve
from minova.objects.servers.failures import Failure
from minova.objects.servers.live_migration import GuestReport, GuestSide, LiveMode
from minova.objects.servers.migration import Migration
from minova.objects.servers.moves import MovePhase
from minova.objects.servers.states import VmState

replace = msgspec.structs.replace
_NEXT: Mapping[MovePhase, MovePhase | MoveEnd] = {
    MovePhase.DESCRIBE: MovePhase.CHECK,
    MovePhase.CHECK: MovePhase.PREPARE,
    MovePhase.PREPARE: MovePhase.MIGRATE,
    MovePhase.MIGRATE: MovePhase.ARRIVE,  # see `after_leaving`
    MovePhase.LAND: MovePhase.HOLD,
    MovePhase.HOLD: MovePhase.ARRIVE,
    MovePhase.ARRIVE: MovePhase.LEAVE,
    MovePhase.LEAVE: MoveEnd.COMPLETED,
    MovePhase.LOOK: MovePhase.LOOK_THERE,
    MovePhase.DISCARD: MoveEnd.FAILED,
    # The row names the source: the guest at the destination is the one that nothing else would ever stop.
    MovePhase.HALT_THERE: MovePhase.HALT,
    MovePhase.HALT: MoveEnd.LOST,
    MovePhase.CLOSE: MoveEnd.BROKEN,
}
_AFTER_FAILURE: Mapping[MovePhase, MovePhase | MoveEnd] = {
    MovePhase.SCHEDULE: MoveEnd.FAILED,
    MovePhase.DESCRIBE: MovePhase.STAY,
    MovePhase.CHECK: MovePhase.STAY,
    MovePhase.PREPARE: MovePhase.STAY,
    MovePhase.MIGRATE: MovePhase.LOOK,
    MovePhase.LAND: MovePhase.LOOK,
    MovePhase.HOLD: MovePhase.LOOK,
    MovePhase.ARRIVE: MoveEnd.BROKEN,
    MovePhase.LEAVE: MoveEnd.COMPLETED,  # the source pays later
    MovePhase.DISCARD: MoveEnd.FAILED,
    # Only if the host is fenced: see `waits`.
    MovePhase.HALT_THERE: MovePhase.HALT,
    MovePhase.HALT: MoveEnd.LOST,
    MovePhase.CLOSE: MoveEnd.BROKEN,  # the source ends its guest later
}
# A host's phases of live migrations.
PHASES = frozenset({*_NEXT, MovePhase.STAY, MovePhase.LOOK_THERE})
# In these phases a host that cannot do its part is asked again.
REPEATED = frozenset({MovePhase.LOOK, MovePhase.LOOK_THERE})
STALLED = "PostCopyFailed"
# How often a destination is asked to let a guest go on that is whole there, before the server is in ERROR: for about 15 minutes. Afterwards
# a hard reboot, which loses its memory, is possible.
MOST_ARRIVALS = 60
_HALTS = frozenset({MovePhase.HALT, MovePhase.HALT_THERE})


def first_phase(plan: MovePlan) -> MovePhase:
    """Returns the first phase with a destination at which the move need not wait. The source has just described the guest if this is an
    alternate. After a wait it describes it anew: what it serves ends with its process, and its guest changes.
    """
    return MovePhase.DESCRIBE if plan.live_source is None else MovePhase.CHECK


def after_success(plan: MovePlan, migration: Migration) -> MovePhase | MoveEnd:
    if plan.phase is MovePhase.STAY:
        return MovePhase.DISCARD if plan.claimed and not keeps_other_copy(plan) else MoveEnd.FAILED
    return _NEXT[plan.phase]


def after_leaving(*, handing_over: bool) -> MovePhase:
    """Returns what follows when the guest has left its source. `handing_over`: libvirt has yet to end it there. Then it has left only if the
    destination has it whole. The source holds its disks after that, not before: QEMU must be able to go on with them if it cannot hand
    the guest over.
    """
    return MovePhase.LAND if handing_over else MovePhase.ARRIVE


def after_failure(plan: MovePlan, migration: Migration) -> MovePhase | MoveEnd:
    if plan.phase is MovePhase.QUEUE:
        # Before a further attempt the source still serves the files that it has described.
        return MoveEnd.FAILED if plan.live_source is None else MovePhase.STAY
    if plan.phase is MovePhase.STAY:
        # Before the guest has begun to leave, it runs as before whatever this phase could not do.
        return MoveEnd.LOST if plan.doubted else MoveEnd.FAILED
    return _AFTER_FAILURE[plan.phase]


def waits(plan: MovePlan, migration: Migration, failure: Failure, guest: GuestReport | None = None) -> bool:
    """Returns whether the host of this phase is asked again after this failure. No other host can do the work instead. `guest`: what the
    host has reported of it beside the failure.
    """
    if plan.phase in _HALTS:
        return True
    if plan.phase is MovePhase.ARRIVE and _is_whole(guest, migration.attempt) and plan.asks < MOST_ARRIVALS:
        return True
    if plan.phase in {MovePhase.ARRIVE, MovePhase.CLOSE} or (plan.phase is MovePhase.STAY and plan.doubted):
        return failure.kind in PASSING
    return plan.phase is MovePhase.STAY and failure.kind == "GuestBusy"


def is_elsewhere(plan: MovePlan, migration: Migration, failure: Failure, guest: GuestReport | None = None) -> bool:
    """Returns whether the host of this phase does not have the guest that it should have, so that both hosts are asked what they have.
    `guest`: what the host has reported of it beside the failure.
    """
    if plan.phase is MovePhase.ARRIVE:
        return _may_go_back(plan, migration) and guest is not None and guest.side is GuestSide.ABSENT
    return plan.phase is MovePhase.STAY and not plan.doubted and failure.kind == "GuestMissing"


def _may_go_back(plan: MovePlan, migration: Migration) -> bool:
    """Whether the source can have the guest again after the switch. Shared disks are the destination's from then on. A migration that an
    earlier release has begun does not say which attempt the source has.
    """
    return not _is_shared(plan) and migration.old_attempt > 0


def after_loss(plan: MovePlan, migration: Migration, loss: Loss) -> MovePhase | MoveEnd | None:
    """Returns what follows when the host of this phase is lost; None: the move waits for it. A guest may run on a host
    that is only silent.
    """
    match plan.phase:
        case MovePhase.CHECK | MovePhase.PREPARE | MovePhase.LEAVE | MovePhase.DISCARD | MovePhase.CLOSE:
            return after_failure(plan, migration)
        case _ if loss is Loss.SILENT:
            return None
        case MovePhase.MIGRATE | MovePhase.HOLD | MovePhase.LOOK:
            return MovePhase.LOOK_THERE
        case MovePhase.LAND:
            return MovePhase.LOOK
        case MovePhase.ARRIVE if _may_go_back(plan, migration):
            return MovePhase.LOOK
        case MovePhase.DESCRIBE:
            return MoveEnd.FAILED
        case MovePhase.STAY if plan.doubted and not _is_shared(plan):
            # The destination's copy of the disks may be whole. It is older than the source's, so it does not run; but it is held.
            return MoveEnd.FAILED
        case MovePhase.STAY:
            return after_success(plan, migration)
        case _:
            return after_failure(plan, migration)


def after_report(plan: MovePlan, report: GuestReport | None) -> MovePhase:
    """Returns what follows the source's report of its guest. A migration that has gone on in libvirt is watched again, and obeys
    orders again. The destination is asked first, so that a source that cannot join it is not asked without a pause.
    """
    goes_on = report is not None and report.moving and report.side in _HERE
    return MovePhase.MIGRATE if goes_on and plan.asks > 1 and not plan.cancelled else MovePhase.LOOK_THERE


def after_look(plan: MovePlan, migration: Migration, there: Side) -> MovePhase | MoveEnd | None:
    """Returns what the reports of both sides decide; None: they are asked again."""
    source = source_of(plan)
    if plan.failure is not None and plan.failure.kind == STALLED:
        source, there = _stalled(source), _stalled(there)
    verdict = resolve(source, there, new_attempt=migration.attempt, shared=_is_shared(plan))
    match verdict:
        case MoveVerdict.WAIT:
            return None
        case MoveVerdict.SOURCE:
            return MovePhase.STAY
        case MoveVerdict.DESTINATION:
            return MovePhase.ARRIVE
        case MoveVerdict.BOTH:
            return MovePhase.HALT_THERE
        case MoveVerdict.BROKEN:
            if not _is_there(there.judged):
                return MoveEnd.LOST
            return MoveEnd.BROKEN if plan.guest is None else MovePhase.CLOSE
        case MoveVerdict.LOST:
            # The guest of a host that is down is where its row says, as any other guest of that host.
            return MoveEnd.FAILED if plan.guest is None else MoveEnd.LOST


def denies_fence(plan: MovePlan, migration: Migration, there: GuestReport | None) -> bool:
    """Whether this report of a destination that is forced down counts, and not the fence: its guest runs there, and another one that is
    started at the source would be the second one. The move waits until the host is off, so that it says nothing.

    A source that has the guest as it was before starts none by the fence. So what a stolen host says does not halt it. On shared disks it
    does: two guests may have written them.
    """
    if there is None or there.side not in _RUNS_THERE:
        return False
    before = GuestSide.PAUSED if migration.old_vm_state is VmState.PAUSED else GuestSide.RUNNING
    is_as_before = plan.guest is not None and plan.guest.side is before and not plan.guest.moving
    return not is_as_before or _is_shared(plan)


def end_of(end: MoveEnd, migration: Migration) -> MoveEnd:
    """Returns how a live migration ends. A server that neither host can run stays with the destination once its row has it."""
    return MoveEnd.BROKEN if migration.has_switched and end in {MoveEnd.FAILED, MoveEnd.LOST} else end


def source_of(plan: MovePlan) -> Side:
    """Returns what is known of the source once the destination is asked: its report, or that it is fenced."""
    return Side(report=plan.guest, fenced=plan.guest is None)


_RUNS_THERE = frozenset({GuestSide.RUNNING, GuestSide.POST_COPY})
# The guest has not been handed over.
_HERE = frozenset({GuestSide.RUNNING, GuestSide.PAUSED})


def _is_shared(plan: MovePlan) -> bool:
    """Whether both hosts have the same disks."""
    return plan.live_destination is not None and plan.live_destination.mode is LiveMode.SHARED


def _stalled(side: Side) -> Side:
    """Returns the side with a post-copy in which nothing has arrived for too long as one that has failed: libvirt does not notice a
    cut network.
    """
    report = side.report
    if report is None or report.side is not GuestSide.POST_COPY:
        return side
    return replace(side, report=replace(report, side=GuestSide.POST_COPY_FAILED, moving=False))


def _is_whole(report: GuestReport | None, attempt: int) -> bool:
    return report is not None and report.side in _HERE and report.attempt == attempt


def _is_there(report: GuestReport | None) -> bool:
    return report is not None and report.side is not GuestSide.ABSENT
