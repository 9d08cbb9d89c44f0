"""Rules for domains that rows do not expect on their host: which of them may be removed. Pure.

A domain is removed only if the database proves that it is not wanted any more, and not because the database does not
know it: the database may be older than the domain (a restored backup, a replica that lagged), or that of another cloud.

    the row or the tasks say                                    a domain of
    the instance is deleted                                     this attempt or an earlier one: remove
    a later attempt was committed                               an earlier attempt: remove
    the last attempt was given up (its task schedules again,    this attempt: remove
    or the instance is in ERROR on no host)
    the instance left its host (SHELVED_OFFLOADED)              this attempt, and off: remove
    an ended migration took it from this host, by a later       an earlier attempt: remove
    attempt that the other host has confirmed
    an ended migration did not bring it to this host            the attempts that it gave up: remove
    it is evacuated, or to be removed after a move, or is       EXPECTED: its host removes it when it may. STRAY if it is
    kept until a move is confirmed                              in use
    anything else                                               this attempt: MISPLACED, left as it is
    a later attempt, or that this one was given up, and its     MISPLACED, too
    host knows that the report of its success was accepted
    anything                                                    a later attempt than the row knows, or its last action is
                                                                not recorded: NEWER, left as it is
    another host has a later attempt                            its last action is not recorded: MISPLACED
    nothing                                                     any attempt: NO_ROW, left as it is
"""

from enum import StrEnum

import msgspec

from minova.objects.actions.power_rules import OFF
from minova.objects.servers.states import RESOURCE_FREE, PowerState, VmState


class DomainVerdict(StrEnum):
    """EXPECTED domains are where their rows say. REMOVE: there is proof that the domain may be removed. NO_GUEST: the
    host of a server has neither a domain nor disks of it. NO_COPY: neither has the source of a move that waits for its
    confirmation: it was confirmed, as far as the source is concerned. STRAY: a copy that a move has left, and that is
    in use although another host has the server.
    """

    EXPECTED = "expected"
    REMOVE = "remove"
    NO_ROW = "no_row"
    NEWER = "newer"
    MISPLACED = "misplaced"
    NO_GUEST = "no_guest"
    NO_COPY = "no_copy"
    STRAY = "stray"


# Reports of a host that has nothing of the guest.
HAS_NOTHING = frozenset({DomainVerdict.NO_GUEST, DomainVerdict.NO_COPY})

WHY = {
    DomainVerdict.EXPECTED: "its row names this host",
    DomainVerdict.NO_ROW: "the database does not know it",
    DomainVerdict.NEWER: "it is newer than its row",
    DomainVerdict.MISPLACED: "its row names another host",
    DomainVerdict.NO_GUEST: "its host has neither domain nor disks of this server",
    DomainVerdict.NO_COPY: "its move waits for a confirmation, and its source has no copy to go back to",
    DomainVerdict.STRAY: "a move has left it, and it is not off, though another host has its server: it is paused",
    DomainVerdict.REMOVE: "it is to be removed, with more others than [conductor] max_automatic_removals",
}


class DomainRow(msgspec.Struct, frozen=True, kw_only=True):
    """What the database knows of the instance of a domain.

    `attempt`: the last one that was committed, by the row or by the task.
    `is_here`: the row or the task names the domain's host, or a migration in progress does.
    `moves`: a migration in progress names the domain's host, so that the guest there may be of an earlier attempt.
    `schedules`: a task looks for a host now, so that every earlier attempt was given up.
    `is_kept`: a cold move has taken the instance from the domain's host, which keeps its copy, off, until the move ends.
    `is_leaving`: an evacuation takes the instance from the domain's host, or the host has still to remove what a
    migration has left there.
    `left_before`: ended migrations took every attempt below this one from the domain's host, and the other host has
    confirmed its own copy.
    `given_up`: attempts of ended migrations that did not bring the instance to their destinations.
    `runs_there`: the guest of the row's host runs, by its last report.
    `knows_action`: the last action that ended on the domain's host is recorded.
    """

    attempt: int
    host: str | None
    vm_state: VmState
    idle: bool = True
    deleted: bool = False
    is_here: bool = False
    moves: bool = False
    schedules: bool = False
    is_kept: bool = False
    is_leaving: bool = False
    left_before: int = 0
    given_up: frozenset[int] = frozenset()
    runs_there: bool = False
    knows_action: bool = True


def verdict(attempt: int | None, power_state: int, row: DomainRow | None, *, accepted: bool = False) -> DomainVerdict:
    """Judges a domain of this attempt. `attempt` None: its mark names none, so nothing but a deletion proves anything.

    `accepted`: a conductor has accepted the report that the attempt succeeded. Then it was not given up, whatever a
    database says that was restored from before that report.
    """
    if row is None:
        return DomainVerdict.NO_ROW
    if not row.deleted and not row.knows_action:
        # What has happened to an earlier attempt before another host got the server is not newer than that.
        is_older = attempt is not None and attempt < row.attempt and not row.is_here
        return DomainVerdict.MISPLACED if is_older else DomainVerdict.NEWER
    if attempt is not None and attempt > row.attempt:
        if accepted or not _was_not_brought(attempt, row):
            return DomainVerdict.NEWER
        return DomainVerdict.EXPECTED if row.is_leaving and not row.deleted else DomainVerdict.REMOVE
    if row.deleted:
        return DomainVerdict.REMOVE
    if row.is_leaving or row.moves:
        return DomainVerdict.EXPECTED
    if row.is_here:
        # A guest in use, and a row that has it built a second time.
        return (
            DomainVerdict.NEWER
            if accepted and attempt is not None and attempt < row.attempt
            else DomainVerdict.EXPECTED
        )
    if attempt is None:
        return DomainVerdict.MISPLACED
    has_left = attempt < row.left_before or _was_offloaded(power_state, row)
    was_given_up = not accepted and (attempt < row.attempt or _was_not_brought(attempt, row) or _was_given_up(row))
    return DomainVerdict.REMOVE if has_left or was_given_up else DomainVerdict.MISPLACED


def is_stray(
    attempt: int | None, power_state: int, row: DomainRow | None, *, accepted: bool = False, was_stray: bool = False
) -> bool:
    """Whether a copy that a move or an evacuation has left here is in use: only the row's host may run the server. The arguments: see
    `verdict`.

    `was_stray`: the last report found it so. A stray copy that its host has paused stays one until it is off; another paused copy is none,
    because it may have arrived paused and wait for its removal.
    """
    if row is None or row.deleted or row.host is None or not (row.is_kept or (row.is_leaving and not row.moves)):
        return False
    if not row.is_kept and row.is_here:
        return False
    if verdict(attempt, power_state, row, accepted=accepted) is not DomainVerdict.EXPECTED:
        return False
    return power_state == PowerState.RUNNING or (power_state == PowerState.PAUSED and (row.is_kept or was_stray))


def must_pause(attempt: int | None, power_state: int, row: DomainRow | None, *, accepted: bool = False) -> bool:
    """Whether a guest of this attempt runs beside the host that its row names, and is older than the guest there. The arguments: see
    `verdict`. Without a later attempt there, nothing proves which of two guests is the server's.
    """
    if row is None or power_state != PowerState.RUNNING:
        return False
    if is_stray(attempt, power_state, row, accepted=accepted):
        return True
    is_older = attempt is not None and attempt < row.attempt
    is_misplaced = verdict(attempt, power_state, row, accepted=accepted) is DomainVerdict.MISPLACED
    return is_misplaced and is_older and row.idle and row.runs_there


def _was_not_brought(attempt: int, row: DomainRow) -> bool:
    return attempt in row.given_up and not row.is_here


def _was_offloaded(power_state: int, row: DomainRow) -> bool:
    """The guest of an offloaded server is off. One that runs may be newer than the row."""
    return row.vm_state in RESOURCE_FREE and (power_state in OFF or power_state == PowerState.NOSTATE)


def _was_given_up(row: DomainRow) -> bool:
    """Whether the last attempt of the row is known to have failed."""
    if row.vm_state in RESOURCE_FREE:
        return False
    return row.schedules or (row.vm_state is VmState.ERROR and row.host is None and row.idle)


def too_many(count: int, most: int) -> bool:
    """Whether so many removals at once need the word of an operator. `most` 0: none do."""
    return bool(most) and count > most
