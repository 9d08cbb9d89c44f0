"""A compute registers and is taken over on PostgreSQL, which adds no boolean to an integer."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.identified import Machine
from tests.functional.conductor.conductor_harness import ConductorHarness
from tests.functional.conductor.hosts.test_bug_node_renamed import service


@pytest.fixture(params=["postgresql_tables", "mariadb_tables"])
def harness(request: pytest.FixtureRequest) -> Iterator[ConductorHarness]:
    url: str = request.getfixturevalue(request.param)
    harness = ConductorHarness(url)
    yield harness
    harness.close()


def test_a_compute_registers_and_its_next_process_takes_over(harness: ConductorHarness, tmp_path: Path) -> None:
    machine = Machine(tmp_path / "machine", harness.conductor)
    first = machine.boot("hv")
    epoch = service(harness, "hv").epoch
    first.die()
    second = machine.boot("hv")
    row = service(harness, "hv")
    assert (row.process, row.epoch) == (second.identity.process, epoch + 1)
