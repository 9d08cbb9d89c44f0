"""Steps of a migration that arrive when the instance has gone on."""

import pytest

from minova import errors
from minova.objects.requests.request_spec import Selection
from minova.objects.servers.migration import Migration, MigrationType
from tests.functional.conductor.conductor_harness import CTX, FLAVOR, ConductorHarness
from tests.functional.scheduler.cloud import named


def begin_resize(harness: ConductorHarness, uuid: str) -> Migration:
    """From host a to host b, claimed there and under way."""
    chosen = Selection(host="b", node="b-node", provider_uuid=named("b"), allocation={"VCPU": 1})
    moved = harness.conductor.collaborators.migrations.begin_move(
        uuid, MigrationType.RESIZE, FLAVOR, chosen, claim_number=50
    )
    harness.conductor.claim_move(CTX, migration=moved.migration, node=harness.node("b"))
    return moved.migration


@pytest.mark.parametrize(("step", "place"), [("finished", "b"), ("error", "a")])
def test_a_late_step_changes_only_the_place_of_an_instance_that_is_being_deleted(
    harness: ConductorHarness, step: str, place: str
) -> None:
    uuid = harness.active("a")
    migration = begin_resize(harness, uuid)
    harness.delete(uuid)
    before = harness.instance(uuid)
    for status in ("migrating", "post-migrating", step) if step == "finished" else (step,):
        moved = harness.conductor.step_move(CTX, migration_uuid=migration.uuid, status=status, host="b")
    after = harness.instance(uuid)
    assert moved.migration.status == step
    assert (after.vm_state, after.task_state) == (before.vm_state, before.task_state) == ("active", "deleting")
    assert after.host == place


def test_a_late_step_of_a_migration_that_has_ended_is_stale(harness: ConductorHarness) -> None:
    uuid = harness.active("a")
    migration = begin_resize(harness, uuid)
    harness.conductor.step_move(CTX, migration_uuid=migration.uuid, status="error", host="b")
    harness.delete(uuid)
    with pytest.raises(errors.StaleAttempt):
        harness.conductor.step_move(CTX, migration_uuid=migration.uuid, status="finished", host="b")
    assert harness.state(uuid) == "active/deleting on a"
