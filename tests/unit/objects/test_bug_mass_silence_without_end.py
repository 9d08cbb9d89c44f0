"""Ten services and more than a third that fell silent together counted as up for ever, whatever other services were heard."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minova.objects.hosts.liveness import MASS_SILENCE_GRACE, judge

DOWN, START = 60.0, 1000.0
CONDUCTOR = 1
EVERYONE: frozenset[int] = frozenset(range(100, 130))
NOBODY: frozenset[int] = frozenset()
SILENT = dict.fromkeys(range(100, 130), START)


def test_silence_of_all_together_is_in_doubt_for_a_bounded_time() -> None:
    for silence in (DOWN + 1, DOWN * MASS_SILENCE_GRACE):
        verdict = judge({CONDUCTOR: START + silence, **SILENT}, DOWN, {CONDUCTOR})
        assert (verdict.down, verdict.in_doubt) == (NOBODY, EVERYONE)
    verdict = judge({CONDUCTOR: START + DOWN * MASS_SILENCE_GRACE + 1, **SILENT}, DOWN, {CONDUCTOR})
    assert (verdict.down, verdict.in_doubt) == (EVERYONE, NOBODY)


def test_another_service_that_is_heard_ends_the_doubt_at_once() -> None:
    last_seen = {CONDUCTOR: START + DOWN + 1, 2: START + DOWN, **SILENT}
    assert judge(last_seen, DOWN, {CONDUCTOR}).down == SILENT.keys()


def test_one_that_was_only_the_last_to_beat_is_no_witness() -> None:
    """All stopped at the same moment, each somewhere between two beats: not even the first ones are down."""
    stopped = {100 + number: START - 30 + number for number in range(31)}
    for later in range(25, 90):
        verdict = judge({CONDUCTOR: START + later, **stopped}, DOWN, {CONDUCTOR})
        assert verdict.down == frozenset(), later


@pytest.mark.parametrize("lost_at", range(0, 30, 3))
def test_a_conductor_that_loses_the_beats_of_a_second_makes_no_flood(lost_at: int) -> None:
    """Each of 300 services beats every 29 s; those that beat in one certain second are not written."""
    for now in range(60, 120):
        seen = {CONDUCTOR: START + now}
        for number in range(300):
            first = number % 29
            beats = [at for at in range(first, now + 1, 29) if at != 30 + lost_at]
            seen[100 + number] = START + max(beats)
        assert judge(seen, DOWN, {CONDUCTOR}).down == frozenset(), now


@given(
    st.dictionaries(st.integers(2, 60), st.floats(0, 2000), min_size=1),
    st.floats(1, 100),
)
def test_no_service_is_both_and_none_that_is_heard_is_either(seen: dict[int, float], down_time: float) -> None:
    newest = max(seen.values())
    verdict = judge(seen, down_time, {2, 3})
    silent = {key for key, at in seen.items() if newest - at > down_time}
    assert verdict.down | verdict.in_doubt == silent
    assert not verdict.down & verdict.in_doubt
    assert all(newest - seen[key] <= (MASS_SILENCE_GRACE + 1) * down_time for key in verdict.in_doubt)
