"""HTTP and the scheduler's claims change the same books."""

from collections.abc import Iterator

import pytest
from sqlalchemy import select

from minova import errors
from minova.db import models
from minova.placement.allocations.transfers import transfer
from minova.placement.providers import of_node
from tests.functional.api.placement.conftest import PlacementCloud, holding
from tests.functional.placement.cases import changed_nodes, claim, claim_of, hosts, release
from tests.functional.scheduler.cloud import inventory_rows, named, unbalanced

NODE = named("node h")


@pytest.fixture
def node_cloud(cloud: PlacementCloud) -> Iterator[PlacementCloud]:
    """One compute node, h: 4 VCPU, 4096 MB."""
    hosts(cloud.db, "h")
    yield cloud
    assert not unbalanced(inventory_rows(cloud.db))


def put(node_cloud: PlacementCloud, consumer: str, generation: int | None, vcpus: int, memory_mb: int = 1024) -> int:
    body = holding(generation)
    body["allocations"] = {NODE: {"resources": {"VCPU": vcpus, "MEMORY_MB": memory_mb}}}
    return node_cloud.ask("PUT", f"/allocations/{named(consumer)}", body).status


def test_a_compute_node_is_a_provider_like_any_other(node_cloud: PlacementCloud) -> None:
    shown = node_cloud.right("GET", f"/resource_providers/{NODE}")
    assert (shown["root_provider_uuid"], shown["parent_provider_uuid"]) == (NODE, None)


def test_what_one_takes_the_other_misses(node_cloud: PlacementCloud) -> None:
    claim(node_cloud.db, claim_of("one", "h", VCPU=3, MEMORY_MB=1024))
    assert put(node_cloud, "two", None, 2) == 409
    assert put(node_cloud, "two", None, 1) == 204
    assert named("three") in claim(node_cloud.db, claim_of("three", "h", VCPU=1, MEMORY_MB=1024))
    node_cloud.right("DELETE", f"/allocations/{named('two')}")
    assert claim(node_cloud.db, claim_of("three", "h", VCPU=1, MEMORY_MB=1024)) == {}


def test_a_claim_is_seen_with_its_type_and_owner(node_cloud: PlacementCloud) -> None:
    claim(node_cloud.db, claim_of("one", "h", VCPU=3, MEMORY_MB=1024))
    shown = node_cloud.right("GET", f"/allocations/{named('one')}")
    assert shown["allocations"][NODE]["resources"] == {"VCPU": 3, "MEMORY_MB": 1024}
    assert (shown["consumer_type"], shown["project_id"], shown["user_id"]) == ("INSTANCE", "p", "u")


def test_a_claim_that_changes_what_is_held_makes_an_older_generation_stale(node_cloud: PlacementCloud) -> None:
    claim(node_cloud.db, claim_of("one", "h", VCPU=3, MEMORY_MB=1024))
    seen = node_cloud.right("GET", f"/allocations/{named('one')}")["consumer_generation"]
    claim(node_cloud.db, claim_of("one", "h", claim_number=2, VCPU=2, MEMORY_MB=1024))
    assert put(node_cloud, "one", seen, 1) == 409


def test_http_leaves_the_claim_number_so_that_a_late_claim_is_refused(node_cloud: PlacementCloud) -> None:
    claim(node_cloud.db, claim_of("one", "h", claim_number=5, VCPU=1, MEMORY_MB=1024))
    generation = node_cloud.right("GET", f"/allocations/{named('one')}")["consumer_generation"]
    assert put(node_cloud, "one", generation, 2) == 204
    node_cloud.right("DELETE", f"/allocations/{named('one')}")
    with pytest.raises(errors.StaleClaim):
        claim(node_cloud.db, claim_of("one", "h", claim_number=4, VCPU=1, MEMORY_MB=1024))
    assert put(node_cloud, "one", None, 1) == 204


def test_a_consumer_that_only_http_has_written_goes_with_its_last_allocation(node_cloud: PlacementCloud) -> None:
    assert put(node_cloud, "one", None, 1) == 204
    node_cloud.right("DELETE", f"/allocations/{named('one')}")
    with node_cloud.db.read() as session:
        assert session.scalars(select(models.Consumer.uuid)).all() == []


def test_what_a_migration_holds_still_counts_for_the_project(node_cloud: PlacementCloud) -> None:
    claim(node_cloud.db, claim_of("one", "h", VCPU=3, MEMORY_MB=1024))
    assert node_cloud.db.run(lambda session: transfer(session, named("one"), named("move")))
    usages = node_cloud.right("GET", "/usages?project_id=p")["usages"]
    assert usages == {"MIGRATION": {"VCPU": 3, "MEMORY_MB": 1024, "consumer_count": 1}}


def test_after_a_release_the_consumer_is_new_again(node_cloud: PlacementCloud) -> None:
    claim(node_cloud.db, claim_of("one", "h", VCPU=1, MEMORY_MB=1024))
    release(node_cloud.db, "one")
    assert put(node_cloud, "one", 0, 1) == 409
    assert put(node_cloud, "one", None, 1) == 204
    assert node_cloud.right("GET", f"/allocations/{named('one')}")["consumer_generation"] == 1


def test_whatever_a_host_table_shows_is_announced(node_cloud: PlacementCloud) -> None:
    with node_cloud.db.read() as session:
        node_id = session.scalars(select(models.ComputeNode.id)).one()
    seen = len(changed_nodes(node_cloud.db))

    def announced() -> bool:
        nonlocal seen
        before, seen = seen, len(changed_nodes(node_cloud.db))
        return changed_nodes(node_cloud.db)[before:] == [node_id]

    path = f"/resource_providers/{NODE}"
    generation = node_cloud.right("GET", path)["generation"]
    assert put(node_cloud, "one", None, 1) == 204
    assert announced()
    node_cloud.right("DELETE", f"/allocations/{named('one')}")
    assert announced()
    body = {"resource_provider_generation": generation + 1, "traits": ["HW_CPU_X86_VMX"]}
    node_cloud.right("PUT", f"{path}/traits", body)
    assert announced()
    body = {"resource_provider_generation": generation + 2, "total": 9}
    node_cloud.right("PUT", f"{path}/inventories/VCPU", body)
    assert announced()
    body = {"resource_provider_generation": generation + 3, "aggregates": [named("rack")]}
    node_cloud.right("PUT", f"{path}/aggregates", body)
    assert announced()
    node_cloud.provider("elsewhere", VCPU=1)
    assert not announced()


def test_a_node_that_goes_takes_the_providers_below_it(node_cloud: PlacementCloud) -> None:
    node_cloud.right("POST", "/resource_providers", {"name": "card", "parent_provider_uuid": NODE})
    node_cloud.db.run(lambda session: of_node.delete(session, NODE))
    assert node_cloud.right("GET", "/resource_providers")["resource_providers"] == []
