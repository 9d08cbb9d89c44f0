"""Everything that a conductor does, on PostgreSQL and MariaDB."""

from collections.abc import Iterator

import pytest

from tests.functional.conductor.cases import ConductorCases
from tests.functional.conductor.desk import Desk


@pytest.fixture(params=["postgresql_tables", "mariadb_tables"])
def desk(request: pytest.FixtureRequest) -> Iterator[Desk]:
    url: str = request.getfixturevalue(request.param)
    made = Desk(url)
    yield made
    made.close()


class TestOnServers(ConductorCases):
    pass
