"""The table of the law: where a server is after any doubt about its move."""

from itertools import product

import pytest

from minova.conductor.moves.resolver import Seen, Side, Verdict, resolve, seen_of
from minova.objects.servers.states import PowerState

OLD, NEW = 3, 4


def verdict(source: Seen, destination: Seen, *, attempt: int = NEW, fenced: str = "") -> Verdict:
    return resolve(
        Side(seen=source, attempt=OLD, fenced=fenced == "source"),
        Side(seen=destination, attempt=attempt, fenced=fenced == "destination"),
        new_attempt=NEW,
    )


@pytest.mark.parametrize(
    ("source", "destination", "expected"),
    [
        (Seen.RUNNING, Seen.ABSENT, Verdict.SOURCE),
        (Seen.RUNNING, Seen.OFF, Verdict.SOURCE),
        (Seen.RUNNING, Seen.PAUSED, Verdict.SOURCE),
        (Seen.PAUSED, Seen.RUNNING, Verdict.DESTINATION),
        (Seen.PAUSED, Seen.PAUSED, Verdict.DESTINATION),
        (Seen.PAUSED, Seen.ABSENT, Verdict.SOURCE),
        (Seen.PAUSED, Seen.OFF, Verdict.SOURCE),
        (Seen.OFF, Seen.OFF, Verdict.DESTINATION),
        (Seen.OFF, Seen.RUNNING, Verdict.DESTINATION),
        (Seen.ABSENT, Seen.PAUSED, Verdict.DESTINATION),
        (Seen.OFF, Seen.ABSENT, Verdict.SOURCE),
        (Seen.CRASHED, Seen.ABSENT, Verdict.LOST),
        (Seen.ABSENT, Seen.ABSENT, Verdict.LOST),
        (Seen.RUNNING, Seen.RUNNING, Verdict.BOTH),
        (Seen.PAUSED, Seen.POSTCOPY_FAILED, Verdict.BROKEN),
        (Seen.POSTCOPY_FAILED, Seen.RUNNING, Verdict.BROKEN),
    ],
)
def test_verdict(source: Seen, destination: Seen, expected: Verdict) -> None:
    assert verdict(source, destination) is expected


def test_a_silent_side_that_is_not_fenced_is_waited_for() -> None:
    for other in Seen:
        assert verdict(Seen.SILENT, other) is Verdict.WAIT
        assert verdict(other, Seen.SILENT) is Verdict.WAIT


def test_a_fenced_side_counts_as_absent_whatever_it_said_before() -> None:
    for known, other in product(Seen, [Seen.OFF, Seen.RUNNING, Seen.ABSENT]):
        assert verdict(known, other, fenced="source") is verdict(Seen.ABSENT, other)
        assert verdict(other, known, fenced="destination") is verdict(other, Seen.ABSENT)


def test_the_guest_of_another_attempt_is_no_copy_of_this_move() -> None:
    assert verdict(Seen.OFF, Seen.OFF, attempt=OLD) is Verdict.SOURCE
    assert verdict(Seen.ABSENT, Seen.OFF, attempt=OLD) is Verdict.LOST


def test_no_verdict_lets_two_guests_run() -> None:
    """A verdict for one side is given only if the other side's guest does not run."""
    for source, destination in product(Seen, Seen):
        found = verdict(source, destination)
        assert found is not Verdict.SOURCE or destination is not Seen.RUNNING
        assert found is not Verdict.DESTINATION or source is not Seen.RUNNING


def test_a_guest_that_its_owner_has_paused_counts_as_running() -> None:
    assert seen_of(PowerState.PAUSED) is Seen.RUNNING
    assert seen_of(PowerState.PAUSED, by_migration=True) is Seen.PAUSED
    assert [seen_of(state) for state in (None, PowerState.SHUTDOWN, PowerState.CRASHED, PowerState.RUNNING)] == [
        Seen.ABSENT,
        Seen.OFF,
        Seen.CRASHED,
        Seen.RUNNING,
    ]
