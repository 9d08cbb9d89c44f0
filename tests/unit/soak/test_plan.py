"""Faults drawn from a seed."""

from collections import defaultdict

import pytest

from tests.soak.plan import KINDS, REST, plan

HOURS_OF_FAULTS = 1200.0


def test_the_same_seed_gives_the_same_plan() -> None:
    assert plan(3, 90) == plan(3, 90)
    assert plan(3, 90) != plan(4, 90)


@pytest.mark.parametrize("seed", range(5))
def test_a_long_run_has_every_kind_of_fault(seed: int) -> None:
    assert {fault.kind for fault in plan(seed, HOURS_OF_FAULTS)} == set(KINDS)


@pytest.mark.parametrize("seed", range(5))
def test_a_target_rests_between_two_faults(seed: int) -> None:
    free_at: dict[str, float] = defaultdict(float)
    for fault in plan(seed, HOURS_OF_FAULTS):
        for target in fault.targets:
            assert fault.at >= free_at[target] - 0.2  # both are rounded
            free_at[target] = fault.at + fault.length + REST


@pytest.mark.parametrize("seed", range(5))
def test_all_is_put_right_by_the_end(seed: int) -> None:
    assert all(fault.at + fault.length <= 90.2 for fault in plan(seed, 90))


def test_only_the_kinds_that_are_asked_for_come() -> None:
    assert {fault.kind for fault in plan(1, 300, kinds=["kill an API"])} == {"kill an API"}
