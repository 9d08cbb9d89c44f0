"""Several schedulers over one real database, each with a table of its own."""

from collections.abc import Iterator

import pytest

from minova.db.engine import Database
from tests.functional.scheduler.cloud import fresh, inventory_rows, unbalanced
from tests.functional.scheduler.schedulers import ask, hosts, in_parallel, manager_of


@pytest.fixture(params=["fresh_postgresql_url", "fresh_mariadb_url"])
def dbs(request: pytest.FixtureRequest) -> Iterator[list[Database]]:
    """Three doors to one new database."""
    url: str = request.getfixturevalue(request.param)()
    databases = [fresh(url) for _ in range(3)]
    yield databases
    for db in databases:
        db.close()


def test_they_fill_a_cloud_to_the_brim_and_no_further(dbs: list[Database]) -> None:
    hosts(dbs[0], 10, memory_mb=8192)
    answers = in_parallel([manager_of(db) for db in dbs], requests=60, size=1)
    assert len(answers) == 60
    assert sum(len(answer.selections) for answer in answers) == 40
    assert not unbalanced(inventory_rows(dbs[0]))
    assert all("placement removed 10" in a.diagnosis.summary() for a in answers if not a.selections)


def test_a_claim_of_one_is_seen_by_the_next(dbs: list[Database]) -> None:
    hosts(dbs[0], 2, memory_mb=4096)
    first, second = manager_of(dbs[0]), manager_of(dbs[1])
    for number in range(2):
        for manager, name in ((first, "a"), (second, "b")):
            assert ask(manager, prefix=f"{name}{number}").selections
    assert not ask(first, prefix="c").selections
