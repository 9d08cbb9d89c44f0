"""Where a server is after any doubt about its move: one function of what both sides report. Pure.

    source                                  destination          verdict
    running                                 absent               SOURCE: the move failed
    running                                 paused               SOURCE: destroy the destination's copy
    paused by the migration                 running or paused    DESTINATION: destroy the source's copy
    paused by the migration                 absent               SOURCE: resume it
    off or absent                           present with N+1     DESTINATION
    off                                     absent               SOURCE: as it was
    crashed                                 absent               LOST: ERROR or SHUTOFF at the source, never completed
    running                                 running              BOTH: pause both, ERROR
    post-copy failed on either side                              BROKEN: ERROR; a hard reboot at the destination is offered
    silent and not fenced, either                                WAIT
    absent                                  absent               LOST

A fenced side counts as absent: its guest does not run any more. What it has on its disks is not proof of anything.
"""

from enum import StrEnum

import msgspec

from minova.objects.servers.states import PowerState


class Seen(StrEnum):
    """A side's guest, as its host has reported it. SILENT: the host has not answered. PAUSED: by the migration."""

    SILENT = "silent"
    ABSENT = "absent"
    OFF = "off"
    CRASHED = "crashed"
    PAUSED = "paused"
    RUNNING = "running"
    POSTCOPY_FAILED = "postcopy_failed"


class Verdict(StrEnum):
    """SOURCE, DESTINATION: the server belongs there, and the other side removes its copy. LOST: nothing of the guest is
    left that could run. BOTH: two guests run. BROKEN: the guest's memory is lost on the way. WAIT: one side is silent.
    """

    SOURCE = "source"
    DESTINATION = "destination"
    LOST = "lost"
    BOTH = "both"
    BROKEN = "broken"
    WAIT = "wait"


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """`attempt`: the mark of the guest that is there. `fenced`: the host is known not to run anything."""

    seen: Seen
    attempt: int = 0
    fenced: bool = False

    @property
    def judged(self) -> Seen:
        return Seen.ABSENT if self.fenced else self.seen


_STOPPED = frozenset({Seen.ABSENT, Seen.OFF, Seen.CRASHED})
_HERE = frozenset({Seen.OFF, Seen.PAUSED, Seen.RUNNING})


def seen_of(power_state: PowerState | None, *, by_migration: bool = False) -> Seen:
    """`by_migration`: the guest is paused because it migrates. One that its owner has paused counts as running."""
    match power_state:
        case None:
            return Seen.ABSENT
        case PowerState.RUNNING:
            return Seen.RUNNING
        case PowerState.PAUSED:
            return Seen.PAUSED if by_migration else Seen.RUNNING
        case PowerState.CRASHED:
            return Seen.CRASHED
        case _:
            return Seen.OFF


def resolve(source: Side, destination: Side, *, new_attempt: int) -> Verdict:
    """Returns whose the server is. `new_attempt`: of the destination's copy, if it is this move's."""
    left, right = source.judged, destination.judged
    if Seen.SILENT in (left, right):
        return Verdict.WAIT
    if Seen.POSTCOPY_FAILED in (left, right):
        return Verdict.BROKEN
    if left is Seen.RUNNING:
        return Verdict.BOTH if right is Seen.RUNNING else Verdict.SOURCE
    is_copy = right in _HERE and destination.attempt == new_attempt
    if left is Seen.PAUSED:
        return Verdict.DESTINATION if is_copy and right is not Seen.OFF else Verdict.SOURCE
    assert left in _STOPPED
    if is_copy:
        return Verdict.DESTINATION
    return Verdict.SOURCE if left is Seen.OFF else Verdict.LOST
