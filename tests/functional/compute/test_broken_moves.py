"""Computes that die in the middle of a move, moves that no host continues, and instances deleted while they are moved."""

import pytest
from sqlalchemy import select, update

from minova.db import models
from minova.objects.catalogue.flavor import Flavor
from minova.objects.requests.request_spec import HostLimits
from minova.objects.servers.migration import MigrationType
from minova.objects.servers.states import VmState
from tests.functional.compute.migration_world import CTX, FLAVORS, HOSTS, World

BY_NAME = {flavor.name: flavor for flavor in FLAVORS}


def begin_move(
    world: World, kind: MigrationType = MigrationType.RESIZE, before: str = "both", after: str = "pinned"
) -> tuple[str, str, str]:
    """(instance, source, destination) of a move that the destination has claimed."""
    uuid = world.boot(BY_NAME[before])
    (source,) = (row.host for row in world.instances() if row.uuid == uuid)
    dest = next(host for host in HOSTS if host != source)
    new_flavor: Flavor = BY_NAME[after if kind is MigrationType.RESIZE else before]
    assert world.move(uuid, kind, dest, new_flavor)
    assert world.violations() == []
    return uuid, str(source), dest


def statuses(world: World) -> list[str]:
    with world.db.read() as session:
        return list(session.scalars(select(models.Migration.status).order_by(models.Migration.id)))


def allocated(world: World) -> int:
    with world.db.read() as session:
        return len(session.scalars(select(models.Allocation)).all())


def domains(world: World, uuid: str) -> list[str]:
    return [host for host, machine in world.machines.items() if machine.power_state(uuid) is not None]


def services(world: World) -> list[str]:
    with world.db.read() as session:
        return list(session.scalars(select(models.Service.uuid).where(models.Service.binary == "minova-compute")))


def audit_all(world: World) -> None:
    for host in HOSTS:
        world.computes[host].update_available_resource()
    world.settle()


STATES = [
    (MigrationType.RESIZE, VmState.ACTIVE, ("finished", "confirmed"), VmState.ACTIVE),
    (MigrationType.RESIZE, VmState.STOPPED, ("finished", "confirmed"), VmState.STOPPED),
    (MigrationType.RESIZE, VmState.STOPPED, ("finished", "reverted"), VmState.STOPPED),
    (MigrationType.MIGRATION, VmState.STOPPED, ("error",), VmState.STOPPED),
    (MigrationType.EVACUATION, VmState.STOPPED, ("done",), VmState.STOPPED),
    (MigrationType.EVACUATION, VmState.ERROR, ("done",), VmState.ACTIVE),
]


@pytest.mark.parametrize(("kind", "before", "steps", "after"), STATES)
def test_after_a_move_the_instance_is_in_the_state_it_was_in(
    world: World, kind: MigrationType, before: VmState, steps: tuple[str, ...], after: VmState
) -> None:
    uuid = world.boot(BY_NAME["small"])
    with world.db.write() as session:
        session.execute(update(models.Instance).values(vm_state=before.value))
    (source,) = (row.host for row in world.instances())
    assert world.move(uuid, kind, next(host for host in HOSTS if host != source), BY_NAME["small"])
    for step in steps:
        world.step(uuid, step)
    (row,) = world.instances()
    assert (row.vm_state, row.task_state) == (after.value, None)
    assert world.violations() == []


@pytest.mark.parametrize("kind", [MigrationType.RESIZE, MigrationType.MIGRATION, MigrationType.LIVE_MIGRATION])
@pytest.mark.parametrize("end", ["arrived", "error"])
def test_computes_that_die_between_claim_and_arrival(world: World, kind: MigrationType, end: str) -> None:
    uuid, source, dest = begin_move(world, kind)
    # The guest is being copied: it is on both.
    world.machines[dest].add_domain(uuid, dest, 512, attempt=1)
    for host in (dest, source):
        world.start(host)
        assert world.violations() == []
        assert domains(world, uuid) == sorted([source, dest])
    arrived = "completed" if kind is MigrationType.LIVE_MIGRATION else "finished"
    world.step(uuid, arrived if end == "arrived" else "error")
    assert world.violations() == []
    audit_all(world)
    assert domains(world, uuid) == [dest if end == "arrived" else source]


@pytest.mark.parametrize("end", ["confirmed", "reverted"])
def test_computes_that_die_after_the_end_and_before_the_decision(world: World, end: str) -> None:
    uuid, source, dest = begin_move(world)
    world.step(uuid, "finished")
    # The source keeps its domain for a way back.
    world.machines[source].add_domain(uuid, source, 512, attempt=1, running=False)
    for host in (source, dest):
        world.start(host)
        assert world.violations() == []
        assert domains(world, uuid) == sorted([source, dest])
    world.step(uuid, end)
    assert world.violations() == []
    audit_all(world)
    assert domains(world, uuid) == [dest if end == "confirmed" else source]


@pytest.mark.parametrize("seconds", [10.0, 10_000.0])
@pytest.mark.parametrize("claimed", [True, False], ids=["claimed", "only accepted"])
def test_a_move_that_its_destination_does_not_continue_ends_in_error(
    world: World, claimed: bool, seconds: float
) -> None:
    if claimed:
        uuid, source, _ = begin_move(world)
    else:
        uuid = world.boot(BY_NAME["both"])
        source = str(next(row.host for row in world.instances()))
        world.begin(uuid, MigrationType.RESIZE, next(host for host in HOSTS if host != source), BY_NAME["pinned"])
    world.now += seconds
    world.tick()
    if seconds < 1200:
        assert statuses(world) == ["pre-migrating" if claimed else "accepted"]
        return
    audit_all(world)
    (row,) = world.instances()
    assert (statuses(world), row.host, row.task_state, row.flavor.name) == (["error"], source, None, "both")
    assert world.violations() == []
    assert domains(world, uuid) == [source]


def test_a_move_whose_guest_is_under_way_is_left_to_people(world: World) -> None:
    uuid, _, _ = begin_move(world, MigrationType.LIVE_MIGRATION)
    world.step(uuid, "migrating")
    world.now += 100_000.0
    world.tick()
    assert statuses(world) == ["migrating"]
    assert world.violations() == []


@pytest.mark.parametrize("status", ["pre-migrating", "migrating", "finished"])
@pytest.mark.parametrize("able", [True, False], ids=["hosts up", "hosts down"])
def test_deletion_in_the_middle_of_a_move_gives_everything_back(world: World, status: str, able: bool) -> None:
    uuid, source, dest = begin_move(world)
    if status != "pre-migrating":
        world.step(uuid, status)
    for host in (source, dest):
        world.machines[host].add_domain(uuid, host, 512, attempt=1)
    if not able:
        for service in services(world):
            world.conductor.update_service(CTX, service_uuid=service, forced_down=True)
    world.delete(uuid)
    audit_all(world)
    assert (statuses(world), allocated(world), world.instances()) == (["error"], 0, [])
    assert domains(world, uuid) == []
    assert world.violations() == []


def test_a_claim_for_a_deleted_instance_is_refused_and_leaves_nothing(world: World) -> None:
    uuid, _, dest = begin_move(world)
    migration = world.moves[uuid]
    (instance,) = world.conductor.begin_audit(CTX, host=dest, view=world.machines[dest].host_view(dest)).moved
    world.delete(uuid)
    with pytest.raises(Exception, match="cannot claim for it"):
        world.tracker(dest).move_claim(CTX, instance, migration, HostLimits())
    audit_all(world)
    assert allocated(world) == 0
    assert world.violations() == []


@pytest.mark.parametrize(
    ("kind", "movable"),
    [
        (MigrationType.RESIZE, {VmState.ACTIVE, VmState.STOPPED}),
        (MigrationType.MIGRATION, {VmState.ACTIVE, VmState.STOPPED}),
        (MigrationType.LIVE_MIGRATION, {VmState.ACTIVE}),
        (MigrationType.EVACUATION, {VmState.ACTIVE, VmState.STOPPED, VmState.ERROR}),
    ],
)
@pytest.mark.parametrize("state", [VmState.ACTIVE, VmState.STOPPED, VmState.ERROR, VmState.SHELVED])
def test_an_instance_is_moved_only_in_a_state_in_which_audits_count_the_move(
    world: World, kind: MigrationType, movable: set[VmState], state: VmState
) -> None:
    uuid = world.boot(BY_NAME["both"])
    (source,) = (row.host for row in world.instances())
    with world.db.write() as session:
        session.execute(update(models.Instance).values(vm_state=state.value))
    audit_all(world)
    dest = next(host for host in HOSTS if host != source)
    assert world.move(uuid, kind, dest, BY_NAME["pinned" if kind is MigrationType.RESIZE else "both"]) is (
        state in movable
    )
    assert world.violations() == []


@pytest.mark.parametrize("end", ["confirmed", "reverted"])
@pytest.mark.parametrize(("before", "after"), [("small", "large"), ("large", "small"), ("small", "pinned")])
def test_a_resize_on_one_node_is_counted_alike_everywhere(world: World, before: str, after: str, end: str) -> None:
    uuid = world.boot(BY_NAME[before])
    (row,) = world.instances()
    assert world.move(uuid, MigrationType.RESIZE, str(row.host), BY_NAME[after])
    assert world.violations() == []
    for step in ("finished", end):
        world.step(uuid, step)
        assert world.violations() == [], step
