"""Placement's claims and races on PostgreSQL and MariaDB."""

from collections.abc import Iterator

import pytest

from minova.db.engine import Database
from tests.functional.placement.cases import ClaimCases
from tests.functional.placement.group_cases import GroupCases
from tests.functional.placement.race_case import run_race
from tests.functional.scheduler.cloud import fresh
from tests.nightly import daily


# PostgreSQL has the same claims under the whole conductor each day, in test_conductor_on_servers.py.
@pytest.fixture(
    params=daily(["fresh_postgresql_url", "fresh_mariadb_url"], ("fresh_mariadb_url",), "MariaDB deadlocks sooner")
)
def url(request: pytest.FixtureRequest) -> str:
    """Of a new, empty database."""
    database_url: str = request.getfixturevalue(request.param)()
    return database_url


@pytest.fixture
def db(url: str) -> Iterator[Database]:
    database = fresh(url)
    yield database
    database.close()


class TestOnServers(ClaimCases, GroupCases):
    pass


def test_processes_that_race_never_overcommit_and_answer_every_deadlock(db: Database, url: str) -> None:
    assert run_race(db, url, processes=4, steps=40) > 40


def test_processes_that_race_for_the_places_of_groups_never_break_a_policy(db: Database, url: str) -> None:
    assert run_race(db, url, processes=4, steps=40, groups=True) > 24
