"""What an instance and its migration give each other."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, select
from sqlalchemy.orm import Session

from minova.db.engine import Database
from minova.db.models import Allocation, Consumer, ResourceProvider
from minova.placement.allocations import rows
from minova.placement.allocations.transfers import absorb, exchange, transfer
from tests.functional.placement.cases import changed_nodes, claim, claim_of, held, holding_on, hosts, locks, release
from tests.functional.scheduler.cloud import fresh, inventory_rows, named, unbalanced

ONE, MOVE = named("one"), named("move")


@pytest.fixture
def db(tmp_path: Path) -> Database:
    return fresh(f"sqlite:///{tmp_path}/minova.sqlite")


def numbers(db: Database) -> dict[str, int]:
    return db.run(lambda session: rows.lock_consumers(session, [ONE, MOVE]))


def moved(db: Database) -> list[int]:
    """A move from host old to host new, where the instance has claimed more. Returns the ids of both nodes."""
    nodes = hosts(db, "old", "new")
    claim(db, claim_of("one", "old", VCPU=1))
    db.run(lambda session: transfer(session, ONE, MOVE))
    claim(db, claim_of("one", "new", claim_number=2, VCPU=2))
    return list(nodes)


@contextmanager
def statements(db: Database) -> Iterator[list[str]]:
    seen: list[str] = []

    def note(connection: Any, cursor: Any, statement: str, *rest: Any) -> None:
        seen.append(" ".join(statement.split()))

    event.listen(db.engine, "before_cursor_execute", note)
    try:
        yield seen
    finally:
        event.remove(db.engine, "before_cursor_execute", note)


def test_a_migration_gets_all_that_its_instance_holds_with_its_owner(db: Database) -> None:
    nodes = hosts(db, "a", "b")
    claim(db, claim_of("one", "a"), claim_of("two", "b"))
    before = len(changed_nodes(db))
    assert db.run(lambda session: transfer(session, ONE, MOVE))
    assert (held(db, "one"), held(db, "move"), held(db, "two")) == ({}, holding_on("a"), holding_on("b"))
    assert changed_nodes(db)[before:] == [nodes[0]]
    assert numbers(db) == {ONE: 1, MOVE: 1}
    with db.read() as session:
        move = session.scalars(select(Consumer).where(Consumer.uuid == MOVE)).one()
        assert (move.project_id, move.user_id, move.consumer_type) == ("p", "u", "MIGRATION")
    assert not unbalanced(inventory_rows(db))


def test_an_instance_that_holds_nothing_gives_nothing(db: Database) -> None:
    hosts(db, "a")
    assert not db.run(lambda session: transfer(session, ONE, MOVE))
    assert numbers(db) == {}
    release(db, "one", claim_number=3)
    before = changed_nodes(db)
    assert not db.run(lambda session: transfer(session, ONE, MOVE))
    assert changed_nodes(db) == before


def test_an_exchange_raises_the_number_of_the_instance_and_tells_schedulers_of_both_nodes(db: Database) -> None:
    nodes = moved(db)
    before, changes_before = numbers(db), len(changed_nodes(db))
    assert db.run(lambda session: exchange(session, ONE, MOVE))
    assert (held(db, "one"), held(db, "move")) == ({("old", "VCPU"): 1}, {("new", "VCPU"): 2})
    assert numbers(db) == {ONE: before[ONE] + 1, MOVE: before[MOVE]}
    assert sorted(changed_nodes(db)[changes_before:]) == nodes
    assert not unbalanced(inventory_rows(db))


@pytest.mark.parametrize("empty", ["one", "move"])
def test_there_is_no_exchange_with_one_that_holds_nothing(db: Database, empty: str) -> None:
    moved(db)
    release(db, empty)
    before = (held(db, "one"), held(db, "move"), numbers(db), changed_nodes(db))
    assert not db.run(lambda session: exchange(session, ONE, MOVE))
    assert (held(db, "one"), held(db, "move"), numbers(db), changed_nodes(db)) == before


@pytest.mark.parametrize(
    ("wanted", "kept"),
    [
        ({"VCPU": 3, "MEMORY_MB": 10}, {"VCPU": 3, "MEMORY_MB": 10}),
        ({"VCPU": 1}, {"VCPU": 1}),
        ({"VCPU": 9, "DISK_GB": 9}, {"VCPU": 4}),
        ({}, {}),
    ],
)
def test_an_instance_keeps_what_it_needs_of_both(db: Database, wanted: dict[str, int], kept: dict[str, int]) -> None:
    (node,) = hosts(db, "a")
    claim(db, claim_of("one", "a", VCPU=3, MEMORY_MB=30))
    db.run(lambda session: transfer(session, ONE, MOVE))
    claim(db, claim_of("one", "a", claim_number=2, VCPU=1))
    before = len(changed_nodes(db))
    db.run(lambda session: absorb(session, ONE, MOVE, wanted))
    assert (held(db, "one"), held(db, "move")) == ({("a", name): amount for name, amount in kept.items()}, {})
    used = {name: used for _, name, _, used, _ in inventory_rows(db)}
    assert used == {"VCPU": 0, "MEMORY_MB": 0, "DISK_GB": 0} | kept
    assert not unbalanced(inventory_rows(db))
    assert changed_nodes(db)[before:] == [node]


def test_there_is_nothing_to_keep_of_two_that_hold_nothing(db: Database) -> None:
    hosts(db, "a")
    before = changed_nodes(db)
    db.run(lambda session: absorb(session, ONE, MOVE, {"VCPU": 1}))
    assert (held(db, "one"), changed_nodes(db)) == ({}, before)


def test_rows_that_the_same_transaction_has_just_made_count(db: Database) -> None:
    hosts(db, "a")
    claim(db, claim_of("one", "a", VCPU=1), claim_of("move", "a", VCPU=2))
    release(db, "move")

    def give(session: Session) -> None:
        provider_id = session.scalars(select(ResourceProvider.id)).one()
        session.add(
            Allocation(consumer_uuid=MOVE, provider_id=provider_id, resource_class="DISK_GB", used=5, updated_at=1.0)
        )

    def exchanged(session: Session) -> bool:
        give(session)
        return exchange(session, ONE, MOVE)

    assert db.run(exchanged)
    assert (held(db, "one"), held(db, "move")) == ({("a", "DISK_GB"): 5}, {("a", "VCPU"): 1})


def test_what_the_same_transaction_has_just_written_is_absorbed(db: Database) -> None:
    hosts(db, "a")
    claim(db, claim_of("one", "a", VCPU=1), claim_of("move", "a", VCPU=2))
    release(db, "move")

    def write_and_absorb(session: Session) -> None:
        row = {"provider_id": session.scalars(select(ResourceProvider.id)).one(), "resource_class": "DISK_GB"}
        session.add(Allocation(consumer_uuid=MOVE, **row, used=5, updated_at=1.0))
        absorb(session, ONE, MOVE, {"VCPU": 1, "DISK_GB": 5})

    db.run(write_and_absorb)
    assert (held(db, "one"), held(db, "move")) == ({("a", "VCPU"): 1, ("a", "DISK_GB"): 5}, {})


def test_what_is_kept_is_decided_under_the_locks_of_consumers_and_then_of_inventories(db: Database) -> None:
    moved(db)
    with locks() as locked:
        db.run(lambda session: absorb(session, ONE, MOVE, {"VCPU": 1}))
    assert [table for table, _ in locked] == ["consumers", "inventories"]


@pytest.mark.parametrize("work", [transfer, exchange, lambda session, one, move: absorb(session, one, move, {})])
def test_both_consumers_are_locked_before_it_is_read_what_they_hold(db: Database, work: Any) -> None:
    moved(db)
    with statements(db) as seen:
        db.run(lambda session: work(session, ONE, MOVE))
    lock = next(i for i, text in enumerate(seen) if text.endswith("ORDER BY consumers.uuid"))
    first_read = next(i for i, text in enumerate(seen) if "FROM allocations" in text)
    assert lock < first_read
