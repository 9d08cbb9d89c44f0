"""Where a server is after any doubt about its move: one function of what both sides report. Pure.

    source                                  destination          verdict
    running                                 absent               SOURCE: the move failed
    running                                 paused               SOURCE: destroy the destination's copy
    paused by the migration                 running or paused    DESTINATION: destroy the source's copy
    paused by the migration                 absent               SOURCE: resume it
    paused by the migration, shared disks   off, crashed, fenced LOST: its memory may be older than its disks
    off or absent                           present with N+1     DESTINATION
    off                                     absent               SOURCE: as it was
    crashed                                 absent               LOST: ERROR or SHUTOFF at the source, never completed
    running                                 running              BOTH: pause both, ERROR
    post-copy failed on either side                              BROKEN: ERROR; a hard reboot at the destination is offered
    post-copy                               fenced               LOST: its memory is there
    silent and not fenced, either                                WAIT; so is one whose hypervisor still moves it
    absent                                  absent               LOST

A fenced side counts as absent: its guest does not run any more. Its disks prove nothing.
"""

from enum import StrEnum

import msgspec

from minova.objects.servers.live_migration import GuestReport, GuestSide


class MoveVerdict(StrEnum):
    """SOURCE, DESTINATION: the server belongs there, and the other side removes its copy. LOST: nothing of the guest is
    left that could run. BOTH: two guests run. BROKEN: the guest's memory is lost on the way. WAIT: one side is silent,
    or its hypervisor still works on the move.
    """

    SOURCE = "source"
    DESTINATION = "destination"
    LOST = "lost"
    BOTH = "both"
    BROKEN = "broken"
    WAIT = "wait"


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """`report`: None: the host has not answered. `fenced`: the host is known not to run anything."""

    report: GuestReport | None = None
    fenced: bool = False

    @property
    def judged(self) -> GuestReport | None:
        return GuestReport(side=GuestSide.ABSENT) if self.fenced else self.report


# A guest that its owner has paused is in use, as one that runs.
_IN_USE = frozenset({GuestSide.RUNNING, GuestSide.PAUSED})
_OFF = frozenset({GuestSide.SHUT_OFF, GuestSide.LEFT})
_COPY = frozenset({GuestSide.SHUT_OFF, GuestSide.PAUSED, GuestSide.PAUSED_BY_MIGRATION, GuestSide.RUNNING})


def resolve(source: Side, destination: Side, *, new_attempt: int, shared: bool = False) -> MoveVerdict:
    """Returns whose the server is. `new_attempt`: of the destination's copy, if it is this move's. `shared`: both sides have the
    same disks.
    """
    left, right = source.judged, destination.judged
    if left is not None and left.side is GuestSide.POST_COPY and destination.fenced:
        return MoveVerdict.LOST
    if left is None or right is None or left.moving or right.moving:
        return MoveVerdict.WAIT
    sides = {left.side, right.side}
    if GuestSide.POST_COPY_FAILED in sides:
        return MoveVerdict.BROKEN
    if GuestSide.POST_COPY in sides:
        return MoveVerdict.WAIT
    if left.side in _IN_USE:
        return MoveVerdict.BOTH if right.side is GuestSide.RUNNING else MoveVerdict.SOURCE
    is_new = right.attempt == new_attempt
    is_copy = right.side in _COPY and is_new
    if left.side is GuestSide.PAUSED_BY_MIGRATION:
        if is_copy and right.side is not GuestSide.SHUT_OFF:
            return MoveVerdict.DESTINATION
        has_run = destination.fenced or (is_new and right.side is not GuestSide.ABSENT)
        return MoveVerdict.LOST if shared and has_run else MoveVerdict.SOURCE
    if is_copy:
        return MoveVerdict.DESTINATION
    return MoveVerdict.SOURCE if left.side in _OFF else MoveVerdict.LOST
