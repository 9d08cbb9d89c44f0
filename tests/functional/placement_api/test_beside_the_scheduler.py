"""HTTP and the scheduler's claims change the same books."""

from collections.abc import Iterator

import pytest
from sqlalchemy import select

from minova import errors
from minova.db import models
from minova.placement.allocations.transfers import transfer
from minova.placement.providers import of_node
from tests.functional.placement.cases import changed_nodes, claim, claim_of, hosts, release
from tests.functional.placement_api.conftest import Room, holding
from tests.functional.scheduler.cloud import inventory_rows, named, unbalanced

NODE = named("node h")


@pytest.fixture
def cloud(room: Room) -> Iterator[Room]:
    """One compute node, h: 4 VCPU, 4096 MB."""
    hosts(room.db, "h")
    yield room
    assert not unbalanced(inventory_rows(room.db))


def put(cloud: Room, consumer: str, generation: int | None, vcpus: int, memory_mb: int = 1024) -> int:
    body = holding(generation)
    body["allocations"] = {NODE: {"resources": {"VCPU": vcpus, "MEMORY_MB": memory_mb}}}
    return cloud.ask("PUT", f"/allocations/{named(consumer)}", body).status


def test_a_compute_node_is_a_provider_like_any_other(cloud: Room) -> None:
    shown = cloud.right("GET", f"/resource_providers/{NODE}")
    assert (shown["root_provider_uuid"], shown["parent_provider_uuid"]) == (NODE, None)


def test_what_one_takes_the_other_misses(cloud: Room) -> None:
    claim(cloud.db, claim_of("one", "h", VCPU=3, MEMORY_MB=1024))
    assert put(cloud, "two", None, 2) == 409
    assert put(cloud, "two", None, 1) == 204
    assert named("three") in claim(cloud.db, claim_of("three", "h", VCPU=1, MEMORY_MB=1024))
    cloud.right("DELETE", f"/allocations/{named('two')}")
    assert claim(cloud.db, claim_of("three", "h", VCPU=1, MEMORY_MB=1024)) == {}


def test_a_claim_is_seen_with_its_type_and_owner(cloud: Room) -> None:
    claim(cloud.db, claim_of("one", "h", VCPU=3, MEMORY_MB=1024))
    shown = cloud.right("GET", f"/allocations/{named('one')}")
    assert shown["allocations"][NODE]["resources"] == {"VCPU": 3, "MEMORY_MB": 1024}
    assert (shown["consumer_type"], shown["project_id"], shown["user_id"]) == ("INSTANCE", "p", "u")


def test_a_claim_that_changes_what_is_held_makes_an_older_generation_stale(cloud: Room) -> None:
    claim(cloud.db, claim_of("one", "h", VCPU=3, MEMORY_MB=1024))
    seen = cloud.right("GET", f"/allocations/{named('one')}")["consumer_generation"]
    claim(cloud.db, claim_of("one", "h", VCPU=2, MEMORY_MB=1024))
    assert put(cloud, "one", seen, 1) == 409


def test_http_leaves_the_claim_number_so_that_a_late_claim_is_refused(cloud: Room) -> None:
    claim(cloud.db, claim_of("one", "h", claim_number=5, VCPU=1, MEMORY_MB=1024))
    generation = cloud.right("GET", f"/allocations/{named('one')}")["consumer_generation"]
    assert put(cloud, "one", generation, 2) == 204
    cloud.right("DELETE", f"/allocations/{named('one')}")
    with pytest.raises(errors.StaleClaim):
        claim(cloud.db, claim_of("one", "h", claim_number=4, VCPU=1, MEMORY_MB=1024))
    assert put(cloud, "one", None, 1) == 204


def test_a_consumer_that_only_http_has_written_goes_with_its_last_allocation(cloud: Room) -> None:
    assert put(cloud, "one", None, 1) == 204
    cloud.right("DELETE", f"/allocations/{named('one')}")
    with cloud.db.read() as session:
        assert session.scalars(select(models.Consumer.uuid)).all() == []


def test_what_a_migration_holds_still_counts_for_the_project(cloud: Room) -> None:
    claim(cloud.db, claim_of("one", "h", VCPU=3, MEMORY_MB=1024))
    assert cloud.db.run(lambda session: transfer(session, named("one"), named("move")))
    usages = cloud.right("GET", "/usages?project_id=p")["usages"]
    assert usages == {"MIGRATION": {"VCPU": 3, "MEMORY_MB": 1024, "consumer_count": 1}}


def test_after_a_release_the_consumer_is_new_again(cloud: Room) -> None:
    claim(cloud.db, claim_of("one", "h", VCPU=1, MEMORY_MB=1024))
    release(cloud.db, "one")
    assert put(cloud, "one", 0, 1) == 409
    assert put(cloud, "one", None, 1) == 204
    assert cloud.right("GET", f"/allocations/{named('one')}")["consumer_generation"] == 1


def test_whatever_a_host_table_shows_is_announced(cloud: Room) -> None:
    with cloud.db.read() as session:
        node_id = session.scalars(select(models.ComputeNode.id)).one()
    seen = len(changed_nodes(cloud.db))

    def announced() -> bool:
        nonlocal seen
        before, seen = seen, len(changed_nodes(cloud.db))
        return changed_nodes(cloud.db)[before:] == [node_id]

    path = f"/resource_providers/{NODE}"
    generation = cloud.right("GET", path)["generation"]
    assert put(cloud, "one", None, 1) == 204
    assert announced()
    cloud.right("DELETE", f"/allocations/{named('one')}")
    assert announced()
    body = {"resource_provider_generation": generation + 1, "traits": ["HW_CPU_X86_VMX"]}
    cloud.right("PUT", f"{path}/traits", body)
    assert announced()
    body = {"resource_provider_generation": generation + 2, "total": 9}
    cloud.right("PUT", f"{path}/inventories/VCPU", body)
    assert announced()
    body = {"resource_provider_generation": generation + 3, "aggregates": [named("rack")]}
    cloud.right("PUT", f"{path}/aggregates", body)
    assert announced()
    cloud.provider("elsewhere", VCPU=1)
    assert not announced()


def test_a_node_that_goes_takes_the_providers_below_it(cloud: Room) -> None:
    cloud.right("POST", "/resource_providers", {"name": "card", "parent_provider_uuid": NODE})
    cloud.db.run(lambda session: of_node.delete(session, NODE))
    assert cloud.right("GET", "/resource_providers")["resource_providers"] == []
