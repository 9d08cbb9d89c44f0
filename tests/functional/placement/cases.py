"""What holds of claims on every engine: run on SQLite here, on real servers in the integration tests."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import Engine, event, select
from sqlalchemy.orm import Session

from minova import errors
from minova.db import models
from minova.db.connections.galera import locks_rows
from minova.db.engine import Database
from minova.objects.hosts.compute_node import Inventory
from minova.placement import changes
from minova.placement.allocations import claims as allocations
from minova.placement.allocations.claims import AllocationClaim
from minova.placement.nodes import inventories
from minova.placement.providers import of_node
from tests.functional.scheduler.cloud import inventory_rows, named, put_host, unbalanced

SMALL = {"VCPU": 1, "MEMORY_MB": 1024, "DISK_GB": 10}


def claim_of(consumer: str, host: str, claim_number: int = 1, **resources: int) -> AllocationClaim:
    return AllocationClaim(
        consumer_uuid=named(consumer),
        claim_number=claim_number,
        provider_uuid=named(f"node {host}"),
        resources=resources or SMALL,
        project_id="p",
        user_id="u",
    )


def claim(db: Database, *claims: AllocationClaim) -> dict[str, str]:
    return db.run(lambda session: allocations.claim(session, claims))


def release(db: Database, *consumers: str, claim_number: int | None = None) -> None:
    db.run(lambda session: allocations.release(session, [named(c) for c in consumers], claim_number=claim_number))


def held(db: Database, consumer: str) -> dict[tuple[str, str], int]:
    model, provider = models.Allocation, models.ResourceProvider
    query = select(provider.name, model.resource_class, model.used).join(provider, provider.id == model.provider_id)
    with db.read() as session:
        rows = session.execute(query.where(model.consumer_uuid == named(consumer)))
        return {(host, name): used for host, name, used in rows}


def holding_on(host: str, **resources: int) -> dict[tuple[str, str], int]:
    return {(host, name): used for name, used in (resources or SMALL).items()}


def changed_nodes(db: Database) -> list[int]:
    with db.read() as session:
        return list(session.scalars(select(models.HostChange.node_id).order_by(models.HostChange.seq)))


def hosts(db: Database, *names: str, **node: float) -> Sequence[int]:
    size = {"vcpus": 4, "cpu_allocation_ratio": 1.0, "memory_mb": 4096, "local_gb": 100, **node}
    return [put_host(db, name, announce=False, **size) for name in names]


@contextmanager
def locks() -> Iterator[list[tuple[str, list[Any]]]]:
    """The table and the list of keys, if there is one, of each statement that locks rows, in their order."""
    statements: list[tuple[str, list[Any]]] = []

    def note(connection: Any, statement: Any, several: Any, parameters: Any, options: Any) -> None:
        if locks_rows(statement):
            statements.append((statement.get_final_froms()[0].name, parameters.get("some", [])))

    event.listen(Engine, "before_execute", note)
    try:
        yield statements
    finally:
        event.remove(Engine, "before_execute", note)


class RefusedBatch(Exception):
    """Nothing of the transaction is kept."""


def refuse(session: Session, claims: Sequence[AllocationClaim]) -> None:
    if allocations.claim(session, claims, all_or_none=True):
        raise RefusedBatch


def count_of_changes(db: Database) -> int:
    """Announce a change; answers the number that it got."""
    db.run(lambda session: changes.append(session, [1]))
    with db.read() as session:
        return max(session.scalars(select(models.HostChange.seq)))


class ClaimCases:
    def test_a_claim_that_fits_is_written_and_counted(self, db: Database) -> None:
        hosts(db, "a")
        assert claim(db, claim_of("one", "a")) == {}
        assert held(db, "one") == holding_on("a")
        assert sorted(inventory_rows(db)) == [
            ("a", "DISK_GB", 100, 10, 10),
            ("a", "MEMORY_MB", 4096, 1024, 1024),
            ("a", "VCPU", 4, 1, 1),
        ]

    def test_a_claim_that_does_not_fit_is_refused_with_provider_class_and_numbers(self, db: Database) -> None:
        hosts(db, "a")
        claim(db, claim_of("one", "a", MEMORY_MB=3000))
        refused = claim(db, claim_of("two", "a", MEMORY_MB=2000))
        assert refused == {named("two"): "a: free MEMORY_MB 1096 < requested 2000 (capacity 4096, used 3000)"}
        assert held(db, "two") == {}
        assert not unbalanced(inventory_rows(db))

    def test_in_a_batch_those_that_fit_are_written_and_the_others_refused(self, db: Database) -> None:
        hosts(db, "a", "b")
        batch = [claim_of(f"c{number}", "a" if number < 6 else "b") for number in range(8)]
        assert set(claim(db, *batch)) == {named("c4"), named("c5")}
        assert held(db, "c3") == holding_on("a")
        assert held(db, "c7") == holding_on("b")
        assert not unbalanced(inventory_rows(db))

    def test_an_unknown_provider_is_a_refusal(self, db: Database) -> None:
        assert claim(db, claim_of("one", "nowhere")) == {named("one"): f"no resource provider {named('node nowhere')}"}

    def test_repeating_a_claim_changes_nothing(self, db: Database) -> None:
        hosts(db, "a")
        for _ in range(3):
            assert claim(db, claim_of("one", "a", MEMORY_MB=4096)) == {}
        assert held(db, "one") == holding_on("a", MEMORY_MB=4096)
        assert not unbalanced(inventory_rows(db))

    def test_a_new_claim_replaces_what_the_consumer_had(self, db: Database) -> None:
        hosts(db, "a", "b")
        claim(db, claim_of("one", "a"))
        assert claim(db, claim_of("one", "b", claim_number=2)) == {}
        assert held(db, "one") == holding_on("b")
        assert not unbalanced(inventory_rows(db))

    def test_a_refused_consumer_keeps_what_it_had(self, db: Database) -> None:
        hosts(db, "a", "b")
        claim(db, claim_of("one", "a"), claim_of("full", "b", VCPU=4))
        assert set(claim(db, claim_of("one", "b", claim_number=2))) == {named("one")}
        assert held(db, "one") == holding_on("a")

    def test_two_consumers_may_change_places_in_one_batch(self, db: Database) -> None:
        hosts(db, "a", "b")
        claim(db, claim_of("one", "a", VCPU=4), claim_of("two", "b", VCPU=3))
        # In this order: b has room for one more only when two has left it.
        assert claim(db, claim_of("two", "a", 2, MEMORY_MB=10), claim_of("one", "b", 2, VCPU=4)) == {}
        assert held(db, "one") == holding_on("b", VCPU=4)
        assert not unbalanced(inventory_rows(db))

    def test_a_claim_with_a_lower_number_than_seen_is_stale(self, db: Database) -> None:
        hosts(db, "a", "b")
        claim(db, claim_of("one", "a", claim_number=3))
        with pytest.raises(errors.StaleClaim, match="2"):
            claim(db, claim_of("one", "b", claim_number=2))
        assert held(db, "one") == holding_on("a")

    def test_a_number_that_has_been_claimed_takes_no_other_decision(self, db: Database) -> None:
        hosts(db, "a", "b")
        claim(db, claim_of("one", "a", claim_number=3))
        with pytest.raises(errors.StaleClaim, match="already"):
            claim(db, claim_of("one", "b", claim_number=3))
        with pytest.raises(errors.StaleClaim, match="already"):
            claim(db, claim_of("one", "a", claim_number=3, VCPU=99))
        assert held(db, "one") == holding_on("a")

    def test_a_refused_claim_does_not_use_up_its_number(self, db: Database) -> None:
        """So that the next alternate can be claimed under it."""
        hosts(db, "a", "b")
        claim(db, claim_of("one", "a"))
        assert claim(db, claim_of("one", "a", claim_number=2, VCPU=99))
        assert claim(db, claim_of("one", "b", claim_number=2)) == {}
        assert held(db, "one") == holding_on("b")

    def test_release_gives_back_all(self, db: Database) -> None:
        hosts(db, "a")
        claim(db, claim_of("one", "a"), claim_of("two", "a"))
        release(db, "one", "stranger")
        assert held(db, "one") == {}
        assert held(db, "two") == holding_on("a")
        assert not unbalanced(inventory_rows(db))

    def test_after_a_release_the_claim_that_was_released_cannot_come_again(self, db: Database) -> None:
        hosts(db, "a")
        claim(db, claim_of("one", "a", claim_number=2))
        release(db, "one")
        with pytest.raises(errors.StaleClaim):
            claim(db, claim_of("one", "a", claim_number=2))
        assert claim(db, claim_of("one", "a", claim_number=3)) == {}

    def test_a_release_also_shuts_out_a_claim_that_has_not_come_yet(self, db: Database) -> None:
        hosts(db, "a")
        release(db, "one", claim_number=1)
        with pytest.raises(errors.StaleClaim):
            claim(db, claim_of("one", "a", claim_number=1))

    def test_every_change_is_announced_for_each_node_that_it_touches(self, db: Database) -> None:
        a, b = hosts(db, "a", "b")
        before = len(changed_nodes(db))
        claim(db, claim_of("one", "a"))
        claim(db, claim_of("one", "b", claim_number=2))
        release(db, "one")
        assert changed_nodes(db)[before:] == [a, a, b, b]

    def test_who_holds_something_of_a_provider(self, db: Database) -> None:
        hosts(db, "a", "b")
        claim(db, claim_of("one", "a"), claim_of("two", "b"))
        with db.read() as session:
            assert allocations.consumers_of(session, named("node a")) == [named("one")]

    def test_capacity_is_floor_of_total_less_reserved_times_ratio(self, db: Database) -> None:
        hosts(db, "a")
        inventory = Inventory(resource_class="VCPU", total=7, reserved=2, max_unit=7, allocation_ratio=1.5)
        db.run(lambda session: inventories.set_inventories(session, named("node a"), [inventory]))
        assert inventory_rows(db) == [("a", "VCPU", 7, 0, 0)]

    def test_inventories_keep_what_is_used_and_say_whether_they_changed(self, db: Database) -> None:
        hosts(db, "a")
        claim(db, claim_of("one", "a", VCPU=2))
        less = [Inventory(resource_class="VCPU", total=1, max_unit=1)]

        def put() -> bool:
            return db.run(lambda session: inventories.set_inventories(session, named("node a"), less))

        assert put()
        assert inventory_rows(db) == [("a", "VCPU", 1, 2, 2)]
        assert not put()

    def test_an_inventory_that_is_gone_but_used_stays_without_room(self, db: Database) -> None:
        hosts(db, "a")
        claim(db, claim_of("one", "a", VCPU=2))
        db.run(lambda session: inventories.set_inventories(session, named("node a"), []))
        assert inventory_rows(db) == [("a", "VCPU", 0, 2, 2)]
        assert set(claim(db, claim_of("two", "a", VCPU=1))) == {named("two")}
        release(db, "one")
        db.run(lambda session: inventories.set_inventories(session, named("node a"), []))
        assert inventory_rows(db) == []

    def test_inventories_of_an_unknown_provider_are_an_error(self, db: Database) -> None:
        with pytest.raises(errors.NotFound):
            db.run(lambda session: inventories.set_inventories(session, named("nobody"), []))

    def test_a_provider_is_made_once_and_renamed(self, db: Database) -> None:
        provider_id = db.run(lambda session: of_node.ensure(session, named("x"), "x"))
        assert db.run(lambda session: of_node.ensure(session, named("x"), "y")) == provider_id

    def test_two_providers_cannot_share_a_name(self, db: Database) -> None:
        db.run(lambda session: of_node.ensure(session, named("x"), "x"))
        with pytest.raises(errors.Conflict, match="'x'"):
            db.run(lambda session: of_node.ensure(session, named("y"), "x"))

    def test_a_deleted_provider_takes_its_inventories_and_allocations_along(self, db: Database) -> None:
        hosts(db, "a", "b")
        claim(db, claim_of("one", "a"), claim_of("two", "b"))
        for _ in range(2):
            db.run(lambda session: of_node.delete(session, named("node a")))
        assert held(db, "one") == {}
        assert {row[0] for row in inventory_rows(db)} == {"b"}

    def test_the_trimmed_feed_keeps_its_newest_entry(self, db: Database) -> None:
        for at in (1.0, 2.0, 3.0):
            with db.write() as session:
                changes.append(session, [int(at)], at)
        assert db.run(lambda session: changes.trim(session, 99.0, 10)) == 2
        assert changed_nodes(db) == [3]
        assert db.run(lambda session: changes.trim(session, 99.0, 10)) == 0

    def test_the_feed_is_trimmed_in_batches_of_the_oldest_rows(self, db: Database) -> None:
        for node_id, at in enumerate((9.0, 1.0, 2.0, 9.0, 1.0), 1):
            db.run(lambda session, n=node_id, at=at: changes.append(session, [n], at))  # type: ignore[misc]
        assert db.run(lambda session: changes.trim(session, 5.0, 2)) == 2
        assert changed_nodes(db) == [3, 4, 5]
        assert db.run(lambda session: changes.trim(session, 5.0, 2)) == 1
        assert changed_nodes(db) == [4, 5]
        assert db.run(lambda session: changes.trim(session, 5.0, 2)) == 0

    def test_a_transaction_that_fails_uses_up_no_number_of_the_feed(self, db: Database) -> None:
        def broken(session: Session) -> None:
            changes.append(session, [1])
            raise RuntimeError("after the announcement")

        hosts(db, "a")
        count_of_changes(db)
        first = count_of_changes(db)
        for _ in range(3):
            with pytest.raises(RuntimeError):
                db.run(broken)
        assert count_of_changes(db) == first + 1

    def test_a_refused_batch_uses_up_no_number_of_the_feed(self, db: Database) -> None:
        hosts(db, "a")
        count_of_changes(db)
        first = count_of_changes(db)
        small = [claim_of(f"i{number}", "a", VCPU=1) for number in range(3)]
        with pytest.raises(RefusedBatch):
            db.run(lambda session: refuse(session, [*small, claim_of("huge", "a", VCPU=99)]))
        assert count_of_changes(db) == first + 1
        assert held(db, "i0") == {}

    def test_a_transaction_announces_a_node_once(self, db: Database) -> None:
        hosts(db, "a")
        before = len(changed_nodes(db))
        with db.write() as session:
            for node_id in (2, 1, 2):
                changes.append(session, [node_id])
        assert changed_nodes(db)[before:] == [1, 2]
        with db.write() as session, session.begin_nested():
            changes.append(session, [3])
        assert changed_nodes(db)[before:] == [1, 2, 3]

    def test_the_feed_begins_at_one_again_before_its_numbers_end(self, db: Database) -> None:
        hosts(db, "a")
        last = [count_of_changes(db) for _ in range(3)][-1]
        assert not db.run(lambda session: changes.renumber(session, last + 1))
        renumbered = db.run(lambda session: changes.renumber(session, last))
        assert renumbered == (db.dialect != "sqlite")
        assert count_of_changes(db) == (1 if renumbered else last + 1)
