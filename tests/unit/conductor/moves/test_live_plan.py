"""What follows which phase of a live migration."""

import itertools

import pytest

from minova.conductor.moves.live_plan import after_failure, after_look, after_loss, after_success
from minova.conductor.moves.plan import Loss, MoveEnd, MovePlan
from minova.conductor.moves.resolver import Side
from minova.objects.catalogue.flavor import Flavor
from minova.objects.servers.live_migration import GuestReport, GuestSide
from minova.objects.servers.migration import Migration, MigrationType
from minova.objects.servers.moves import MovePhase

FLAVOR = Flavor(flavorid="1", name="m1", vcpus=1, memory_mb=512, root_gb=1)
MIGRATION = Migration(
    uuid="m",
    instance_uuid="i",
    migration_type=MigrationType.LIVE_MIGRATION,
    source_compute="a",
    source_node="a",
    dest_compute="b",
    dest_node="b",
    old_flavor=FLAVOR,
    new_flavor=FLAVOR,
    attempt=2,
)
LIVE = (
    *(MovePhase.DESCRIBE, MovePhase.CHECK, MovePhase.PREPARE, MovePhase.MIGRATE, MovePhase.ARRIVE, MovePhase.LEAVE),
    *(MovePhase.LOOK, MovePhase.STAY, MovePhase.DISCARD, MovePhase.HALT, MovePhase.HALT_THERE),
)


def plan(phase: MovePhase, **fields: object) -> MovePlan:
    return MovePlan(migration_uuid="m", phase=phase, **fields)  # type: ignore[arg-type]


def test_each_way_ends() -> None:
    for phase, claimed, doubted in itertools.product(LIVE, (False, True), (False, True)):
        for follow in (after_success, after_failure):
            seen: list[object] = []
            following: MovePhase | MoveEnd = phase
            while isinstance(following, MovePhase) and following is not MovePhase.LOOK_THERE:
                assert following not in seen
                seen.append(following)
                if following is MovePhase.LOOK and follow is after_failure:
                    break  # asked again
                following = follow(plan(following, claimed=claimed, doubted=doubted), MIGRATION)


def test_only_a_destination_that_has_nothing_that_counts_is_given_up_while_it_is_silent() -> None:
    given_up = {phase for phase in LIVE if after_loss(plan(phase), MIGRATION, Loss.SILENT) is not None}
    assert given_up == {MovePhase.CHECK, MovePhase.PREPARE, MovePhase.LEAVE, MovePhase.DISCARD}


def test_a_fenced_source_leaves_the_word_to_the_destination() -> None:
    assert after_loss(plan(MovePhase.MIGRATE), MIGRATION, Loss.FENCED) is MovePhase.LOOK_THERE
    fenced = plan(MovePhase.LOOK_THERE)
    arrived = Side(report=GuestReport(side=GuestSide.PAUSED, attempt=2))
    assert after_look(fenced, MIGRATION, arrived) is MovePhase.ARRIVE
    assert after_look(fenced, MIGRATION, Side(report=GuestReport(side=GuestSide.ABSENT))) is MoveEnd.FAILED


@pytest.mark.parametrize(
    ("source", "destination", "following"),
    [
        (GuestSide.RUNNING, GuestSide.ABSENT, MovePhase.STAY),
        (GuestSide.RUNNING, GuestSide.PAUSED, MovePhase.STAY),
        (GuestSide.PAUSED_BY_MIGRATION, GuestSide.RUNNING, MovePhase.ARRIVE),
        (GuestSide.LEFT, GuestSide.PAUSED, MovePhase.ARRIVE),
        (GuestSide.CRASHED, GuestSide.ABSENT, MoveEnd.LOST),
        (GuestSide.RUNNING, GuestSide.RUNNING, MovePhase.HALT),
        (GuestSide.POST_COPY_FAILED, GuestSide.POST_COPY_FAILED, MoveEnd.BROKEN),
        (GuestSide.POST_COPY_FAILED, GuestSide.ABSENT, MoveEnd.LOST),
        (GuestSide.POST_COPY, GuestSide.POST_COPY, None),
    ],
)
def test_the_verdict_is_carried_out(source: GuestSide, destination: GuestSide, following: object) -> None:
    looked = plan(MovePhase.LOOK_THERE, guest=GuestReport(side=source, attempt=1), claimed=True, doubted=True)
    assert after_look(looked, MIGRATION, Side(report=GuestReport(side=destination, attempt=2))) is following
