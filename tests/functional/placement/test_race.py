from pathlib import Path

from tests.functional.placement.race_case import run_race
from tests.functional.scheduler.cloud import fresh


def test_processes_that_race_on_sqlite_never_overcommit(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/minova.sqlite"
    assert run_race(fresh(url), url, processes=3, steps=60) > 60


def test_processes_that_race_for_the_places_of_groups_on_sqlite_never_break_a_policy(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/minova.sqlite"
    assert run_race(fresh(url), url, processes=3, steps=60, groups=True) > 30
