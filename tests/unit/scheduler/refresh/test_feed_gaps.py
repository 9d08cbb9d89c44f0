"""Which skipped numbers of the change feed a reader asks for again."""

from hypothesis import given
from hypothesis import strategies as st

from minova.scheduler.refresh.feed_gaps import LIFETIME, MAX_RANGES, YOUNG, YOUNG_BUDGET, Gaps

NUMBERS = st.sets(st.integers(1, 300), min_size=1)


def gaps_of(missing: set[int], now: float = 0.0) -> Gaps:
    """Each run of missing numbers is one gap."""
    gaps = Gaps()
    for number in sorted(missing):
        if number - 1 not in missing:
            last = next(n for n in range(number, 400) if n + 1 not in missing)
            gaps.add(number, last, now)
    return gaps


def asked_for(gaps: Gaps, now: float, *, every: bool) -> set[int]:
    pairs = gaps.to_ask(now, every=every).pairs
    assert len(pairs) <= MAX_RANGES
    return {number for first, last in pairs for number in range(first, last + 1)}


@given(missing=NUMBERS)
def test_few_ranges_hold_all_gaps_and_say_how_many_numbers_are_known(missing: set[int]) -> None:
    gaps = gaps_of(missing)
    numbers = asked_for(gaps, 0.0, every=True)
    assert missing <= numbers
    assert gaps.to_ask(0.0, every=True).read_count == len(numbers - missing)


@given(missing=NUMBERS, arrived=NUMBERS)
def test_a_number_that_appears_is_missing_no_longer(missing: set[int], arrived: set[int]) -> None:
    gaps = gaps_of(missing)
    assert set(gaps.fill(arrived)) == missing & arrived
    assert gaps.fill(arrived) == []
    left = missing - arrived
    assert left <= asked_for(gaps, 0.0, every=True)
    assert gaps.to_ask(0.0, every=True).read_count == len(asked_for(gaps, 0.0, every=True) - left)


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


def test_a_gap_lives_two_minutes_from_when_it_was_seen() -> None:
    gaps = gaps_of({3}, 50.0)
    gaps.expire(169.9)
    assert len(gaps) == 1
    gaps.expire(170.0)
    assert len(gaps) == 0


def test_a_gap_is_young_for_two_seconds_and_few_known_numbers_lie_between_young_ones() -> None:
    gaps = gaps_of({3}, 50.0)
    assert asked_for(gaps, 51.9, every=False) == {3}
    assert asked_for(gaps, 52.0, every=False) == set()
    for known, both in ((500, True), (501, False)):
        two = Gaps()
        two.add(1, 1, 0.0)
        two.add(known + 2, known + 2, 0.0)
        assert (1 in asked_for(two, 0.0, every=False)) is both


def test_young_gaps_among_many_known_numbers_wait_until_all_are_asked_for() -> None:
    gaps = Gaps()
    for number in range(2, 100_000, 2):
        gaps.add(number, number, 0.0)
    ranges = gaps.to_ask(0.0, every=False)
    assert ranges.read_count <= YOUNG_BUDGET
    assert len(ranges.pairs) <= MAX_RANGES
    assert ranges.pairs[-1][1] == 99_998


def test_the_longest_stretches_of_known_numbers_are_left_out() -> None:
    gaps, first = Gaps(), 1
    for read_count in (5, 9, 1, 8, 7, 2, 6, 4, 3, 0):
        gaps.add(first, first + 1, 0.0)
        first += 2 + read_count
    # Only the stretches of 1 and of 2 known numbers are asked for again.
    pairs = [(1, 2), (8, 9), (19, 23), (32, 33), (41, 46), (53, 54), (59, 60), (64, 65)]
    assert len(pairs) == MAX_RANGES
    assert gaps.to_ask(0.0, every=True) == (pairs, 1 + 2)


def test_a_gap_that_a_number_splits_keeps_its_age() -> None:
    gaps = Gaps()
    gaps.add(3, 6, 0.0)
    gaps.add(9, 9, LIFETIME)
    assert gaps.fill([2, 5, 7, 9]) == [5, 9]
    assert gaps.to_ask(0.0, every=True) == ([(3, 4), (6, 6)], 0)
    assert len(gaps) == 2
    gaps.expire(LIFETIME)
    assert len(gaps) == 0


def test_a_gap_is_young_until_its_time_is_over() -> None:
    gaps = gaps_of({3}, 0.0)
    assert asked_for(gaps, YOUNG - 0.001, every=False) == {3}
    assert asked_for(gaps, YOUNG, every=False) == set()


def test_young_gaps_are_asked_for_with_the_known_numbers_of_the_budget_between_them() -> None:
    def asked(*stretches: int) -> int:
        gaps, number = Gaps(), 1
        for stretch in (*stretches, 0):
            gaps.add(number, number, 0.0)
            number += stretch + 1
        return sum(last - first + 1 for first, last in gaps.to_ask(0.0, every=False).pairs)

    assert asked(YOUNG_BUDGET) == 2
    assert asked(YOUNG_BUDGET + 1) == 1
    assert asked(1, YOUNG_BUDGET - 1) == 3
    assert asked(2, YOUNG_BUDGET - 1) == 2
