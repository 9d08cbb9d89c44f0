"""Each card's virtual GPUs are in a provider of its own, below the node's: an instance gets its own of one card."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from sqlalchemy import select

from minova import errors
from minova.db import models
from minova.objects.hosts.compute_node import AvailableResources
from minova.objects.requests.server_request import CreateServers
from minova.objects.servers.migration import MigrationType
from minova.placement.allocations import writes
from minova.placement.audit import gather, heal
from minova.placement.audit.judge import FindingKind
from minova.placement.nodes.children import child_uuid
from tests.functional.compute.migration_world import CTX, HOSTS, IMAGE, Machine, World, flavor

ONE, TWO = "pci_0000_81_00_0", "pci_0000_82_00_0"
GPU = flavor("gpu", 1, 256, resources__VGPU="1")
GPUS = flavor("gpus", 1, 256, resources__VGPU="2")


class WithCards(Machine):
    """Host `a` has the cards of `cards`; the others have none."""

    cards: dict[str, int] = {ONE: 2, TWO: 2}  # noqa: RUF012 - replaced whole, never changed
    vgpus = 0

    def host_view(self, node: str) -> AvailableResources:
        view = super().host_view(node)
        return msgspec.structs.replace(view, gpus=self.cards, vgpus=self.vgpus) if node == "a" else view


class Cloud(World):
    machine = WithCards

    def audit(self) -> None:
        for host in HOSTS:
            self.computes[host].update_available_resource()
        self.settle()

    def cards(self, **of: Any) -> None:
        """What host `a` has from its next audit on."""
        machine: Any = self.machines["a"]
        for name, value in of.items():
            setattr(machine, name, value)
        self.audit()

    def inventories(self) -> dict[str, tuple[int, int]]:
        """(total, used) of VGPU by provider."""
        model, provider = models.Inventory, models.ResourceProvider
        query = select(provider.name, model.total, model.used).join(provider, provider.id == model.provider_id)
        with self.db.read() as session:
            return {row[0]: (row[1], row[2]) for row in session.execute(query.where(model.resource_class == "VGPU"))}

    def held(self, uuid: str) -> dict[str, int]:
        """VGPU by provider."""
        model, provider = models.Allocation, models.ResourceProvider
        query = select(provider.name, model.used).join(provider, provider.id == model.provider_id)
        with self.db.read() as session:
            rows = session.execute(query.where(model.consumer_uuid == uuid, model.resource_class == "VGPU"))
            return {row[0]: row[1] for row in rows}

    def create(self, count: int, wanted: Any = GPU) -> list[str]:
        request = CreateServers(name="vm", flavor=wanted, image=IMAGE, min_count=count, max_count=count)
        uuids = self.conductor.create_servers(CTX, request=request).instance_uuids
        self.settle()
        return list(uuids)

    def state(self, uuid: str) -> str:
        return next(row.vm_state for row in self.instances() if row.uuid == uuid)

    def findings(self) -> list[FindingKind]:
        with self.db.read() as session:
            return [finding.kind for finding in gather.findings(session)]


@pytest.fixture
def cloud(tables: Path, tmp_path: Path) -> Iterator[Cloud]:
    cloud = Cloud(tmp_path / "world", tables)
    yield cloud
    cloud.close()


def test_each_card_is_a_provider_below_its_node(cloud: Cloud) -> None:
    assert cloud.inventories() == {f"a_{ONE}": (2, 0), f"a_{TWO}": (2, 0)}
    with cloud.db.read() as session:
        rows = {row.name: row for row in session.scalars(select(models.ResourceProvider))}
    assert {rows[f"a_{card}"].parent_provider_id for card in (ONE, TWO)} == {rows["a"].id}
    assert rows[f"a_{ONE}"].uuid == child_uuid(rows["a"].uuid, ONE)


def test_instances_of_one_request_fill_all_cards_and_no_audit_disturbs_them(cloud: Cloud) -> None:
    uuids = cloud.create(4)
    assert {cloud.state(uuid) for uuid in uuids} == {"active"}
    assert cloud.inventories() == {f"a_{ONE}": (2, 2), f"a_{TWO}": (2, 2)}
    before = {uuid: cloud.held(uuid) for uuid in uuids}
    assert all(sum(of.values()) == 1 for of in before.values())
    for _ in range(2):
        cloud.audit()
        assert {uuid: cloud.held(uuid) for uuid in uuids} == before
    assert cloud.findings() == []
    (fifth,) = cloud.create(1)
    assert cloud.state(fifth) == "error"
    cloud.delete(uuids[0])
    (sixth,) = cloud.create(1)
    assert cloud.held(sixth) == before[uuids[0]]


def test_two_virtual_gpus_of_one_instance_are_of_one_card(cloud: Cloud) -> None:
    ones = cloud.create(2)
    assert sorted(cloud.inventories().values()) == [(2, 1), (2, 1)]
    (both,) = cloud.create(1, GPUS)
    assert cloud.state(both) == "error"
    cloud.delete(ones[0])
    (both,) = cloud.create(1, GPUS)
    assert cloud.state(both) == "active"
    assert list(cloud.held(both).values()) == [2]


def test_what_was_allocated_of_the_node_goes_to_its_cards(cloud: Cloud, caplog: pytest.LogCaptureFixture) -> None:
    """As an older release left it: one inventory for all cards, in the node's provider."""
    cloud.cards(cards={}, vgpus=4)
    assert cloud.inventories() == {"a": (4, 0)}
    uuids = cloud.create(3)
    assert [cloud.held(uuid) for uuid in uuids] == [{"a": 1}] * 3
    with caplog.at_level(logging.INFO):
        cloud.cards(cards={ONE: 2, TWO: 2})
    assert "allocations of 3 consumers moved to the providers of its cards" in caplog.text
    assert sorted(cloud.inventories().items()) == [(f"a_{ONE}", (2, 2)), (f"a_{TWO}", (2, 1))]
    assert sorted(name for uuid in uuids for name in cloud.held(uuid)) == [f"a_{ONE}", f"a_{ONE}", f"a_{TWO}"]
    cloud.audit()
    assert cloud.findings() == []
    (fourth,) = cloud.create(1)
    assert cloud.held(fourth) == {f"a_{TWO}": 1}


def test_what_fits_on_no_card_stays_until_it_is_released(cloud: Cloud, caplog: pytest.LogCaptureFixture) -> None:
    cloud.cards(cards={}, vgpus=4)
    (both,) = cloud.create(1, GPUS)
    cloud.cards(cards={ONE: 1, TWO: 1})
    assert "no card has room for VGPU=2" in caplog.text
    assert cloud.held(both) == {"a": 2}
    assert cloud.inventories() == {"a": (0, 2), f"a_{ONE}": (1, 0), f"a_{TWO}": (1, 0)}
    assert cloud.findings() == []
    assert [cloud.state(uuid) for uuid in cloud.create(2)] == ["active", "active"]
    cloud.delete(both)
    cloud.audit()
    assert cloud.inventories() == {f"a_{ONE}": (1, 1), f"a_{TWO}": (1, 1)}


def test_a_move_under_way_keeps_both_sides(cloud: Cloud) -> None:
    """A resize on the same host: the migration keeps the virtual GPU of the old side, and the instance takes the other one."""
    (uuid,) = cloud.create(1)
    old = cloud.held(uuid)
    assert cloud.move(uuid, MigrationType.RESIZE, "a", GPUS)
    cloud.step(uuid, "finished")
    migration = cloud.moves[uuid].uuid
    cloud.audit()
    assert cloud.held(migration) == old
    assert list(cloud.held(uuid).values()) == [1]
    assert cloud.held(uuid).keys() != old.keys()
    cloud.step(uuid, "reverted")
    assert cloud.held(uuid) == old
    assert cloud.findings() == []


def test_a_card_that_is_gone_goes_once_nothing_of_it_is_held(cloud: Cloud) -> None:
    uuids = cloud.create(3)
    (alone,) = [uuid for uuid in uuids if list(cloud.held(uuid)) == [f"a_{TWO}"]]
    cloud.cards(cards={ONE: 2})
    assert cloud.inventories() == {f"a_{ONE}": (2, 2), f"a_{TWO}": (0, 1)}
    assert cloud.held(alone) == {f"a_{TWO}": 1}
    cloud.delete(alone)
    cloud.audit()
    with cloud.db.read() as session:
        names = set(session.scalars(select(models.ResourceProvider.name)))
    assert f"a_{TWO}" not in names


def test_a_missing_virtual_gpu_is_restored_from_a_card(cloud: Cloud) -> None:
    (uuid,) = cloud.create(1)
    consumer_allocations = writes.ConsumerAllocations(
        consumer_uuid=uuid,
        allocations={cloud.tracker("a").node.uuid: {"VCPU": 1, "MEMORY_MB": 256, "DISK_GB": 1}},
        consumer_type="INSTANCE",
    )
    cloud.db.run(lambda session: writes.replace(session, [consumer_allocations]))
    assert cloud.held(uuid) == {}
    cloud.audit()
    assert len(cloud.held(uuid)) == 1
    assert list(heal.fix(cloud.db)) == []


def test_what_people_put_below_a_node_stays(cloud: Cloud) -> None:
    def work(session: Any) -> None:
        root = session.scalars(select(models.ResourceProvider).where(models.ResourceProvider.name == "a")).one()
        row = models.ResourceProvider(
            uuid="00000000-0000-4000-8000-00000000aaaa",
            name="a_pci_0000_99_00_0",
            generation=0,
            root_provider_id=root.id,
            parent_provider_id=root.id,
        )
        session.add(row)

    cloud.db.run(work)
    cloud.audit()
    with cloud.db.read() as session:
        assert "a_pci_0000_99_00_0" in set(session.scalars(select(models.ResourceProvider.name)))


def test_the_cards_of_a_node_that_vanishes_go_with_it(cloud: Cloud) -> None:
    (uuid,) = cloud.create(1)
    with pytest.raises(errors.Conflict):
        cloud.conductor.delete_compute_nodes(CTX, host="a", nodes=("a",))
    assert cloud.held(uuid) != {}
    cloud.delete(uuid)
    cloud.conductor.delete_compute_nodes(CTX, host="a", nodes=("a",))
    assert cloud.inventories() == {}
