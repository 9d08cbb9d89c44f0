"""An allocation ratio set through Placement stays where the compute's option is unset, as in Nova."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from minova.db import models
from minova.placement.nodes import inventories
from minova.placement.providers import inventories as provider_inventories
from minova.placement.providers.inventories import Numbers
from minova.placement.providers.queries import find
from tests.cluster import configure
from tests.functional.compute.migration_world import World

CLASSES = {"cpu": "VCPU", "ram": "MEMORY_MB", "disk": "DISK_GB"}


class Unset(World):
    """Its computes have no ratio set, but for `options`."""

    options: dict[str, Any] = {}  # noqa: RUF012 - each test has a class of its own

    def _conf(self, host: str) -> Any:
        return configure(self._tables.parent / host, host=host, **self.options)

    def audit(self) -> None:
        self.computes["a"].update_available_resource()
        self.settle()

    def ratios(self) -> tuple[dict[str, float], dict[str, float]]:
        """(of the inventories, of the node's row), by resource class."""
        with self.db.read() as session:
            row = session.scalars(select(models.ComputeNode).where(models.ComputeNode.host == "a")).one()
            of_row = {name: getattr(row, f"{what}_allocation_ratio") for what, name in CLASSES.items()}
            return inventories.ratios_of(session, row.uuid), of_row

    def set_ratio(self, name: str, ratio: float) -> None:
        """As over HTTP."""
        uuid = self.tracker("a").node.uuid

        def work(session: Any) -> None:
            provider = find(session, uuid)
            numbers = provider_inventories.of_provider(session, provider.id)[name].numbers
            changed = Numbers(total=numbers.total, max_unit=numbers.max_unit, allocation_ratio=ratio)
            provider_inventories.change(session, provider, name, changed)

        self.db.run(work)


def cloud_of(tables: Path, folder: Path, **options: Any) -> Unset:
    kind: type[Unset] = type("Here", (Unset,), {"options": options})
    return kind(folder / "world", tables)


@pytest.fixture
def cloud(tables: Path, tmp_path: Path) -> Iterator[Unset]:
    cloud = cloud_of(tables, tmp_path)
    yield cloud
    cloud.close()


INITIAL = {"VCPU": 4.0, "MEMORY_MB": 1.0, "DISK_GB": 1.0}


def test_a_new_node_begins_with_the_initial_ratios(cloud: Unset) -> None:
    assert cloud.ratios() == (INITIAL, INITIAL)


def test_ratios_set_through_placement_stay(cloud: Unset) -> None:
    cloud.set_ratio("VCPU", 16.0)
    cloud.set_ratio("MEMORY_MB", 1.5)
    expected = {"VCPU": 16.0, "MEMORY_MB": 1.5, "DISK_GB": 1.0}
    for _ in range(2):
        cloud.audit()
        # The row as well: CoreFilter and the limits of cells read it.
        assert cloud.ratios() == (expected, expected)
    cloud.start("a")
    assert cloud.ratios() == (expected, expected)


def test_what_is_reserved_is_still_the_compute_s(cloud: Unset) -> None:
    cloud.set_ratio("MEMORY_MB", 2.0)  # and with it nothing reserved
    cloud.audit()
    with cloud.db.read() as session:
        memory = provider_inventories.of_provider(session, find(session, cloud.tracker("a").node.uuid).id)["MEMORY_MB"]
    assert (memory.numbers.reserved, memory.numbers.allocation_ratio) == (512, 2.0)
    assert memory.numbers.capacity == (memory.numbers.total - 512) * 2


def test_an_option_that_is_set_wins(tables: Path, tmp_path: Path) -> None:
    cloud = cloud_of(tables, tmp_path, cpu_allocation_ratio=2.0)
    try:
        assert cloud.ratios()[0]["VCPU"] == 2.0
        cloud.set_ratio("VCPU", 16.0)
        cloud.set_ratio("DISK_GB", 3.0)
        cloud.audit()
        assert cloud.ratios()[0] == {"VCPU": 2.0, "MEMORY_MB": 1.0, "DISK_GB": 3.0}
    finally:
        cloud.close()


def test_a_ratio_set_while_an_audit_is_under_way_stays(cloud: Unset, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = cloud.conductor.finish_audit

    def late(*args: Any, **kwargs: Any) -> Any:
        cloud.set_ratio("VCPU", 8.0)
        monkeypatch.undo()
        return whole(*args, **kwargs)

    monkeypatch.setattr(cloud.conductor, "finish_audit", late)
    cloud.audit()
    assert cloud.ratios()[0]["VCPU"] == 8.0
    cloud.audit()
    assert cloud.ratios()[1]["VCPU"] == 8.0


def test_a_ratio_beyond_all_numbers_is_cut_to_the_widest(cloud: Unset) -> None:
    cloud.set_ratio("MEMORY_MB", 1e9)
    cloud.audit()
    assert cloud.ratios()[0]["MEMORY_MB"] == 1e9
