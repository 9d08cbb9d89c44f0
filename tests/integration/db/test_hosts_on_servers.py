"""Renaming and removing hosts, and the order of writes, on PostgreSQL and MariaDB."""

from collections.abc import Callable, Iterator

import pytest

from tests.functional.conductor import test_bug_late_save as order
from tests.functional.conductor.conductor_harness import ConductorHarness
from tests.functional.conductor.hosts import test_rename as names
from tests.functional.conductor.hosts import test_service_removal as removal


@pytest.fixture(params=["postgresql_tables", "mariadb_tables"])
def harness(request: pytest.FixtureRequest) -> Iterator[ConductorHarness]:
    url: str = request.getfixturevalue(request.param)
    harness = ConductorHarness(url)
    yield harness
    harness.close()


CASES = (
    names.test_every_row_that_names_the_host_follows,
    names.test_names_that_are_taken_are_refused,
    removal.test_everything_that_a_host_was_known_by_goes_with_its_compute,
    removal.test_compute_that_hosts_instances_stays,
    removal.test_process_whose_service_another_conductor_deleted_is_told_so,
    order.test_late_save_is_ignored,
    order.test_process_that_was_replaced_is_refused,
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_as_on_sqlite(harness: ConductorHarness, case: Callable[[ConductorHarness], None]) -> None:
    case(harness)
