"""Everything that a conductor does, on PostgreSQL and MariaDB."""

from collections.abc import Iterator

import pytest

from tests.functional.conductor.cases import ConductorCases
from tests.functional.conductor.conductor_harness import ConductorHarness, make_hosts
from tests.tables import Rows, copy_rows, delete_rows, put_rows


@pytest.fixture(scope="session")
def hosts() -> dict[str, Rows]:
    """By database, the rows of the hosts of a harness: to make them takes longer than most tests."""
    return {}


ON_MARIADB = pytest.mark.nightly(
    "the same statements on PostgreSQL each day; test_placement_on_servers.py has the locks of MariaDB"
)


@pytest.fixture(params=["postgresql", pytest.param("mariadb", marks=ON_MARIADB)])
def harness(request: pytest.FixtureRequest, hosts: dict[str, Rows]) -> Iterator[ConductorHarness]:
    url: str = request.getfixturevalue(f"kept_{request.param}_url")
    if url in hosts:
        put_rows(url, hosts[url])
    else:
        delete_rows(url)
        make_hosts(url)
        hosts[url] = copy_rows(url)
    harness = ConductorHarness(url, prepared=True)
    yield harness
    harness.close()


class TestOnServers(ConductorCases):
    pass
