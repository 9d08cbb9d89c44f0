"""What a witness has seen, compared with what a database shows."""

import pytest

from minova.objects.cloud import (
    COUNTER_RETENTION,
    MAX_MARKS,
    CloudState,
    Mark,
    Seen,
    Shown,
    Verdict,
    is_shown,
    judge,
    learned,
)

NOW = 10_000_000.0
SEEN = Seen(uuid="cloud", history="first", marks=(Mark("a", 7, NOW - 60), Mark("b", 3, NOW - 90)))


def shown(**values: object) -> Shown:
    kept: dict[str, object] = {"uuid": "cloud", "history": "first", "numbers": {"a": 7, "b": 3}, "now": NOW}
    return Shown(**kept | values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("database", "verdict"),
    [
        (shown(), Verdict.AGREES),
        (shown(numbers={"a": 8, "b": 300, "c": 1}), Verdict.AGREES),
        (shown(numbers={"a": 6, "b": 3}), Verdict.LOST),
        (shown(numbers={"b": 3}), Verdict.LOST),
        (shown(numbers={}, now=NOW - 3600), Verdict.LOST),
        (shown(numbers={}, now=NOW + COUNTER_RETENTION), Verdict.AGREES),
        (shown(history="second"), Verdict.LOST),
        (shown(history="second", is_past=True, numbers={}), Verdict.PAST),
        (shown(uuid="other", history="other"), Verdict.OTHER_CLOUD),
        (shown(uuid=None), Verdict.UNKNOWN),
    ],
    ids=[
        "as seen",
        "further on",
        "a lower number",
        "no such counter",
        "no counter, and the clock went back",
        "counters of processes that ended long ago",
        "a history that is not known",
        "a history that has ended",
        "another cloud",
        "no identity",
    ],
)
def test_verdict(database: Shown, verdict: Verdict) -> None:
    assert judge(SEEN, database).verdict is verdict


def test_a_witness_keeps_the_highest_number_of_each_counter() -> None:
    state = CloudState(uuid="cloud", history="first", marks=(Mark("a", 5, NOW), Mark("b", 4, NOW)))
    assert set(learned(SEEN, state).marks) == {Mark("a", 7, NOW - 60), Mark("b", 4, NOW)}


def test_a_witness_keeps_the_newest_counters() -> None:
    seen = Seen(uuid="cloud", history="first")
    for number in range(2 * MAX_MARKS):
        mark = Mark(f"counter {number}", 1, NOW + number)
        seen = learned(seen, CloudState(uuid="cloud", history="first", marks=(mark,)))
    assert [mark.counter for mark in seen.marks] == [f"counter {n}" for n in range(MAX_MARKS, 2 * MAX_MARKS)]


def test_a_new_history_replaces_all_marks() -> None:
    state = CloudState(uuid="cloud", history="second", marks=(Mark("c", 1, NOW),))
    assert learned(SEEN, state) == Seen(uuid="cloud", history="second", marks=(Mark("c", 1, NOW),))


@pytest.mark.parametrize(
    ("marks", "is_confirmed"),
    [((Mark("a", 7, NOW),), True), ((Mark("a", 6, NOW),), False), ((Mark("b", 9, NOW),), False), ((), False)],
    ids=["the newest", "less", "another counter", "nothing"],
)
def test_a_state_that_shows_the_newest_mark_needs_no_comparison(marks: tuple[Mark, ...], is_confirmed: bool) -> None:
    assert is_shown(SEEN, CloudState(uuid="cloud", history="first", marks=marks)) is is_confirmed
    assert not is_shown(SEEN, CloudState(uuid="cloud", history="second", marks=marks))
