"""Allocations as Placement's API writes and removes them, beside the claims of schedulers."""

from pathlib import Path

import pytest

from minova.db.engine import Database
from minova.placement.allocations import writes
from minova.placement.allocations.writes import ConsumerAllocations
from tests.functional.placement.cases import changed_nodes, claim, claim_of, held, hosts
from tests.functional.scheduler.cloud import fresh, inventory_rows, named, unbalanced


@pytest.fixture
def db(tmp_path: Path) -> Database:
    return fresh(f"sqlite:///{tmp_path}/minova.sqlite")


def test_a_removal_tells_schedulers_of_each_node_that_it_touches(db: Database) -> None:
    a, _ = hosts(db, "a", "b")
    claim(db, claim_of("one", "a"), claim_of("two", "b"))
    before = len(changed_nodes(db))
    db.run(lambda session: writes.remove(session, named("one")))
    assert changed_nodes(db)[before:] == [a]
    assert (held(db, "one"), unbalanced(inventory_rows(db))) == ({}, [])


def test_a_replacement_tells_schedulers_of_the_nodes_before_and_after(db: Database) -> None:
    a, b = hosts(db, "a", "b")
    claim(db, claim_of("one", "a"))
    before = len(changed_nodes(db))
    moved = ConsumerAllocations(consumer_uuid=named("one"), allocations={named("node b"): {"VCPU": 1}})
    db.run(lambda session: writes.replace(session, [moved]))
    assert sorted(changed_nodes(db)[before:]) == [a, b]
    assert held(db, "one") == {("b", "VCPU"): 1}
