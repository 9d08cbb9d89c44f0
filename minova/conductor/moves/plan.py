"""What a move's task keeps (`tasks.payload`), and which phase of a cold move follows which. Pure.

    schedule --> claim --> export --> import --> release ==> start --> (finished)      ==>  the row changes its host
                   | no      | no       | no       | no
                   v         '-- restore <'        '--> ERROR at the destination
              next alternate       |
              or as before         '--> discard --> (error)

    confirm:  show there --> leave --> (confirmed)
    revert:   show --> discard ==> restore --> (reverted)
              a side that has nothing to show: (finished), as before

On one host nothing is copied: `export` only shuts the guest down, and `start` follows.
"""

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from minova.objects.requests.request_spec import HostLimits, Selection
from minova.objects.servers.disk_export import DiskExport, TransferKey
from minova.objects.servers.failures import Failure
from minova.objects.servers.live_migration import GuestReport, GuestSide, LiveDestination, LiveSource
from minova.objects.servers.migration import Migration
from minova.objects.servers.moves import AT_DESTINATION, OF_NO_HOST, MigrationOrder, MovePhase


class MoveEnd(StrEnum):
    """COMPLETED: a live migration. FAILED: as before. BROKEN: in ERROR at the destination. LOST: in ERROR at the source.
    REFUSED: a finished move stays as it is.
    """

    FINISHED = "finished"
    CONFIRMED = "confirmed"
    REVERTED = "reverted"
    FAILED = "failed"
    BROKEN = "broken"
    COMPLETED = "completed"
    LOST = "lost"
    REFUSED = "refused"


class MovePlan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`host`: the requested destination. `forced`: no filter of the scheduler is asked about it.
    `alternates`: hosts left to try. `tried`: (host, node) of those that have failed.
    `key`, `export`: of the transfer of the disks.
    `failure`: why the move goes back. `cancelled`: because its user wants it.
    `reverting`: it takes back a finished move.
    `claimed`: the destination has claimed, and may have files of the guest.
    `owed`: the destination was fenced before it could remove its copy, or before it has said what it has of a guest that migrates live.
    `block`, `live_source`, `live_destination`, `lacks_images`: see `MoveMessage`.
    `guest`: what the source has of it, while the destination is asked; None: the source is fenced.
    `doubted`: the guest may have left. `may_have_run_there`: its destination was lost while it should continue the guest.
    `switched_back`: the row had the destination before. `stayed`: the source has reported that it has the guest as before.
    `order`: what users want of a live migration in progress.
    `round`: how often both hosts of a live migration were asked what they have of the guest. What was said in an earlier round may have
    changed since.
    `asks`: how often the host of this phase was asked. `waits`: the kind of failure of a host for which the move waits.
    """

    migration_uuid: str
    phase: MovePhase
    host: str | None = None
    forced: bool = False
    limits: HostLimits = HostLimits()
    alternates: tuple[Selection, ...] = ()
    tried: tuple[tuple[str, str], ...] = ()
    key: TransferKey | None = None
    export: DiskExport | None = None
    failure: Failure | None = None
    cancelled: bool = False
    reverting: bool = False
    claimed: bool = False
    owed: bool = False
    block: bool | None = None
    lacks_images: tuple[str, ...] = ()
    live_source: LiveSource | None = None
    live_destination: LiveDestination | None = None
    guest: GuestReport | None = None
    doubted: bool = False
    may_have_run_there: bool = False
    switched_back: bool = False
    stayed: bool = False
    order: MigrationOrder = MigrationOrder.NONE
    round: int = 0
    asks: int = 0
    waits: str = ""

    @property
    def fell_back(self) -> bool:
        """Whether the move is taken back because its destination is lost, and not because its user wants it."""
        return self.reverting and self.claimed


def host_of(phase: MovePhase, migration: Migration) -> str | None:
    if phase in OF_NO_HOST:
        return None
    return migration.dest_compute if phase in AT_DESTINATION else migration.source_compute


def is_local(migration: Migration) -> bool:
    """Whether the server stays on its node."""
    return migration.source == migration.dest


_NEXT: Mapping[MovePhase, MovePhase | MoveEnd] = {
    MovePhase.CLAIM: MovePhase.EXPORT,
    MovePhase.EXPORT: MovePhase.IMPORT,
    MovePhase.IMPORT: MovePhase.RELEASE,
    MovePhase.RELEASE: MovePhase.START,
    MovePhase.START: MoveEnd.FINISHED,
    MovePhase.SHOW_THERE: MovePhase.LEAVE,
    MovePhase.LEAVE: MoveEnd.CONFIRMED,
    MovePhase.SHOW: MovePhase.DISCARD,
}


def after_success(plan: MovePlan, migration: Migration) -> MovePhase | MoveEnd:
    match plan.phase:
        case MovePhase.EXPORT if is_local(migration):
            return MovePhase.START
        case MovePhase.DISCARD:
            return MovePhase.RESTORE if plan.reverting else MoveEnd.FAILED
        case MovePhase.RESTORE:
            if plan.reverting:
                return MoveEnd.REVERTED
            return MovePhase.DISCARD if plan.claimed else MoveEnd.FAILED
    return _NEXT[plan.phase]


def after_failure(plan: MovePlan, migration: Migration) -> MovePhase | MoveEnd:
    """Returns what follows if no alternate is left, or none may be tried."""
    match plan.phase:
        case MovePhase.SCHEDULE | MovePhase.CLAIM:
            return MoveEnd.FAILED
        case MovePhase.EXPORT | MovePhase.IMPORT | MovePhase.RELEASE:
            return MovePhase.RESTORE
        case MovePhase.START:
            return MoveEnd.BROKEN
        case MovePhase.SHOW | MovePhase.SHOW_THERE:
            return MoveEnd.REFUSED  # the other copy may be the only one
        case MovePhase.LEAVE:
            return MoveEnd.CONFIRMED  # the source pays later
        case MovePhase.DISCARD:
            return MoveEnd.FAILED
        case MovePhase.RESTORE:
            # The destination keeps its copy: it may be the only one that can be read.
            return MoveEnd.REVERTED if plan.reverting else MoveEnd.FAILED
    raise AssertionError(plan.phase)


def is_in_doubt(end: MoveEnd, plan: MovePlan, failure: Failure | None) -> bool:
    """Returns whether a move that ends now, with this failure of its last phase, leaves it open whether the row's host has a good
    copy of the disks. Then the other host's copy may be the only one.
    """
    if end in {MoveEnd.BROKEN, MoveEnd.LOST} or plan.phase in {MovePhase.LOOK, MovePhase.LOOK_THERE}:
        return True
    if plan.phase is MovePhase.STAY:
        return plan.doubted and (failure is not None or keeps_other_copy(plan))
    return plan.phase is MovePhase.RESTORE and failure is not None


def keeps_other_copy(plan: MovePlan) -> bool:
    """Returns whether the destination keeps its copy for now, although the source has the server: it was fenced, and its guest may have
    written more than the source's, which has paused, or has ended and lost its memory.
    """
    if not plan.owed or plan.guest is None:
        return False
    return plan.may_have_run_there or plan.guest.side in {GuestSide.LEFT, GuestSide.SHUT_OFF}


def may_be_open(plan: MovePlan, failure: Failure | None) -> bool:
    """Returns whether the source of a live migration that ends BROKEN now, with this failure of its last phase, may have a guest
    without its memory still, which has the disks open.
    """
    return plan.phase is MovePhase.LOOK_THERE or (plan.phase is MovePhase.CLOSE and failure is not None)


# A host that is silent in one of these phases is waited for.
_UNTIL_FENCED = frozenset({MovePhase.EXPORT, MovePhase.RESTORE, MovePhase.SHOW, MovePhase.SHOW_THERE})
# Kinds of failures that say nothing about the guest, and pass.
PASSING = frozenset({"HypervisorUnavailable", "GuestBusy", "ServiceUnavailable"})
# A host that meets such a failure in one of these phases is waited for: no other host can do the work. In `restore` the guest is off,
# and only this host can start it.
_UNTIL_PASSED = frozenset({MovePhase.SHOW, MovePhase.SHOW_THERE, MovePhase.RESTORE})
# How often a destination is asked to start the guest, before the server is in ERROR there: for about 15 minutes. The source has a copy of
# the disks still, but may not start it: such a failure does not say that no guest runs at the destination. A source with a full disk
# has as long to restore the guest.
MOST_STARTS = 60


def waits(plan: MovePlan, failure: Failure) -> bool:
    """Returns whether the host of this phase of a cold move is asked again after this failure."""
    if plan.phase is MovePhase.DISCARD:
        # The guest is off here, and its disks may be gone. A server that stayed resized would be confirmed, which removes the
        # last copy.
        return plan.reverting
    if plan.phase is MovePhase.START:
        return failure.kind in {*PASSING, "DiskFull"} and plan.asks < MOST_STARTS
    if plan.phase is MovePhase.RESTORE and failure.kind == "DiskFull":
        return plan.asks < MOST_STARTS
    return plan.phase in _UNTIL_PASSED and failure.kind in PASSING


class Loss(StrEnum):
    """How sure it is that a host does no work any more: see `conductor/hosts/liveness.py`."""

    SILENT = "silent"
    FENCED = "fenced"


def after_loss(plan: MovePlan, migration: Migration, loss: Loss) -> MovePhase | MoveEnd | None:
    """Returns what follows when the host of this phase is lost; None: the move waits for it.

    Before the switch the destination has nothing that counts. The source's guest is never given up: while it is silent,
    the guest may run there.
    """
    if plan.phase is MovePhase.SCHEDULE:
        return None
    if plan.phase is MovePhase.START:
        # While the destination is silent, a guest may run there. The source has its copy still.
        back = MoveEnd.BROKEN if is_local(migration) else MovePhase.RESTORE
        return back if loss is Loss.FENCED else None
    if plan.phase is MovePhase.RELEASE:
        # The source has reported that its guest is off, but it may have been started since.
        return MovePhase.START if loss is Loss.FENCED else None
    if plan.phase is MovePhase.DISCARD and plan.reverting:
        return MovePhase.RESTORE if loss is Loss.FENCED else None
    if plan.phase in _UNTIL_FENCED and loss is Loss.SILENT:
        return None
    if plan.phase is MovePhase.EXPORT:
        return MovePhase.DISCARD
    return after_failure(plan, migration)
