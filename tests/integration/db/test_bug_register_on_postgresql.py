"""A compute registers and is taken over on PostgreSQL, which adds no boolean to an integer."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.identified import Machine
from tests.functional.conductor.desk import Desk
from tests.functional.conductor.test_bug_node_renamed import service


@pytest.fixture(params=["postgresql_tables", "mariadb_tables"])
def desk(request: pytest.FixtureRequest) -> Iterator[Desk]:
    url: str = request.getfixturevalue(request.param)
    made = Desk(url)
    yield made
    made.close()


def test_a_compute_registers_and_its_next_process_takes_over(desk: Desk, tmp_path: Path) -> None:
    machine = Machine(tmp_path / "machine", desk.conductor)
    first = machine.boot("hv")
    epoch = service(desk, "hv").epoch
    first.die()
    second = machine.boot("hv")
    row = service(desk, "hv")
    assert (row.process, row.epoch) == (second.identity.process, epoch + 1)
