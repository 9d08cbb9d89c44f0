"""Which skipped numbers of the change feed a reader asks for again."""

from hypothesis import given
from hypothesis import strategies as st

from minova.scheduler.refresh.feed_gaps import LIFETIME, MAX_RANGES, YOUNG, YOUNG_BUDGET, Gaps

NUMBERS = st.sets(st.integers(1, 300), min_size=1)


def gaps_of(missing: set[int], now: float = 0.0) -> Gaps:
    """Each run of missing numbers is one gap."""
    made = Gaps()
    for number in sorted(missing):
        if number - 1 not in missing:
            last = next(n for n in range(number, 400) if n + 1 not in missing)
            made.add(number, last, now)
    return made


def asked_for(gaps: Gaps, now: float, *, every: bool) -> set[int]:
    pairs = gaps.to_ask(now, every=every).pairs
    assert len(pairs) <= MAX_RANGES
    return {number for first, last in pairs for number in range(first, last + 1)}


@given(missing=NUMBERS)
def test_few_ranges_hold_all_gaps_and_say_how_many_numbers_are_known(missing: set[int]) -> None:
    gaps = gaps_of(missing)
    numbers = asked_for(gaps, 0.0, every=True)
    assert missing <= numbers
    assert gaps.to_ask(0.0, every=True).known == len(numbers - missing)


@given(missing=NUMBERS, arrived=NUMBERS)
def test_a_number_that_appears_is_missing_no_longer(missing: set[int], arrived: set[int]) -> None:
    gaps = gaps_of(missing)
    assert set(gaps.fill(arrived)) == missing & arrived
    assert gaps.fill(arrived) == []
    left = missing - arrived
    assert left <= asked_for(gaps, 0.0, every=True)
    assert gaps.to_ask(0.0, every=True).known == len(asked_for(gaps, 0.0, every=True) - left)


def test_an_old_gap_is_asked_for_only_when_all_are() -> None:
    gaps = gaps_of({3}, 0.0)
    gaps.add(9, 9, 5.0)
    assert asked_for(gaps, YOUNG + 1, every=False) == {9}
    assert asked_for(gaps, YOUNG + 1, every=True) == {3, 9}


def test_a_gap_is_dropped_only_after_its_lifetime() -> None:
    gaps = gaps_of({3}, 0.0)
    gaps.expire(LIFETIME - 1)
    assert len(gaps) == 1
    gaps.expire(LIFETIME)
    assert len(gaps) == 0


def test_young_gaps_among_many_known_numbers_wait_until_all_are_asked_for() -> None:
    gaps = Gaps()
    for number in range(2, 100_000, 2):
        gaps.add(number, number, 0.0)
    ranges = gaps.to_ask(0.0, every=False)
    assert ranges.known <= YOUNG_BUDGET
    assert len(ranges.pairs) <= MAX_RANGES
    assert ranges.pairs[-1][1] == 99_998
