from pathlib import Path

import pytest
from sqlalchemy.orm import Session

from minova import errors
from minova.db import models
from minova.db.engine import Database
from minova.placement.allocations import claims
from minova.placement.allocations.claims import AllocationClaim
from minova.placement.allocations.transfers import exchange, transfer
from tests.functional.placement.candidate_cases import provider, put
from tests.functional.placement.cases import (
    ClaimCases,
    changed_nodes,
    claim,
    claim_of,
    held,
    holding_on,
    hosts,
    locks,
    release,
)
from tests.functional.placement.group_cases import GroupCases, add_group
from tests.functional.scheduler.cloud import SEEN, fresh, named


@pytest.fixture
def db(tmp_path: Path) -> Database:
    return fresh(f"sqlite:///{tmp_path}/minova.sqlite")


class TestOnSqlite(ClaimCases, GroupCases):
    pass


def test_a_root_serves_a_claim_of_its_last_unit_before_its_children_do(db: Database) -> None:
    put(db, provider("root", inventories={"VGPU": 1}), provider("child", "root", inventories={"VGPU": 8}))
    for consumer in ("one", "two"):
        allocation_claim = AllocationClaim(
            consumer_uuid=named(consumer), claim_number=1, provider_uuid="root", resources={"VGPU": 1}
        )
        assert claim(db, allocation_claim) == {}
    assert (held(db, "one"), held(db, "two")) == ({("root", "VGPU"): 1}, {("child", "VGPU"): 1})


def test_a_consumer_moves_to_the_child_with_the_most_free_beside_what_it_has_itself(db: Database) -> None:
    put(
        db,
        provider("root"),
        provider("c1", "root", inventories={"VGPU": 4}),
        provider("c2", "root", inventories={"VGPU": 4}),
    )

    def wanted(consumer: str, number: int, amount: int) -> AllocationClaim:
        vgpus = {"VGPU": amount}
        return AllocationClaim(
            consumer_uuid=named(consumer), claim_number=number, provider_uuid="root", resources=vgpus
        )

    for consumer, amount in (("one", 2), ("two", 2), ("three", 1)):
        assert claim(db, wanted(consumer, 1, amount)) == {}
    (child,) = {name for name, _ in held(db, "one")}
    assert held(db, "three") == {(child, "VGPU"): 1}
    assert claim(db, wanted("one", 2, 3)) == {}
    assert held(db, "one") == {(child, "VGPU"): 3}


def vgpus(consumer: str, amount: int, number: int = 1, provider_uuid: str = "root") -> AllocationClaim:
    return AllocationClaim(
        consumer_uuid=named(consumer),
        claim_number=number,
        provider_uuid=provider_uuid,
        resources={"VGPU": amount},
    )


def test_a_claim_that_changes_nothing_stays_on_its_child_although_another_has_more_free(db: Database) -> None:
    children = [provider(f"c{size}", "root", inventories={"VGPU": size}) for size in (4, 2)]
    put(db, provider("root"), *children)
    assert claim(db, vgpus("one", 1)) == {}
    assert claim(db, vgpus("filler", 3, provider_uuid="c4")) == {}
    assert claim(db, vgpus("one", 1, number=2)) == {}
    assert held(db, "one") == {("c4", "VGPU"): 1}


def test_nothing_of_a_class_is_claimed_where_only_children_have_it(db: Database) -> None:
    put(db, provider("root"), provider("child", "root", inventories={"VGPU": 1}))
    assert claim(db, vgpus("one", 0)) == {}
    assert held(db, "one") == {}


def test_a_root_without_children_refuses_more_than_it_has(db: Database) -> None:
    put(db, provider("root", inventories={"VGPU": 1}))
    assert claim(db, vgpus("one", 2)).keys() == {named("one")}
    assert held(db, "one") == {}


def test_consumers_of_a_provider_are_told_apart_by_their_type(db: Database) -> None:
    hosts(db, "a")
    for consumer, kind in (("one", "INSTANCE"), ("two", "MIGRATION")):
        assert claim(db, claim_of(consumer, "a", VCPU=1)) == {}
        with db.write() as session:
            session.query(models.Consumer).filter_by(uuid=named(consumer)).update({"consumer_type": kind})
    with db.read() as session:
        names = {
            kind: claims.consumers_of(session, named("node a"), kind)
            for kind in (None, "INSTANCE", "MIGRATION", "NONE")
        }
    assert names == {
        None: sorted([named("one"), named("two")]),
        "INSTANCE": [named("one")],
        "MIGRATION": [named("two")],
        "NONE": [],
    }


@pytest.mark.parametrize("number", [0, 7])
def test_a_release_finds_a_consumer_that_the_same_transaction_has_just_made(db: Database, number: int) -> None:
    def make_and_release(session: Session) -> dict[str, int]:
        session.add(models.Consumer(uuid=named("one"), claim_number=number, project_id="p", user_id="u"))
        return claims.release(session, [named("one")])

    assert db.run(make_and_release) == {named("one"): number + 1}


def test_a_release_locks_its_consumers_and_then_the_inventories(db: Database) -> None:
    hosts(db, "a")
    assert claim(db, claim_of("one", "a")) == {}
    with locks() as locked:
        release(db, "one")
    assert [table for table, _ in locked] == ["consumers", "inventories"]


def test_who_is_in_no_group_does_not_count_as_a_member_of_one(db: Database) -> None:
    hosts(db, "a")
    add_group(db, "first", "anti-affinity", "one")
    assert claim(db, claim_of("stranger", "a", VCPU=1), claim_of("one", "a", VCPU=1)) == {}


def test_a_claim_of_an_unknown_provider_does_not_end_the_batch(db: Database) -> None:
    hosts(db, "a")
    assert claim(db, claim_of("one", "unknown"), claim_of("two", "a")).keys() == {named("one")}
    assert held(db, "two") == holding_on("a")


def test_a_node_that_the_same_transaction_has_just_made_is_told_to_schedulers(db: Database) -> None:
    put(db, provider(named("node a"), inventories={"VCPU": 4}))

    def make_and_claim(session: Session) -> int:
        node = models.ComputeNode(uuid=named("node a"), host="a", hypervisor_hostname="a", created_at=SEEN)
        session.add(node)
        assert claims.claim(session, [claim_of("one", "a", VCPU=1)]) == {}
        return node.id

    node_id = db.run(make_and_claim)
    assert changed_nodes(db) == [node_id]


def test_a_number_is_taken_while_its_consumer_holds_something(db: Database) -> None:
    hosts(db, "a")
    claim(db, claim_of("one", "a", claim_number=3))
    release(db, "gone", claim_number=1)
    with db.read() as session:
        for number in (2, 3):
            with pytest.raises(errors.StaleClaim):
                claims.require_unclaimed(session, [named("one")], number)
        claims.require_unclaimed(session, [named("one"), named("gone")], 4)
        claims.require_unclaimed(session, [named("gone")], 2)


def test_a_refused_claim_tells_schedulers_nothing(db: Database) -> None:
    hosts(db, "a", "b")
    claim(db, claim_of("one", "a"))
    before = changed_nodes(db)
    assert claim(db, claim_of("one", "b", claim_number=2, VCPU=99))
    assert changed_nodes(db) == before


def test_a_forgotten_consumer_begins_with_any_number(db: Database) -> None:
    hosts(db, "a")
    release(db, "gone", claim_number=5)
    db.run(lambda session: claims.forget(session, [named("gone")]))
    assert claim(db, claim_of("gone", "a", claim_number=1)) == {}


def test_bug_the_room_of_a_copy_that_is_still_to_be_removed_is_given_away(db: Database) -> None:
    """An instance and its migration exchange what they hold, and no late claim of the instance counts."""
    hosts(db, "old", "new")
    claim(db, claim_of("one", "old", VCPU=1))
    db.run(lambda session: transfer(session, named("one"), named("move")))
    assert not db.run(lambda session: exchange(session, named("one"), named("move")))
    claim(db, claim_of("one", "new", claim_number=2, VCPU=2))
    assert db.run(lambda session: exchange(session, named("one"), named("move")))
    assert held(db, "one") == {("old", "VCPU"): 1}
    assert held(db, "move") == {("new", "VCPU"): 2}
    with pytest.raises(errors.StaleClaim):
        claim(db, claim_of("one", "new", claim_number=2, VCPU=2))
    release(db, "one", "move")
    assert (held(db, "one"), held(db, "move")) == ({}, {})
