"""Faults drawn from a seed."""

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

import pytest

from tests.soak.plan import (
    ALL_KINDS,
    ANOTHER,
    APART,
    BACK_IN_TIME,
    CI_KINDS,
    CI_SECONDS,
    CI_SEEDS,
    CONDUCTORS,
    KINDS,
    MISLED,
    NOT_BESIDE_OLD_CONDUCTORS,
    REST,
    SERVICES,
    UPGRADE,
    UPGRADED_SHARE,
    Fault,
    of_the_last_release,
    plan,
)

HOURS_OF_FAULTS = 1200.0


def test_the_same_seed_gives_the_same_plan() -> None:
    assert plan(3, 90) == plan(3, 90)
    assert plan(3, 90) != plan(4, 90)


@pytest.mark.parametrize("seed", range(5))
def test_a_long_run_has_every_kind_of_fault(seed: int) -> None:
    faults = plan(seed, HOURS_OF_FAULTS)
    begins_old = {UPGRADE, *KINDS} - {"clock of the database"}
    assert {fault.kind for fault in faults} == (begins_old if of_the_last_release(faults) else set(KINDS))


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


def test_one_service_at_a_time_is_pointed_at_another_cloud() -> None:
    """Alone, these kinds came every three seconds. Each of them takes twenty, so a run of 12 minutes did not end within 18."""
    kinds = [kind for kind in KINDS if kind.startswith(ANOTHER)]
    faults = plan(24, 720, kinds)
    assert {fault.kind for fault in faults} == {*kinds}
    for earlier, later in pairwise(faults):
        assert later.at >= earlier.at + earlier.length + MISLED - 0.2  # both are rounded


# Of these some begin with the last release, and some do not.
SEEDS = range(20)


def _upgrade_ends(faults: Sequence[Fault], services: Sequence[str]) -> float:
    return max(
        (fault.length for fault in faults if fault.kind == UPGRADE and fault.targets[0] in services), default=0.0
    )


def test_some_runs_begin_with_the_last_release() -> None:
    old = [of_the_last_release(plan(seed, 90)) for seed in SEEDS]
    assert 0 < sum(map(bool, old)) < len(old)
    assert all(set(CONDUCTORS) <= each for each in old if each)
    assert {service for each in old for service in each} == set(SERVICES)


@pytest.mark.parametrize("seed", SEEDS)
def test_each_service_of_the_last_release_is_replaced_once(seed: int) -> None:
    faults = plan(seed, 90)
    upgrades = [fault for fault in faults if fault.kind == UPGRADE]
    assert sorted(target for fault in upgrades for target in fault.targets) == sorted(of_the_last_release(faults))
    assert all(fault.at == 0 and 0 < fault.length <= UPGRADED_SHARE * 90 for fault in upgrades)


@pytest.mark.parametrize("seed", SEEDS)
def test_old_conductors_see_no_outage_no_step_no_rename_and_no_rollback(seed: int) -> None:
    faults = plan(seed, HOURS_OF_FAULTS)
    until = _upgrade_ends(faults, CONDUCTORS)
    beside = {fault.kind for fault in faults if fault.kind != UPGRADE and fault.at < until}
    assert not beside & NOT_BESIDE_OLD_CONDUCTORS
    if until:
        assert "clock of the database" not in {fault.kind for fault in faults}


def test_conductors_do_not_go_back() -> None:
    assert not any(set(KINDS[kind].targets) & set(CONDUCTORS) for kind in KINDS if "rollback" in kind)


def test_outages_steps_renames_evacuations_and_rollbacks_are_kept_from_old_conductors() -> None:
    kept = set(NOT_BESIDE_OLD_CONDUCTORS)
    assert kept == {
        kind for kind in KINDS if kind.split()[0] in {"alarm", "rename", "clock", "upgrade", "power", "another"}
    } | {f"{act} the {server}" for act in ("kill", "restart") for server in ("broker", "database")}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_renamed_host_does_not_go_back(seed: int) -> None:
    renamed: set[str] = set()
    for fault in plan(seed, HOURS_OF_FAULTS):
        if fault.kind == "rename a host":
            renamed |= set(fault.targets)
        if fault.kind == "upgrade computes after a rollback":
            assert not renamed & set(fault.targets)


def test_only_upgrades_can_be_asked_for() -> None:
    kinds = [kind for kind in ALL_KINDS if "upgrade" in kind]
    drawn = {fault.kind for seed in SEEDS for fault in plan(seed, 90, kinds=kinds)}
    assert drawn == set(kinds)


def test_every_run_in_ci_has_upgrades() -> None:
    drawn = [{fault.kind for fault in plan(seed, CI_SECONDS, CI_KINDS) if "upgrade" in fault.kind} for seed in CI_SEEDS]
    assert all(drawn)
    assert set.union(*drawn) == {kind for kind in ALL_KINDS if "upgrade" in kind}


@pytest.mark.parametrize("seed", SEEDS)
def test_the_database_goes_back_in_time_now_and_then(seed: int) -> None:
    faults = plan(seed, HOURS_OF_FAULTS)
    times = [fault.at for fault in faults if fault.kind in BACK_IN_TIME]
    assert all(later - earlier >= APART - 0.2 for earlier, later in pairwise(times))
    assert len(times) >= 3
    assert len(times) < len(faults) / 20


@pytest.mark.parametrize("kind", sorted(BACK_IN_TIME))
def test_a_run_of_nothing_else_goes_back_in_time_again(kind: str) -> None:
    assert [fault.kind for fault in plan(1, 300, kinds=[kind])] == [kind] * 3


@pytest.mark.parametrize("seed", CI_SEEDS)
def test_no_run_in_ci_goes_back_in_time(seed: int) -> None:
    assert not {fault.kind for fault in plan(seed, CI_SECONDS, CI_KINDS)} & BACK_IN_TIME
