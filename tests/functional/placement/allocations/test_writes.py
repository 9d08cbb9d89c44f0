"""Allocations as Placement's API writes and removes them, beside the claims of schedulers."""

from pathlib import Path
from typing import Any

import pytest

from minova.db.engine import Database
from minova.db.models import Consumer
from minova.placement import inserts
from minova.placement.allocations import writes
from minova.placement.allocations.writes import ConsumerAllocations
from tests.functional.placement.cases import changed_nodes, claim, claim_of, held, hosts, locks
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


def test_a_removal_locks_the_consumer_and_then_the_inventories(db: Database) -> None:
    hosts(db, "a")
    claim(db, claim_of("one", "a"))
    with locks() as locked:
        db.run(lambda session: writes.remove(session, named("one")))
    assert [table for table, _ in locked] == ["consumers", "inventories"]


def test_a_consumer_of_the_api_that_holds_nothing_any_more_is_forgotten(db: Database) -> None:
    hosts(db, "a")

    def replace(**resources: int) -> int:
        allocations = {named("node a"): resources} if resources else {}
        change = ConsumerAllocations(consumer_uuid=named("one"), allocations=allocations)
        db.run(lambda session: writes.replace(session, [change]))
        with db.read() as session:
            return session.query(Consumer).count()

    assert [replace(VCPU=1), replace(VCPU=2), replace()] == [1, 1, 0]


def test_a_consumer_that_went_while_its_lock_was_waited_for_is_made_again(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts(db, "a")
    calls = []

    def gone_at_first(*arguments: Any) -> None:
        calls.append(arguments)
        if len(calls) > 1:
            inserts.insert_missing(*arguments)

    monkeypatch.setattr(writes, "insert_missing", gone_at_first)
    change = ConsumerAllocations(consumer_uuid=named("one"), allocations={named("node a"): {"VCPU": 1}})
    db.run(lambda session: writes.replace(session, [change]))
    assert held(db, "one") == {("a", "VCPU"): 1}
