"""Deletions with `reclaim_instance_interval`: what can be restored, for how long, and what counts meanwhile."""

from typing import Any

import pytest

from minova import errors
from minova.conductor.hosts.liveness import Liveness
from minova.db import models, quotas
from minova.objects.actions.action import ServerAction
from minova.objects.actions.deletion import RESTORE, SOFT_DELETE
from minova.objects.actions.rebuild import REBUILD
from minova.objects.actions.shelving import SHELVE_OFFLOAD
from minova.objects.actions.table import RUN_BY_HOSTS
from minova.objects.servers.server_changes import ServerChanges
from minova.objects.servers.states import TaskState, VmState
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness, new_request

INTERVAL = 3600


@pytest.fixture
def harness(harness: ConductorHarness) -> ConductorHarness:
    harness.settings.set_override("reclaim_instance_interval", INTERVAL)
    return harness


def done(harness: ConductorHarness, uuid: str, power_state: int) -> None:
    report: Any = {"instance_uuid": uuid, "action_id": harness.action_id(uuid), "host": "a"}
    harness.conductor.begin_action(CTX, **report)
    harness.conductor.action_succeeded(CTX, **report, power_state=power_state)


def soft_deleted(harness: ConductorHarness) -> str:
    uuid = harness.active()
    harness.delete(uuid)
    done(harness, uuid, 4)
    return uuid


def pass_the_interval(harness: ConductorHarness) -> None:
    """Nothing is reclaimed yet."""
    conf = harness.settings
    conf.set_override("reclaim_instance_interval", 0)
    harness.now += INTERVAL + 1
    harness.beat("a")
    conf.set_override("reclaim_instance_interval", INTERVAL)


def counted(harness: ConductorHarness) -> dict[str, int]:
    with harness.db.read() as session:
        used = quotas.usages_of(session, CTX.project_id)
        again = quotas.counted(session, CTX.project_id, ["instances", "cores", "ram"])
    assert {name: used.get(name) for name in again} == again
    return again


def test_a_server_keeps_its_place_and_can_be_restored(harness: ConductorHarness) -> None:
    uuid = harness.active()
    held, used = harness.allocated(), counted(harness)
    harness.delete(uuid)
    assert harness.state(uuid) == "active/soft-deleting on a"
    assert harness.hosts["a"].actions[-1][0] == "soft_delete"
    done(harness, uuid, 4)
    assert harness.state(uuid) == "soft-delete/None on a"
    assert (harness.allocated(), counted(harness)) == (held, {"instances": 0, "cores": 0, "ram": 0})
    assert harness.hosts["a"].terminated == []
    harness.act(uuid, "restore")
    assert (harness.state(uuid), counted(harness)) == ("soft-delete/restoring on a", used)
    done(harness, uuid, 1)
    assert (harness.state(uuid), harness.instance(uuid).terminated_at) == ("active/None on a", None)
    assert counted(harness) == used
    assert [name for name, _ in harness.actions(uuid)] == ["create", "delete", "restore"]


def test_a_deletion_that_is_asked_for_twice_is_done_once(harness: ConductorHarness) -> None:
    uuid = soft_deleted(harness)
    at = harness.instance(uuid).terminated_at
    harness.delete(uuid)
    assert (harness.state(uuid), harness.instance(uuid).terminated_at) == ("soft-delete/None on a", at)


def test_a_restore_that_fails_leaves_it_deleted_and_not_counted(harness: ConductorHarness) -> None:
    uuid = soft_deleted(harness)
    harness.act(uuid, "restore")
    report: Any = {"instance_uuid": uuid, "action_id": harness.action_id(uuid), "host": "a"}
    harness.conductor.action_failed(CTX, **report, reason="no", power_state=4)
    assert harness.state(uuid) == "soft-delete/None on a"
    assert counted(harness)["instances"] == 0


def test_a_restore_needs_the_quota(harness: ConductorHarness) -> None:
    uuid = soft_deleted(harness)
    harness.conductor.update_quota_set(CTX, project_id=CTX.project_id, limits={"instances": 0}, force=True)
    with pytest.raises(errors.Forbidden, match="instances"):
        harness.act(uuid, "restore")
    assert harness.state(uuid) == "soft-delete/None on a"


def test_only_what_is_soft_deleted_is_restored(harness: ConductorHarness) -> None:
    uuid = harness.active()
    with pytest.raises(errors.Conflict, match=f"Cannot 'restore' instance {uuid} while it is in vm_state active"):
        harness.act(uuid, "restore")


@pytest.mark.parametrize("how", ["force", "time"])
def test_it_goes_by_force_or_when_its_time_is_over(harness: ConductorHarness, how: str) -> None:
    uuid = soft_deleted(harness)
    reclaim = harness.conductor.collaborators.deletions.reclaim
    reclaim()
    assert harness.state(uuid) == "soft-delete/None on a"
    if how == "force":
        harness.conductor.delete_server(new_request(), instance_uuid=uuid, force=True)
    else:
        harness.now += INTERVAL + 1
        harness.beat("a")
        reclaim()
        reclaim()
    assert harness.hosts["a"].terminated == [uuid]
    harness.conductor.instance_deleted(CTX, instance_uuid=uuid, host="a")
    assert harness.state(uuid).startswith("deleted/None")
    assert (harness.allocated(), counted(harness)["instances"]) == ({}, 0)


@pytest.mark.parametrize("is_done", [True, False])
def test_a_server_that_is_restored_after_the_look_is_not_reclaimed(
    harness: ConductorHarness, monkeypatch: pytest.MonkeyPatch, is_done: bool
) -> None:
    uuid = soft_deleted(harness)
    pass_the_interval(harness)
    terminate = harness.conductor.collaborators.terminate
    delete = terminate.delete

    def restored_first(*arguments: Any, **more: Any) -> None:
        harness.act(uuid, "restore")
        if is_done:
            done(harness, uuid, 1)
        delete(*arguments, **more)

    monkeypatch.setattr(terminate, "delete", restored_first)
    harness.conductor.collaborators.deletions.reclaim()
    assert harness.state(uuid) == ("active/None on a" if is_done else "soft-delete/restoring on a")
    assert harness.hosts["a"].terminated == []


def test_a_server_that_is_deleted_again_after_the_look_has_its_whole_time(
    harness: ConductorHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    uuid = soft_deleted(harness)
    pass_the_interval(harness)
    terminate = harness.conductor.collaborators.terminate
    delete = terminate.delete

    def deleted_anew(*arguments: Any, **more: Any) -> None:
        harness.acted(uuid, "restore")
        harness.acted(uuid, "soft_delete")
        delete(*arguments, **more)

    monkeypatch.setattr(terminate, "delete", deleted_anew)
    harness.conductor.collaborators.deletions.reclaim()
    assert harness.state(uuid) == "soft-delete/None on a"
    assert harness.hosts["a"].terminated == []


@pytest.mark.parametrize("able", [True, False])
def test_a_forced_deletion_during_a_restore_gives_the_quota_back(
    harness: ConductorHarness, monkeypatch: pytest.MonkeyPatch, able: bool
) -> None:
    uuid = soft_deleted(harness)
    harness.act(uuid, "restore")
    assert counted(harness)["instances"] == 1
    if not able:
        monkeypatch.setattr(Liveness, "present_hosts", lambda self: frozenset())
    harness.conductor.delete_server(new_request(), instance_uuid=uuid, force=True)
    assert counted(harness) == {"instances": 0, "cores": 0, "ram": 0}
    if able:
        harness.conductor.instance_deleted(CTX, instance_uuid=uuid, host="a")
    assert harness.state(uuid).startswith("deleted/None")
    assert counted(harness) == {"instances": 0, "cores": 0, "ram": 0}


def test_a_forced_deletion_that_fails_counts_the_server_again(harness: ConductorHarness) -> None:
    other, uuid = harness.active(), soft_deleted(harness)
    harness.conductor.delete_server(new_request(), instance_uuid=uuid, force=True)
    timeout = float(harness.settings.conductor.delete_timeout)
    waited = 0.0
    while harness.task(uuid) is not None and waited < 10 * timeout:
        harness.now += timeout
        waited += timeout
        harness.beat("a", "b", "c")
    assert harness.state(uuid).startswith("error/None")
    assert counted(harness)["instances"] == 2
    harness.conductor.delete_server(new_request(), instance_uuid=uuid, force=True)
    harness.conductor.instance_deleted(CTX, instance_uuid=uuid, host="a")
    assert (counted(harness)["instances"], harness.state(other)) == (1, "active/None on a")


@pytest.mark.parametrize("while_restored", [True, False])
@pytest.mark.parametrize("state", [VmState.ACTIVE, VmState.ERROR])
def test_a_server_whose_state_is_reset_counts_again(
    harness: ConductorHarness, state: VmState, while_restored: bool
) -> None:
    uuid = soft_deleted(harness)
    if while_restored:
        harness.act(uuid, "restore")
    harness.conductor.reset_server_state(CTX, instance_uuid=uuid, vm_state=state.value)
    assert harness.state(uuid) == f"{state}/None on a"
    assert counted(harness)["instances"] == 1
    harness.conductor.delete_server(new_request(), instance_uuid=uuid, force=True)
    harness.conductor.instance_deleted(CTX, instance_uuid=uuid, host="a")
    assert counted(harness)["instances"] == 0


# One whose disks are being removed is deleted for good: test_shelving.py.
@pytest.mark.parametrize(
    "action",
    [action for action in RUN_BY_HOSTS if action not in (SOFT_DELETE, RESTORE, SHELVE_OFFLOAD)],
    ids=lambda action: action.kind,
)
@pytest.mark.parametrize("able", [True, False])
def test_a_busy_server_can_be_restored_too(
    harness: ConductorHarness, monkeypatch: pytest.MonkeyPatch, action: ServerAction, able: bool
) -> None:
    uuid = harness.active()
    harness.bring_to(uuid, vm_state := min(action.vm_states))
    image = harness.instance(uuid).image_ref
    action_id = harness.act(uuid, action.kind)
    if not able:
        monkeypatch.setattr(Liveness, "present_hosts", lambda self: frozenset())
    harness.delete(uuid)
    if able:
        assert harness.state(uuid) == f"{vm_state}/soft-deleting on a"
        assert (action.name, "Error") in harness.actions(uuid)
        with pytest.raises(errors.StaleAttempt):
            harness.conductor.begin_action(CTX, instance_uuid=uuid, action_id=action_id, host="a", again=True)
        done(harness, uuid, 4)
    assert (harness.state(uuid), harness.task(uuid)) == ("soft-delete/None on a", None)
    assert harness.hosts["a"].terminated == []
    # A shelved server needs its image when it is restored.
    images = 1 if vm_state is VmState.SHELVED else 0
    assert (harness.count(models.Image), harness.instance(uuid).image_ref) == (images, image)


def test_a_rebuild_that_has_changed_the_guest_keeps_its_image(harness: ConductorHarness) -> None:
    uuid = harness.active()
    image, action_id = harness.instance(uuid).image_ref, harness.act(uuid, REBUILD.kind)
    for again in (False, True):
        harness.conductor.begin_action(CTX, instance_uuid=uuid, action_id=action_id, host="a", again=again)
    harness.delete(uuid)
    assert harness.state(uuid) == "active/soft-deleting on a"
    assert harness.instance(uuid).image_ref != image


def test_a_deletion_that_is_repeated_meanwhile_changes_nothing(harness: ConductorHarness) -> None:
    uuid = harness.active()
    harness.delete(uuid)
    before = harness.state(uuid), harness.actions(uuid)
    harness.delete(uuid)
    assert (harness.state(uuid), harness.actions(uuid)) == before
    assert harness.hosts["a"].terminated == []


def test_two_deletions_at_once_are_one(harness: ConductorHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    uuid = harness.active()
    actions = harness.conductor.collaborators.actions
    start = actions.start_action

    def after_another(*arguments: Any, **more: Any) -> None:
        start(*arguments, **more)
        start(*arguments, **more)

    monkeypatch.setattr(actions, "start_action", after_another)
    harness.delete(uuid)
    assert harness.state(uuid) == "active/soft-deleting on a"
    assert [name for name, _ in harness.actions(uuid)] == ["create", "delete"]


def test_a_server_that_is_restored_is_not_deleted_meanwhile(harness: ConductorHarness) -> None:
    uuid = soft_deleted(harness)
    harness.act(uuid, "restore")
    with pytest.raises(errors.Conflict, match=f"Cannot 'delete' instance {uuid} while it is in vm_state soft-delete"):
        harness.delete(uuid)
    assert harness.state(uuid) == "soft-delete/restoring on a"


def test_a_server_that_is_moved_is_not_deleted_for_good(harness: ConductorHarness) -> None:
    uuid = harness.active()
    moved: dict[Any, Any] = {"task_state": TaskState.RESIZE_PREP.value}
    harness.db.run(lambda session: session.query(models.Instance).filter_by(uuid=uuid).update(moved))
    with pytest.raises(errors.Conflict, match=f"Cannot 'delete' instance {uuid} while it is in task_state resize_prep"):
        harness.delete(uuid)
    assert harness.hosts["a"].terminated == []


def test_an_accepted_deletion_holds_without_its_host(harness: ConductorHarness) -> None:
    uuid = harness.active()
    harness.delete(uuid)
    harness.force_down("a")
    assert harness.state(uuid) == "soft-delete/None on a"
    assert harness.instance(uuid).terminated_at is not None
    assert counted(harness)["instances"] == 0
    assert harness.actions(uuid)[-1] == ("delete", "Success")


@pytest.mark.parametrize("able", [True, False])
def test_an_older_service_is_a_conflict_that_names_the_way_out(
    harness: ConductorHarness, monkeypatch: pytest.MonkeyPatch, able: bool
) -> None:
    uuid = harness.active()
    monkeypatch.setattr(harness.conductor.collaborators.actions, "_levels", lambda: {"compute": "1.2"})
    if not able:
        monkeypatch.setattr(Liveness, "present_hosts", lambda self: frozenset())
    with pytest.raises(errors.Conflict, match=r"older release .*compute service that runs has 1\.2.*forceDelete"):
        harness.delete(uuid)
    assert (harness.state(uuid), harness.hosts["a"].terminated) == ("active/None on a", [])
    harness.conductor.delete_server(new_request(), instance_uuid=uuid, force=True)
    assert harness.state(uuid).split("/")[1].startswith("deleting") or harness.state(uuid).startswith("deleted")


def test_a_server_that_was_never_active_goes_at_once(harness: ConductorHarness) -> None:
    (uuid,) = harness.create()
    harness.delete(uuid)
    assert harness.state(uuid).split("/")[1].startswith("deleting") or harness.state(uuid).startswith("deleted")


def test_a_locked_server_is_not_soft_deleted(harness: ConductorHarness) -> None:
    uuid = harness.active()
    harness.conductor.update_server(CTX, instance_uuid=uuid, changes=ServerChanges(lock=True))
    with pytest.raises(errors.Conflict, match="locked"):
        harness.delete(uuid)
    assert harness.state(uuid) == "active/None on a"


def test_without_an_interval_a_server_goes_at_once(harness: ConductorHarness) -> None:
    harness.settings.set_override("reclaim_instance_interval", 0)
    uuid = harness.active()
    harness.delete(uuid)
    assert harness.state(uuid) == "active/deleting on a"
