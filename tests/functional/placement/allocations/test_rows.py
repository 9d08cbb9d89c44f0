"""The statements behind allocations, each beside rows that it must leave alone."""

from collections import Counter
from pathlib import Path

import pytest
from sqlalchemy import select, update

from minova import errors
from minova.db.engine import Database
from minova.db.models import Allocation, Consumer, Inventory, ResourceProvider
from minova.placement.allocations import rows
from tests.functional.placement.candidate_cases import provider, put
from tests.functional.placement.cases import claim, claim_of, held, hosts
from tests.functional.scheduler.cloud import fresh, named

ONE, TWO = named("one"), named("two")


@pytest.fixture
def db(tmp_path: Path) -> Database:
    return fresh(f"sqlite:///{tmp_path}/minova.sqlite")


def ensure(db: Database, *uuids: str, claim_number: int = 1) -> None:
    db.run(lambda session: rows.ensure_consumers(session, [(uuid, claim_number, "p", "u") for uuid in uuids]))


def generations(db: Database) -> dict[str, int]:
    with db.read() as session:
        return dict(session.execute(select(Consumer.uuid, Consumer.generation)).all())


def test_a_consumer_begins_at_generation_0_and_is_not_made_twice(db: Database) -> None:
    ensure(db, ONE, claim_number=4)
    ensure(db, ONE, TWO, claim_number=9)
    assert generations(db) == {ONE: 0, TWO: 0}
    assert db.run(lambda session: rows.lock_consumers(session, [ONE, TWO])) == {ONE: 4, TWO: 9}
    assert db.run(lambda session: rows.lock_consumers(session, [TWO, named("unknown")])) == {TWO: 9}


def test_a_new_number_and_a_raise_each_raise_the_generation_by_one(db: Database) -> None:
    ensure(db, ONE, TWO)
    db.run(lambda session: rows.raise_generations(session, [ONE]))
    db.run(lambda session: rows.raise_generations(session, []))
    assert generations(db) == {ONE: 1, TWO: 0}
    db.run(lambda session: rows.renumber(session, {ONE: 7}))
    db.run(lambda session: rows.renumber(session, {}))
    assert generations(db) == {ONE: 2, TWO: 0}
    assert db.run(lambda session: rows.lock_consumers(session, [ONE, TWO])) == {ONE: 7, TWO: 1}


def test_only_consumers_that_hold_nothing_are_deleted(db: Database) -> None:
    hosts(db, "a")
    claim(db, claim_of("one", "a"))
    ensure(db, TWO, named("three"))
    db.run(lambda session: rows.delete_consumers(session, [ONE, TWO]))
    assert generations(db).keys() == {ONE, named("three")}


def test_numbers_of_holders_tell_whether_a_consumer_holds_anything(db: Database) -> None:
    hosts(db, "a")
    claim(db, claim_of("one", "a", claim_number=3))
    ensure(db, TWO, claim_number=5)
    with db.read() as session:
        assert rows.numbers_of_holders(session, [ONE, TWO]) == {ONE: (3, True), TWO: (5, False)}


def test_a_provider_of_no_node_stands_for_itself(db: Database) -> None:
    node = hosts(db, "a")[0]
    put(db, provider("store"))
    with db.read() as session:
        providers = rows.providers_by_uuid(session, [named("node a"), "store", "unknown"])
    assert {uuid: (record.name, record.node_id, record.host) for uuid, record in providers.items()} == {
        named("node a"): ("a", node, "a"),
        "store": ("store", None, "store"),
    }


def test_a_node_is_found_by_any_provider_of_its_tree_also_by_a_root_of_an_early_release(db: Database) -> None:
    """Early releases left root_provider_id of a root empty."""
    node, other = hosts(db, "a", "b")
    put(db, provider("child"), provider("store"))
    with db.read() as session:
        ids = dict(session.execute(select(ResourceProvider.uuid, ResourceProvider.id)).all())
    root, child, store = ids[named("node a")], ids["child"], ids["store"]

    def set_root(provider_id: int, root_id: int | None) -> None:
        changed = update(ResourceProvider).where(ResourceProvider.id == provider_id).values(root_provider_id=root_id)
        db.run(lambda session: session.execute(changed))

    def nodes_of(*providers: int) -> list[int]:
        return sorted(db.run(lambda session: rows.node_ids_of(session, providers)))

    set_root(child, root)
    for root_of_root in (root, None):
        set_root(root, root_of_root)
        assert nodes_of(root) == nodes_of(child) == nodes_of(root, child, store) == [node]
        assert nodes_of(ids[named("node b")], child) == sorted([node, other])
        assert nodes_of(store) == nodes_of() == []


def test_children_are_those_below_a_root_and_not_the_root(db: Database) -> None:
    put(db, provider("root"), provider("child", "root"), provider("grandchild", "child"), provider("other"))
    with db.read() as session:
        ids = dict(session.execute(select(ResourceProvider.uuid, ResourceProvider.id)).all())
        children = rows.children_of(session, [ids["root"], ids["other"]])
        assert rows.children_of(session, []) == {}
    assert children == {ids["root"]: [ids["child"], ids["grandchild"]]}


def test_used_rises_up_to_the_capacity_and_beyond_it_only_on_demand(db: Database) -> None:
    hosts(db, "a")
    with db.read() as session:
        (provider_id,) = session.scalars(select(ResourceProvider.id))
    key = (provider_id, "VCPU")

    def change(taken: int, freed: int, *, beyond: bool = False) -> int:
        db.run(
            lambda session: rows.change_used(
                session, Counter({key: taken}), Counter({key: freed}), beyond_capacity=beyond
            )
        )
        with db.read() as session:
            return int(session.scalars(select(Inventory.used).where(Inventory.resource_class == "VCPU")).one())

    assert change(3, 0) == 3
    assert change(2, 2) == 3
    assert change(1, 0) == 4
    with pytest.raises(errors.Conflict):
        change(1, 0)
    assert change(3, 0, beyond=True) == 7
    assert change(0, 1) == 6
    assert change(1, 3) == 4
    with db.read() as session:
        used = session.execute(select(Inventory.resource_class, Inventory.used)).all()
    assert dict(used) == {"VCPU": 4, "MEMORY_MB": 0, "DISK_GB": 0}


def test_an_inventory_that_is_not_there_is_a_conflict(db: Database) -> None:
    with pytest.raises(errors.Conflict):
        db.run(lambda session: rows.change_used(session, Counter({(99, "VCPU"): 1}), Counter()))


def test_holdings_by_consumer_are_written_read_and_deleted(db: Database) -> None:
    hosts(db, "a")
    claim(db, claim_of("one", "a", VCPU=1), claim_of("two", "a", VCPU=2))
    with db.read() as session:
        (provider_id,) = session.scalars(select(ResourceProvider.id))
        assert rows.holdings(session, [ONE, TWO, named("three")]) == {
            ONE: Counter({(provider_id, "VCPU"): 1}),
            TWO: Counter({(provider_id, "VCPU"): 2}),
        }
    db.run(lambda session: rows.delete_allocations(session, [ONE]))
    db.run(lambda session: rows.insert_allocations(session, {ONE: Counter({(provider_id, "DISK_GB"): 5})}))
    db.run(lambda session: rows.insert_allocations(session, {}))
    assert (held(db, "one"), held(db, "two")) == ({("a", "DISK_GB"): 5}, {("a", "VCPU"): 2})
    with db.read() as session:
        assert len(session.scalars(select(Allocation)).all()) == 2


def test_totals_and_providers_of_several_holdings() -> None:
    some = [Counter({(1, "VCPU"): 2, (2, "VCPU"): 1}), Counter({(1, "VCPU"): 3})]
    assert rows.total(some) == {(1, "VCPU"): 5, (2, "VCPU"): 1}
    assert rows.providers_in(some) == {1, 2}
