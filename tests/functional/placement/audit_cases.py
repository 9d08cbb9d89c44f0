"""What the audit of Placement finds and heals, on every engine: each damage is done by hand to a cloud in order."""

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import delete, insert, select, update

from minova.db import models
from minova.db.engine import Database
from minova.db.servers import migrations
from minova.objects.catalogue.flavor import Flavor
from minova.objects.hosts.compute_node import Inventory
from minova.objects.hosts.numa import InstanceNUMACell, InstanceNUMATopology
from minova.objects.servers.migration import Migration, MigrationType
from minova.placement.allocations import writes
from minova.placement.audit import gather, heal
from minova.placement.audit.judge import FindingKind
from minova.placement.nodes import children
from tests.functional.placement.cases import claim, claim_of, held, holding_on, hosts, release
from tests.functional.scheduler.cloud import SEEN, add_instance, inventories_of, inventory_rows, named, unbalanced

FLAVOR = Flavor(flavorid="1", name="m1", vcpus=1, memory_mb=2048, root_gb=10)
OF_FLAVOR = {"VCPU": 1, "MEMORY_MB": 2048, "DISK_GB": 10}


def boot(db: Database, name: str, at: str | None, *, allocated: str | None = None, **values: Any) -> None:
    """An active instance on host `at`, with an allocation there (or on `allocated`; "" for none)."""

    def work(session: Any) -> None:
        add_instance(session, named(name), at, at)
        changed = {"vm_state": "active", **values}
        session.execute(update(models.Instance).where(models.Instance.uuid == named(name)).values(changed))

    db.run(work)
    if allocated is None:
        allocated = at or ""
    if allocated:
        assert claim(db, claim_of(name, allocated, **OF_FLAVOR)) == {}


def give(db: Database, name: str, host: str, kind: str | None = "INSTANCE", **resources: int) -> None:
    """An allocation beside those there are, as a client makes it over HTTP."""
    before: dict[str, dict[str, int]] = {}
    for (other, resource_class), used in held(db, name).items():
        before.setdefault(named(f"node {other}"), {})[resource_class] = used
    consumer_allocations = writes.ConsumerAllocations(
        consumer_uuid=named(name),
        allocations=before | {named(f"node {host}"): resources or OF_FLAVOR},
        consumer_type=kind,
    )
    db.run(lambda session: writes.replace(session, [consumer_allocations]))


def move(db: Database, name: str, holds: str, status: str | None, cleanup_host: str | None = None) -> None:
    """A move of the instance, if it has a status. Its consumer holds as much on that host as the instance does."""
    consumer = f"move of {name}"
    migration = Migration(
        uuid=named(consumer),
        instance_uuid=named(name),
        migration_type=MigrationType.MIGRATION,
        status=status or "",
        source_compute="b",
        source_node="b",
        old_flavor=FLAVOR,
        new_flavor=FLAVOR,
        cleanup_host=cleanup_host,
    )
    if status is not None:
        db.run(lambda session: migrations.add(session, migration, SEEN, db.now()))
    give(db, consumer, holds, "MIGRATION")


def task_for(db: Database, name: str, step: str = "build") -> None:
    row = {
        "kind": step,
        "instance_uuid": named(name),
        "reservation_id": "r-1",
        "worker_id": named("worker"),
        "step": step,
        "request_id": "req-1",
        "payload": {},
        "wake_at": 0.0,
        "deadline": 0.0,
        "created_at": SEEN,
    }
    with db.write() as session:
        session.connection().execute(insert(models.Task).values(row))


def problems(db: Database) -> list[tuple[FindingKind, str]]:
    with db.read() as session:
        return [(finding.kind, finding.detail) for finding in gather.findings(session)]


def problem_kinds(db: Database) -> list[FindingKind]:
    return [kind for kind, _ in problems(db)]


def fix(db: Database) -> list[tuple[FindingKind, str | None]]:
    """What was healed, and why not; doing it again changes nothing but what cannot be healed."""
    healed = [(repair.finding.kind, repair.reason) for repair in heal.fix(db)]
    again = [(repair.finding.kind, repair.reason) for repair in heal.fix(db)]
    assert again == [(kind, reason) for kind, reason in healed if reason is not None]
    return healed


HELD = "b was made for a compute node that there is no more, and 1 consumers hold something of it"


class AuditCases:
    def test_in_a_cloud_in_order_nothing_is_found(self, db: Database) -> None:
        hosts(db, "a", "b")
        boot(db, "one", "a")
        boot(db, "two", "b")
        boot(db, "failed", None, vm_state="error")
        assert problems(db) == []
        assert fix(db) == []

    def test_an_allocation_without_instance_is_released(self, db: Database) -> None:
        hosts(db, "a")
        boot(db, "one", "a")
        claim(db, claim_of("ghost", "a"))
        ((kind, detail),) = problems(db)
        assert kind is FindingKind.WITHOUT_INSTANCE
        assert detail == "holds DISK_GB=10 MEMORY_MB=1024 VCPU=1 on a, but there is no such instance"
        assert fix(db) == [(FindingKind.WITHOUT_INSTANCE, None)]
        assert held(db, "ghost") == {}
        assert held(db, "one") == holding_on("a", **OF_FLAVOR)
        assert not unbalanced(inventory_rows(db))

    @pytest.mark.parametrize(
        "values",
        [
            {"vm_state": "deleted", "deleted_at": SEEN},
            {"vm_state": "error", "host": None},
            {"vm_state": "shelved_offloaded", "host": None},
        ],
    )
    def test_so_is_that_of_one_which_is_on_no_host_any_more(self, db: Database, values: dict[str, Any]) -> None:
        hosts(db, "a")
        boot(db, "one", "a", **values)
        assert problem_kinds(db) == [FindingKind.WITHOUT_INSTANCE]
        assert fix(db) == [(FindingKind.WITHOUT_INSTANCE, None)]
        assert held(db, "one") == {}

    def test_an_instance_without_allocation_gets_what_its_flavor_takes(self, db: Database) -> None:
        hosts(db, "a")
        boot(db, "one", "a", allocated="")
        ((kind, detail),) = problems(db)
        assert (kind, detail) == (FindingKind.WITHOUT_ALLOCATION, "active on a, of which it holds nothing")
        assert fix(db) == [(FindingKind.WITHOUT_ALLOCATION, None)]
        assert held(db, "one") == holding_on("a", **OF_FLAVOR)
        assert not unbalanced(inventory_rows(db))

    def test_where_there_is_no_room_for_it_that_is_said_and_nothing_overcommitted(self, db: Database) -> None:
        hosts(db, "a", memory_mb=3000)
        boot(db, "one", "a")
        boot(db, "two", "a", allocated="")
        ((kind, reason),) = fix(db)
        assert kind is FindingKind.WITHOUT_ALLOCATION
        assert reason is not None
        assert "free MEMORY_MB 952 < requested 2048" in reason
        assert held(db, "two") == {}
        assert not unbalanced(inventory_rows(db))

    def test_an_allocation_on_the_wrong_provider_is_moved(self, db: Database) -> None:
        hosts(db, "a", "b")
        boot(db, "one", "a", allocated="b")
        ((kind, detail),) = problems(db)
        assert kind is FindingKind.WRONG_PROVIDER
        assert detail == "holds DISK_GB=10 MEMORY_MB=2048 VCPU=1 on b, but the instance is on a"
        assert fix(db) == [(FindingKind.WRONG_PROVIDER, None)]
        assert held(db, "one") == holding_on("a", **OF_FLAVOR)
        assert not unbalanced(inventory_rows(db))

    def test_what_a_move_left_behind_is_released(self, db: Database) -> None:
        hosts(db, "a", "b")
        boot(db, "one", "a")
        give(db, "one", "b")
        assert problem_kinds(db) == [FindingKind.WRONG_PROVIDER]
        assert fix(db) == [(FindingKind.WRONG_PROVIDER, None)]
        assert held(db, "one") == holding_on("a", **OF_FLAVOR)
        assert not unbalanced(inventory_rows(db))

    @pytest.mark.parametrize(
        ("status", "cleanup_host", "why"),
        [
            ("error", None, "its migration is error"),
            ("confirmed", None, "its migration is confirmed"),
            (None, None, "there is no such migration"),
            ("confirmed", "a", None),
            ("finished", None, None),
            ("accepted", None, None),
        ],
    )
    def test_bug_what_a_move_holds_after_its_end_is_never_seen(
        self, db: Database, status: str | None, cleanup_host: str | None, why: str | None
    ) -> None:
        hosts(db, "a", "b")
        boot(db, "one", "a")
        move(db, "one", "b", status, cleanup_host=cleanup_host)
        if why is None:
            assert problems(db) == fix(db) == []
            assert held(db, "move of one")
            return
        assert problems(db) == [(FindingKind.MOVE_IS_OVER, f"holds DISK_GB=10 MEMORY_MB=2048 VCPU=1 on b, but {why}")]
        assert fix(db) == [(FindingKind.MOVE_IS_OVER, None)]
        assert not held(db, "move of one")
        assert held(db, "one") == holding_on("a", **OF_FLAVOR)
        assert not unbalanced(inventory_rows(db))

    def test_bug_a_move_that_begins_during_the_audit_is_a_finding(
        self, db: Database, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It takes what its server holds, between the reads of tasks and of allocations."""
        hosts(db, "a", "b")
        boot(db, "one", "a", allocated="b")
        looks = iter([set[str](), {named("one")}])
        monkeypatch.setattr(gather, "_busy", lambda *_: next(looks))
        assert problems(db) == []

    def test_wrong_used_becomes_the_sum(self, db: Database) -> None:
        hosts(db, "a")
        boot(db, "one", "a")
        with db.write() as session:
            session.execute(update(models.Inventory).where(models.Inventory.resource_class == "VCPU").values(used=3))
        assert problems(db) == [(FindingKind.WRONG_USED, "VCPU of a says 3 are used; the sum of its allocations is 1")]
        assert fix(db) == [(FindingKind.WRONG_USED, None)]
        assert not unbalanced(inventory_rows(db))

    def test_an_allocation_of_a_class_without_inventory_gets_one_without_room(self, db: Database) -> None:
        hosts(db, "a")
        boot(db, "one", "a")
        with db.write() as session:
            session.execute(delete(models.Inventory).where(models.Inventory.resource_class == "DISK_GB"))
        assert problem_kinds(db) == [FindingKind.WRONG_USED]
        assert fix(db) == [(FindingKind.WRONG_USED, None)]
        assert ("a", "DISK_GB", 0, 10, 10) in inventory_rows(db)

    def test_a_provider_without_node_is_deleted(self, db: Database) -> None:
        hosts(db, "a", "b")
        with db.write() as session:
            session.execute(delete(models.ComputeNode).where(models.ComputeNode.host == "b"))
        assert problems(db) == [(FindingKind.WITHOUT_NODE, "b was made for a compute node that there is no more")]
        assert fix(db) == [(FindingKind.WITHOUT_NODE, None)]
        assert {row[0] for row in inventory_rows(db)} == {"a"}

    def test_one_with_allocations_stays(self, db: Database) -> None:
        hosts(db, "a", "b")
        claim(db, claim_of("ghost", "b"))
        give(db, "volume", "b", kind="VOLUME", DISK_GB=5)
        with db.write() as session:
            session.execute(delete(models.ComputeNode).where(models.ComputeNode.host == "b"))
        healed = fix(db)
        assert healed == [(FindingKind.WITHOUT_INSTANCE, None), (FindingKind.WITHOUT_NODE, HELD)]
        assert held(db, "volume") == holding_on("b", DISK_GB=5)

    def test_an_instance_elsewhere_gives_back_what_it_holds_of_a_provider_without_node(self, db: Database) -> None:
        hosts(db, "a", "b")
        boot(db, "one", "a", allocated="b")
        with db.write() as session:
            session.execute(delete(models.ComputeNode).where(models.ComputeNode.host == "b"))
        assert problem_kinds(db) == [FindingKind.WRONG_PROVIDER, FindingKind.WITHOUT_NODE]
        assert fix(db) == [(FindingKind.WRONG_PROVIDER, None), (FindingKind.WITHOUT_NODE, None)]
        assert held(db, "one") == holding_on("a", **OF_FLAVOR)

    def test_consumers_of_other_kinds_and_providers_made_by_people_are_left_alone(self, db: Database) -> None:
        hosts(db, "a")
        for kind in ("VOLUME", None):
            give(db, f"{kind}", "a", kind=kind, DISK_GB=1)
        with db.write() as session:
            provider_values = {"uuid": named("store"), "name": "store", "root_provider_id": 99, "id": 99}
            session.connection().execute(insert(models.ResourceProvider).values(generation=0, **provider_values))
        assert problems(db) == []

    def test_what_an_instance_holds_beside_its_node_stays(self, db: Database) -> None:
        hosts(db, "a")
        boot(db, "one", "a", allocated="")
        with db.write() as session:
            provider_values = {"id": 99, "uuid": named("node store"), "name": "store", "root_provider_id": 99}
            session.connection().execute(insert(models.ResourceProvider).values(generation=0, **provider_values))
            inventory = {"resource_class": "DISK_GB", "total": 50, "capacity": 50, "max_unit": 50}
            session.connection().execute(insert(models.Inventory).values(provider_id=99, **inventory))
        give(db, "one", "store", DISK_GB=7)
        assert problem_kinds(db) == [FindingKind.WITHOUT_ALLOCATION]
        assert fix(db) == [(FindingKind.WITHOUT_ALLOCATION, None)]
        assert held(db, "one") == holding_on("a", **OF_FLAVOR) | holding_on("store", DISK_GB=7)

    @pytest.mark.parametrize(
        ("host", "allocated", "values"),
        [
            # Its claim is written, and the instance not yet on its host.
            (None, "a", {"vm_state": "building", "task_state": "scheduling"}),
            # An attempt has failed, and the next one is claimed already.
            ("a", "b", {"vm_state": "building", "task_state": "spawning"}),
            # What it holds goes with its row, in one transaction.
            ("a", "", {"task_state": "deleting"}),
        ],
    )
    def test_builds_and_deletions_under_way_are_not_judged(
        self, db: Database, host: str | None, allocated: str, values: dict[str, Any]
    ) -> None:
        hosts(db, "a", "b")
        boot(db, "one", host, allocated=allocated, **values)
        task_for(db, "one")
        before = held(db, "one")
        assert problems(db) == []
        assert fix(db) == []
        assert held(db, "one") == before

    def test_a_task_that_began_after_the_look_stops_the_healing(self, db: Database) -> None:
        hosts(db, "a", "b")
        boot(db, "one", "a", allocated="b")
        with db.read() as session:
            (finding,) = gather.findings(session)
        task_for(db, "one", "delete")
        db.run(lambda session: heal.heal(session, finding, db.now()))
        assert held(db, "one") == holding_on("b", **OF_FLAVOR)

    def test_nothing_of_an_instance_itself_changes(self, db: Database) -> None:
        hosts(db, "a", "b")
        boot(db, "one", "a", allocated="b")
        boot(db, "two", "b", allocated="", updated_at=SEEN - timedelta(days=1))
        query = select(models.Instance.__table__).order_by(models.Instance.id)
        with db.read() as session:
            before = session.execute(query).all()
        assert len(fix(db)) == 2
        with db.read() as session:
            assert session.execute(query).all() == before

    def test_what_older_audits_added_to_a_pinned_instance_is_taken_back(self, db: Database) -> None:
        hosts(db, "a")
        offer(db, "a", PCPU=4)
        cells = (InstanceNUMACell(id=0, pcpuset=frozenset({0}), memory=2048),)
        boot(db, "one", "a", allocated="", numa_topology=InstanceNUMATopology(cells=cells))
        right = {"PCPU": 1, "MEMORY_MB": 2048, "DISK_GB": 10}
        give(db, "one", "a", "INSTANCE", **right)
        assert problems(db) == []
        release(db, "one")
        give(db, "one", "a", "INSTANCE", VCPU=1, **right)
        assert problem_kinds(db) == [FindingKind.WRONG_AMOUNT]
        assert fix(db) == [(FindingKind.WRONG_AMOUNT, None)]
        assert held(db, "one") == holding_on("a", **right)
        assert problems(db) == []
        assert not unbalanced(inventory_rows(db))

    def test_an_inventory_goes_from_a_node_to_its_cards_with_what_is_allocated_of_it(self, db: Database) -> None:
        hosts(db, "a")
        offer(db, "a", VGPU=4)
        for name in ("one", "two", "three"):
            boot(db, name, "a", allocated="")
            assert claim(db, claim_of(name, "a", VGPU=1)) == {}
        cards = tuple((card, 2) for card in CARDS)
        for _ in range(2):
            offer(db, "a", cards=cards, VGPU=4)
            each = [held(db, name) for name in ("one", "two", "three")]
            assert sorted(card for of in each for card, _ in of) == [f"a_{CARDS[0]}", f"a_{CARDS[0]}", f"a_{CARDS[1]}"]
        assert claim(db, claim_of("four", "a", VGPU=1)) == {}
        assert held(db, "four") == holding_on(f"a_{CARDS[1]}", VGPU=1)
        assert claim(db, claim_of("five", "a", VGPU=1)) != {}
        assert not unbalanced(inventory_rows(db))


CARDS = ("pci_0000_01_00_0", "pci_0000_02_00_0")


def offer(db: Database, host: str, cards: tuple[tuple[str, int], ...] = (), **totals: int) -> None:
    """The node's inventories as before, and these beside them, as its audit publishes them."""

    def work(session: Any) -> None:
        node = session.scalars(select(models.ComputeNode).where(models.ComputeNode.host == host)).one()
        more = [
            Inventory(resource_class=name, total=total, max_unit=total, children=cards)
            for name, total in totals.items()
        ]
        root_id = session.scalar(select(models.ResourceProvider.id).where(models.ResourceProvider.uuid == node.uuid))
        children.publish(session, (root_id, node.uuid), host, [*inventories_of(node), *more], db.now())

    db.run(work)
