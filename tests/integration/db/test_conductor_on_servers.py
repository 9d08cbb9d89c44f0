"""Everything that a conductor does, on PostgreSQL and MariaDB."""

from collections.abc import Iterator

import pytest

from tests.functional.conductor.cases import ConductorCases
from tests.functional.conductor.conductor_harness import ConductorHarness


@pytest.fixture(params=["postgresql_tables", "mariadb_tables"])
def harness(request: pytest.FixtureRequest) -> Iterator[ConductorHarness]:
    url: str = request.getfixturevalue(request.param)
    made = ConductorHarness(url)
    yield made
    made.close()


class TestOnServers(ConductorCases):
    pass
