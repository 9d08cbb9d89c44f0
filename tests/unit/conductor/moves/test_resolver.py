"""The table of the law: where a server is after any doubt about its move."""

from itertools import product

import pytest

from minova.conductor.moves.resolver import MoveVerdict, Side, resolve
from minova.objects.servers.live_migration import GuestReport
from minova.objects.servers.live_migration import GuestSide as Seen

OLD, NEW = 3, 4
SILENT = None


def verdict(
    source: Seen | None, destination: Seen | None, *, attempt: int = NEW, fenced: str = "", shared: bool = False
) -> MoveVerdict:
    reports = [
        None if side is None else GuestReport(side=side, attempt=number)
        for side, number in ((source, OLD), (destination, attempt))
    ]
    return resolve(
        Side(report=reports[0], fenced=fenced == "source"),
        Side(report=reports[1], fenced=fenced == "destination"),
        new_attempt=NEW,
        shared=shared,
    )


@pytest.mark.parametrize(
    ("source", "destination", "expected"),
    [
        (Seen.RUNNING, Seen.ABSENT, MoveVerdict.SOURCE),
        (Seen.RUNNING, Seen.SHUT_OFF, MoveVerdict.SOURCE),
        (Seen.RUNNING, Seen.PAUSED, MoveVerdict.SOURCE),
        (Seen.PAUSED, Seen.PAUSED, MoveVerdict.SOURCE),
        (Seen.PAUSED_BY_MIGRATION, Seen.RUNNING, MoveVerdict.DESTINATION),
        (Seen.PAUSED_BY_MIGRATION, Seen.PAUSED, MoveVerdict.DESTINATION),
        (Seen.PAUSED_BY_MIGRATION, Seen.ABSENT, MoveVerdict.SOURCE),
        (Seen.PAUSED_BY_MIGRATION, Seen.SHUT_OFF, MoveVerdict.SOURCE),
        (Seen.LEFT, Seen.PAUSED, MoveVerdict.DESTINATION),
        (Seen.SHUT_OFF, Seen.SHUT_OFF, MoveVerdict.DESTINATION),
        (Seen.SHUT_OFF, Seen.RUNNING, MoveVerdict.DESTINATION),
        (Seen.ABSENT, Seen.PAUSED, MoveVerdict.DESTINATION),
        (Seen.SHUT_OFF, Seen.ABSENT, MoveVerdict.SOURCE),
        (Seen.CRASHED, Seen.ABSENT, MoveVerdict.LOST),
        (Seen.ABSENT, Seen.ABSENT, MoveVerdict.LOST),
        (Seen.RUNNING, Seen.RUNNING, MoveVerdict.BOTH),
        (Seen.PAUSED_BY_MIGRATION, Seen.POST_COPY_FAILED, MoveVerdict.BROKEN),
        (Seen.POST_COPY_FAILED, Seen.RUNNING, MoveVerdict.BROKEN),
        (Seen.POST_COPY, Seen.RUNNING, MoveVerdict.WAIT),
    ],
)
def test_verdict(source: Seen, destination: Seen, expected: MoveVerdict) -> None:
    assert verdict(source, destination) is expected


def test_a_silent_side_that_is_not_fenced_is_waited_for() -> None:
    for other in [*Seen, SILENT]:
        assert verdict(SILENT, other) is MoveVerdict.WAIT
        assert verdict(other, SILENT) is MoveVerdict.WAIT


def test_a_side_that_its_hypervisor_still_moves_is_waited_for() -> None:
    moving = Side(report=GuestReport(side=Seen.SHUT_OFF, attempt=NEW, moving=True))
    for other in Seen:
        side = Side(report=GuestReport(side=other, attempt=NEW))
        assert resolve(moving, side, new_attempt=NEW) is MoveVerdict.WAIT
        assert resolve(side, moving, new_attempt=NEW) is MoveVerdict.WAIT


@pytest.mark.parametrize(
    ("destination", "fenced", "attempt", "expected"),
    [
        (Seen.ABSENT, "", NEW, MoveVerdict.SOURCE),
        (Seen.SHUT_OFF, "", OLD, MoveVerdict.SOURCE),
        (Seen.RUNNING, "", NEW, MoveVerdict.DESTINATION),
        (Seen.SHUT_OFF, "", NEW, MoveVerdict.LOST),
        (Seen.CRASHED, "", NEW, MoveVerdict.LOST),
        (Seen.ABSENT, "destination", NEW, MoveVerdict.LOST),
        (SILENT, "destination", NEW, MoveVerdict.LOST),
    ],
)
def test_bug_a_guest_is_resumed_on_shared_disks_that_its_other_side_has_written(
    destination: Seen | None, fenced: str, attempt: int, expected: MoveVerdict
) -> None:
    assert verdict(Seen.PAUSED_BY_MIGRATION, destination, attempt=attempt, fenced=fenced, shared=True) is expected


def test_bug_a_guest_whose_memory_is_on_a_fenced_host_is_waited_for() -> None:
    moving = Side(report=GuestReport(side=Seen.POST_COPY, attempt=OLD, moving=True))
    assert resolve(moving, Side(fenced=True), new_attempt=NEW) is MoveVerdict.LOST
    assert resolve(moving, Side(), new_attempt=NEW) is MoveVerdict.WAIT


def test_a_fenced_side_counts_as_absent_whatever_it_said_before() -> None:
    for seen_there, other in product([*Seen, SILENT], [Seen.SHUT_OFF, Seen.RUNNING, Seen.ABSENT]):
        assert verdict(seen_there, other, fenced="source") is verdict(Seen.ABSENT, other)
        assert verdict(other, seen_there, fenced="destination") is verdict(other, Seen.ABSENT)


def test_the_guest_of_another_attempt_is_no_copy_of_this_move() -> None:
    assert verdict(Seen.SHUT_OFF, Seen.SHUT_OFF, attempt=OLD) is MoveVerdict.SOURCE
    assert verdict(Seen.ABSENT, Seen.SHUT_OFF, attempt=OLD) is MoveVerdict.LOST


def test_no_verdict_lets_two_guests_run() -> None:
    """A verdict for one side is given only if the other side's guest does not run."""
    for source, destination in product(Seen, Seen):
        decision = verdict(source, destination)
        assert decision is not MoveVerdict.SOURCE or destination is not Seen.RUNNING
        assert decision is not MoveVerdict.DESTINATION or source not in {Seen.RUNNING, Seen.PAUSED}
