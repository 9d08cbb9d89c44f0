"""Everything that a conductor does, on PostgreSQL and MariaDB."""

from collections.abc import Iterator

import pytest

from minova.db import schema
from tests.functional.conductor.cases import ConductorCases
from tests.functional.conductor.desk import Desk


@pytest.fixture(params=["fresh_postgresql_url", "fresh_mariadb_url"])
def desk(request: pytest.FixtureRequest) -> Iterator[Desk]:
    url: str = request.getfixturevalue(request.param)()
    schema.upgrade(url)
    made = Desk(url)
    yield made
    made.close()


class TestOnServers(ConductorCases):
    pass
