"""What a witness has seen, compared with what a database shows."""

import hashlib
import hmac
from collections.abc import Callable

import msgspec
import pytest

from minova.objects.hosts.cloud import (
    COUNTER_RETENTION,
    MAX_MARKS,
    CloudState,
    CounterMark,
    DatabaseState,
    MarkKey,
    WitnessRecord,
    WitnessVerdict,
    is_shown,
    judge,
    learned,
    proven_marks,
)

NOW = 10_000_000.0
SECRET = "0f" * 32
KEY = MarkKey(SECRET)


def seal(mark: CounterMark, history: str = "first") -> CounterMark:
    return KEY.sealed("cloud", history, mark)


A, B = seal(CounterMark("a", 7, NOW - 60)), seal(CounterMark("b", 3, NOW - 90))
SEEN = WitnessRecord(uuid="cloud", history="first", marks=(A, B))


def shown(**values: object) -> DatabaseState:
    kept: dict[str, object] = {"uuid": "cloud", "history": "first", "numbers": {"a": 7, "b": 3}, "now": NOW, "key": KEY}
    return DatabaseState(**kept | values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("database", "verdict"),
    [
        (shown(), WitnessVerdict.AGREES),
        (shown(numbers={"a": 8, "b": 300, "c": 1}), WitnessVerdict.AGREES),
        (shown(numbers={"a": 6, "b": 3}), WitnessVerdict.LOST),
        (shown(numbers={"b": 3}), WitnessVerdict.LOST),
        (shown(numbers={}, now=NOW - 3600), WitnessVerdict.LOST),
        (shown(numbers={}, now=NOW + COUNTER_RETENTION), WitnessVerdict.AGREES),
        (shown(history="second"), WitnessVerdict.LOST),
        (shown(history="second", is_past=True, numbers={}), WitnessVerdict.PAST),
        (shown(uuid="other", history="other"), WitnessVerdict.OTHER_CLOUD),
        (shown(uuid=None), WitnessVerdict.UNKNOWN),
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
def test_verdict(database: DatabaseState, verdict: WitnessVerdict) -> None:
    assert judge(SEEN, database).verdict is verdict


# -- seals ---------------------------------------------------------------------------------------------------------------


def test_a_seal_is_an_hmac_of_all_that_the_mark_says() -> None:
    """Witnesses keep marks for years: a later release computes the same."""
    text = f"cloud|first|a|7|{NOW - 60}"
    assert A.seal == hmac.new(SECRET.encode(), text.encode(), hashlib.sha256).hexdigest()[:32]


def altered(**values: object) -> WitnessRecord:
    return WitnessRecord(uuid="cloud", history="first", marks=(msgspec.structs.replace(A, **values), B))


FORGED = {
    "no seal": altered(number=900, seal=""),
    "a made-up seal": altered(number=900, seal="0" * 32),
    "a higher number": altered(number=900),
    "another counter": altered(counter="c"),
    "a later time": altered(counter="ended", at=NOW),
    "the seal of another mark": altered(number=900, seal=B.seal),
    "a mark of another history": altered(number=900, seal=seal(CounterMark("a", 900, NOW - 60), "second").seal),
    "a seal of another cloud": altered(
        number=900, seal=KEY.sealed("other", "first", CounterMark("a", 900, NOW - 60)).seal
    ),
    "a seal with another secret": altered(
        seal=MarkKey("1" * 64).sealed("cloud", "first", CounterMark("a", 7, NOW)).seal
    ),
    "half a seal": altered(number=900, seal=A.seal[:16]),
    "no ASCII": altered(counter="\ud800\0é", seal="\ud800é"),
    "no number": altered(number=10**4000, at=float("nan")),
    "a made-up history": WitnessRecord(uuid="cloud", history="made up", marks=SEEN.marks),
    "a made-up history without marks": WitnessRecord(uuid="cloud", history="made up"),
}


@pytest.mark.parametrize("forged", FORGED.values(), ids=FORGED.keys())
def test_what_no_conductor_has_sealed_is_no_evidence(forged: WitnessRecord) -> None:
    assert judge(forged, shown()).verdict is WitnessVerdict.UNSEALED


def test_a_forged_mark_does_not_hide_a_sealed_one() -> None:
    forged = msgspec.structs.replace(SEEN, marks=(CounterMark("x", 1, NOW, "made up"), A))
    assert judge(forged, shown(numbers={"a": 6})).verdict is WitnessVerdict.LOST


def test_without_the_secret_no_mark_is_evidence() -> None:
    assert judge(SEEN, shown(numbers={}, key=None)).verdict is WitnessVerdict.UNSEALED


def test_a_real_mark_that_is_sent_again_agrees() -> None:
    """Counters only rise, and an ended history is known as ended: so a mark that was kept for long says nothing new."""
    assert judge(SEEN, shown(numbers={"a": 9000, "b": 3})).verdict is WitnessVerdict.AGREES
    assert judge(SEEN, shown(history="second", is_past=True, numbers={})).verdict is WitnessVerdict.PAST
    assert judge(SEEN, shown(numbers={}, now=NOW + COUNTER_RETENTION)).verdict is WitnessVerdict.AGREES


def test_only_so_many_marks_are_looked_at() -> None:
    many = msgspec.structs.replace(SEEN, marks=(A,) * 10 * MAX_MARKS)
    assert len(proven_marks(many, KEY)) == MAX_MARKS


@pytest.mark.parametrize("show", [repr, str])
def test_no_text_shows_the_secret(show: Callable[[object], str]) -> None:
    assert SECRET not in show(KEY)
    assert SECRET not in show(shown())
    with pytest.raises(TypeError):
        msgspec.json.encode(shown())


# -- what a witness keeps --------------------------------------------------------------------------------------------------


def test_a_witness_keeps_the_highest_number_of_each_counter() -> None:
    state = CloudState(uuid="cloud", history="first", marks=(CounterMark("a", 5, NOW), CounterMark("b", 4, NOW)))
    assert set(learned(SEEN, state).marks) == {A, CounterMark("b", 4, NOW)}


def test_a_witness_keeps_the_newest_counters() -> None:
    seen = WitnessRecord(uuid="cloud", history="first")
    for number in range(2 * MAX_MARKS):
        mark = CounterMark(f"counter {number}", 1, NOW + number)
        seen = learned(seen, CloudState(uuid="cloud", history="first", marks=(mark,)))
    assert [mark.counter for mark in seen.marks] == [f"counter {n}" for n in range(MAX_MARKS, 2 * MAX_MARKS)]


def test_a_new_history_replaces_all_marks() -> None:
    state = CloudState(uuid="cloud", history="second", marks=(CounterMark("c", 1, NOW),))
    assert learned(SEEN, state) == WitnessRecord(uuid="cloud", history="second", marks=(CounterMark("c", 1, NOW),))


@pytest.mark.parametrize(
    ("marks", "is_confirmed"),
    [
        ((CounterMark("a", 7, NOW),), True),
        ((CounterMark("a", 6, NOW),), False),
        ((CounterMark("b", 9, NOW),), False),
        ((), False),
    ],
    ids=["the newest", "less", "another counter", "nothing"],
)
def test_a_state_that_shows_the_newest_mark_needs_no_comparison(
    marks: tuple[CounterMark, ...], is_confirmed: bool
) -> None:
    assert is_shown(SEEN, CloudState(uuid="cloud", history="first", marks=marks)) is is_confirmed
    assert not is_shown(SEEN, CloudState(uuid="cloud", history="second", marks=marks))


def test_a_counter_of_an_ended_process_stays_for_thirty_days() -> None:
    assert COUNTER_RETENTION == 2_592_000
    just = shown(numbers={"b": 3}, now=NOW - 60 + COUNTER_RETENTION)
    assert judge(SEEN, just).verdict is WitnessVerdict.AGREES
    before = shown(numbers={"b": 3}, now=NOW - 61 + COUNTER_RETENTION)
    assert judge(SEEN, before).verdict is WitnessVerdict.LOST
