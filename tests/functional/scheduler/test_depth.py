"""How deep the call stack is between the manager and a filter: fewer frames are easier to follow."""

import sys
from typing import Any

import pytest

from minova.db.engine import Database
from minova.scheduler.filters.compute import ComputeFilter
from minova.scheduler.manager import SchedulerManager
from tests.functional.scheduler.schedulers import ask, hosts, in_parallel, manager_of

MAX_FRAMES = 12


@pytest.fixture
def depths(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """For each run of ComputeFilter the frames from the manager to the filter, both included."""
    depths: list[int] = []
    filter_table = ComputeFilter.filter_table

    def measuring(self: ComputeFilter, *args: Any) -> Any:
        frame, depth = sys._getframe(), 1
        while frame.f_code is not SchedulerManager.select_destinations.__code__:
            assert frame.f_back is not None
            frame, depth = frame.f_back, depth + 1
        depths.append(depth)
        return filter_table(self, *args)

    monkeypatch.setattr(ComputeFilter, "filter_table", measuring)
    return depths


@pytest.mark.parametrize("driver", ["filter_scheduler", "caching_scheduler", "chance_scheduler"])
def test_a_filter_is_few_frames_below_the_manager(db: Database, depths: list[int], driver: str) -> None:
    hosts(db, 3)
    assert ask(manager_of(db, scheduler__driver=driver), count=2).selections
    assert depths
    assert max(depths) <= MAX_FRAMES


def test_so_it_is_for_requests_that_wait_for_each_other(db: Database, depths: list[int]) -> None:
    hosts(db, 3)
    answers = in_parallel([manager_of(db)], 8, 1)
    assert all(answer.selections for answer in answers)
    assert max(depths) <= MAX_FRAMES
