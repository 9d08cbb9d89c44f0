"""Pauses grow to the longest one, and stay there."""

import itertools

import pytest

from minova.backoff import Backoff


def test_each_pause_is_twice_the_one_before_up_to_the_longest() -> None:
    assert list(itertools.islice(Backoff(1.0, 10.0).pauses(), 6)) == [1, 2, 4, 8, 10, 10]


@pytest.mark.parametrize(("failures", "pause"), [(-1, 0.5), (0, 0.5), (1, 0.5), (2, 0.75), (10**6, 60.0)])
def test_every_number_of_failures_has_a_pause(failures: int, pause: float) -> None:
    assert Backoff(0.5, 60.0, 1.5).pause(failures) == pause
