"""What is kept for a moment, and how often a caller may ask."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from minova.metadata.recent import BURST, MAX_CALLERS, RATE, Rates, RecentValues


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_values_are_kept_for_their_time_by_caller() -> None:
    clock, reads = Clock(), iter(range(10))
    recent: RecentValues[int] = RecentValues(1.0, clock)

    def get(caller: str) -> int:
        return recent.get(caller, lambda: next(reads), KeyError)

    assert [get("a"), get("a"), get("b")] == [0, 0, 1]
    clock.now += 0.9
    assert get("a") == 0
    clock.now += 0.1
    assert [get("a"), get("a")] == [2, 2]
    recent.forget("a")
    assert get("a") == 3


def test_age_counts_from_when_the_reading_began() -> None:
    clock = Clock()
    recent: RecentValues[int] = RecentValues(1.0, clock)

    def slow() -> int:
        clock.now += 5
        return 1

    assert recent.get("a", slow, KeyError) == 1
    assert recent.get("a", lambda: 2, KeyError) == 2


def test_absence_is_kept_and_a_failure_is_not() -> None:
    recent: RecentValues[int] = RecentValues(1.0, Clock())
    reads = []

    def fail(error: Exception) -> int:
        reads.append(error)
        raise error

    for _ in range(2):
        with pytest.raises(KeyError):
            recent.get("a", lambda: fail(KeyError("none")), KeyError)
        with pytest.raises(OSError, match="away"):
            recent.get("b", lambda: fail(OSError("away")), KeyError)
    assert [type(error) for error in reads] == [KeyError, OSError, OSError]


def test_requests_at_the_same_time_read_once() -> None:
    recent: RecentValues[int] = RecentValues(1.0, Clock())
    all_came, reads = threading.Barrier(8, timeout=30), iter(range(8))

    def ask(_: int) -> int:
        all_came.wait()
        return recent.get("a", lambda: next(reads), KeyError)

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(ask, range(8))) == [0] * 8


def test_callers_that_are_remembered_are_bounded() -> None:
    recent: RecentValues[int] = RecentValues(1.0, Clock())
    rates = Rates(Clock())
    for caller in range(MAX_CALLERS + 10):
        recent.get(caller, lambda: 1, KeyError)
        assert rates.take(caller)
    assert len(recent._entries) == len(rates._left) == MAX_CALLERS


def test_caller_may_ask_so_often_a_second() -> None:
    clock = Clock()
    rates = Rates(clock)
    assert all(rates.take("a") for _ in range(int(BURST)))
    assert not rates.take("a")
    assert rates.take("b")
    clock.now += 1.0
    assert sum(rates.take("a") for _ in range(int(BURST))) == int(RATE)
    clock.now += 3600
    assert sum(rates.take("a") for _ in range(int(2 * BURST))) == int(BURST)
