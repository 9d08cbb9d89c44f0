"""Names, metadata, locks and the states that administrators set."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from minova import errors
from minova.context import RequestContext
from minova.db.servers import tags
from minova.objects.servers.server_changes import ServerChanges
from minova.objects.servers.states import VmState
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness

ADMIN = RequestContext(request_id="req-admin", user_id="root", project_id="operators", is_admin=True)


def owner(harness: ConductorHarness, uuid: str) -> RequestContext:
    row = harness.instance(uuid)
    return RequestContext(request_id="req-owner", user_id=row.user_id, project_id=row.project_id, is_admin=False)


def change(harness: ConductorHarness, uuid: str, ctx: RequestContext | None = None, **changes: Any) -> None:
    harness.conductor.update_server(ctx or owner(harness, uuid), instance_uuid=uuid, changes=ServerChanges(**changes))


def test_name_and_addresses_change_and_the_rest_stays(harness: ConductorHarness) -> None:
    uuid = harness.active()
    before = harness.instance(uuid)
    change(harness, uuid, name="new", access_ip_v4="10.0.0.7")
    row = harness.instance(uuid)
    assert (row.display_name, row.access_ip_v4, row.access_ip_v6) == ("new", "10.0.0.7", None)
    assert (row.hostname, row.vm_state, row.metadata_) == (before.hostname, before.vm_state, before.metadata_)
    change(harness, uuid, access_ip_v4="")
    assert (harness.instance(uuid).display_name, harness.instance(uuid).access_ip_v4) == ("new", None)


def test_metadata_is_merged_or_replaced(harness: ConductorHarness) -> None:
    uuid = harness.active()
    change(harness, uuid, metadata={"a": "1", "b": "2"})
    change(harness, uuid, metadata={"b": "3", "c": "4"})
    assert harness.instance(uuid).metadata_ == {"a": "1", "b": "3", "c": "4"}
    change(harness, uuid, metadata={"a": None})
    assert harness.instance(uuid).metadata_ == {"b": "3", "c": "4"}
    change(harness, uuid, metadata={"d": "5"}, replace_metadata=True)
    assert harness.instance(uuid).metadata_ == {"d": "5"}


def test_metadata_has_a_quota_and_needs_a_server_that_is_there(harness: ConductorHarness) -> None:
    uuid = harness.active()
    harness.conductor.update_quota_set(ADMIN, project_id=harness.instance(uuid).project_id, limits={"metadata_items": 2}, force=True)  # fmt: skip
    change(harness, uuid, metadata={"a": "1", "b": "2"})
    with pytest.raises(errors.Forbidden, match="Maximum number of metadata items exceeds 2"):
        change(harness, uuid, metadata={"c": "3"})
    (building,) = harness.create()
    with pytest.raises(errors.Conflict, match="while it is in vm_state building"):
        change(harness, building, metadata={"a": "1"})


def test_a_locked_server_refuses_everything_of_its_owner(harness: ConductorHarness) -> None:
    uuid = harness.active()
    user = owner(harness, uuid)
    change(harness, uuid, lock=True)
    assert harness.instance(uuid).locked_by == "owner"
    named, described = ServerChanges(name="x"), ServerChanges(metadata={"a": "1"})
    conductor = harness.conductor
    attempts: list[Callable[..., None]] = [
        lambda ctx, **more: conductor.update_server(ctx, instance_uuid=uuid, changes=named, **more),
        lambda ctx, **more: conductor.update_server(ctx, instance_uuid=uuid, changes=described, **more),
        lambda ctx, **more: conductor.start_action(ctx, instance_uuid=uuid, action="stop", **more),
        lambda ctx, **more: conductor.delete_server(ctx, instance_uuid=uuid, **more),
    ]
    for attempt in attempts:
        # A context that says more changes nothing: the API has decided.
        for ctx in (user, ADMIN):
            with pytest.raises(errors.Conflict, match=f"^Instance {uuid} is locked$"):
                attempt(ctx)
    assert harness.state(uuid) == "active/None on a"
    for attempt in attempts[:3]:
        attempt(ADMIN, override_lock=True)
    assert (harness.instance(uuid).display_name, harness.state(uuid)) == ("x", "active/powering-off on a")


def test_an_owner_may_unlock_and_takes_no_lock_of_an_administrator(harness: ConductorHarness) -> None:
    uuid = harness.active()
    change(harness, uuid, ADMIN, lock=True)
    change(harness, uuid, lock=True)
    assert harness.instance(uuid).locked_by == "admin"
    change(harness, uuid, ADMIN, lock=False)
    assert harness.instance(uuid).locked_by is None
    change(harness, uuid, name="free")
    assert [name for name, _ in harness.actions(uuid)] == ["create", "lock", "unlock"]
    assert {result for _, result in harness.actions(uuid)} == {"Success"}


@pytest.mark.parametrize("state", ["error", "active"])
def test_a_reset_ends_the_action_in_progress_whose_report_is_then_stale(harness: ConductorHarness, state: str) -> None:
    uuid = harness.active()
    stop = harness.act(uuid, "stop")
    harness.conductor.reset_server_state(ADMIN, instance_uuid=uuid, vm_state=state)
    assert harness.state(uuid) == f"{state}/None on a"
    assert harness.task(uuid) is None
    assert harness.actions(uuid) == [("create", "Success"), ("stop", "Error"), ("reset_state", "Success")]
    harness.conductor.action_succeeded(ADMIN, instance_uuid=uuid, action_id=stop, host="a", power_state=4)
    assert harness.state(uuid) == f"{state}/None on a"
    with pytest.raises(errors.StaleAttempt):
        harness.conductor.begin_action(ADMIN, instance_uuid=uuid, action_id=stop, host="a")


def test_a_server_in_error_is_active_again_and_can_be_stopped(harness: ConductorHarness) -> None:
    uuid = harness.active()
    harness.bring_to(uuid, VmState.ERROR)
    harness.conductor.reset_server_state(ADMIN, instance_uuid=uuid, vm_state="active")
    harness.acted(uuid, "stop")
    assert harness.state(uuid) == "stopped/None on a"


def test_what_builds_or_goes_is_not_reset(harness: ConductorHarness) -> None:
    (building,) = harness.create()
    going = harness.active()
    harness.delete(going)
    for uuid in (building, going):
        before = harness.state(uuid)
        with pytest.raises(errors.Conflict, match="Cannot reset the state of instance"):
            harness.conductor.reset_server_state(ADMIN, instance_uuid=uuid, vm_state="error")
        assert harness.state(uuid) == before
    with pytest.raises(errors.BadRequest, match="not to paused"):
        harness.conductor.reset_server_state(ADMIN, instance_uuid=building, vm_state="paused")


def test_an_unknown_server_is_not_found(harness: ConductorHarness) -> None:
    unknown = "0c8a5f7e-4c1e-4b8e-9d0a-3a1f2b3c4d5e"
    with pytest.raises(errors.NotFound):
        harness.conductor.update_server(ADMIN, instance_uuid=unknown, changes=ServerChanges(name="x"))
    with pytest.raises(errors.NotFound):
        harness.conductor.reset_server_state(ADMIN, instance_uuid=unknown, vm_state="error")


def tags_of(harness: ConductorHarness, uuid: str) -> tuple[str, ...]:
    with harness.db.read() as session:
        return tuple(tags.of_instances(session, [uuid]).get(uuid, ()))


def test_tags_are_added_removed_and_replaced(harness: ConductorHarness) -> None:
    uuid = harness.active()
    for changes, after in (
        ({"add_tag": "b"}, ("b",)),
        ({"add_tag": "a"}, ("a", "b")),
        ({"add_tag": "a"}, ("a", "b")),
        ({"remove_tag": "b"}, ("a",)),
        ({"tags": ("c", "d")}, ("c", "d")),
        ({"tags": ()}, ()),
    ):
        change(harness, uuid, **changes)
        assert tags_of(harness, uuid) == after
    with pytest.raises(errors.NotFound, match="has no tag 'x'"):
        change(harness, uuid, remove_tag="x")


def test_a_server_has_at_most_fifty_tags(harness: ConductorHarness) -> None:
    uuid = harness.active()
    fifty = tuple(f"{number:02}" for number in range(50))
    change(harness, uuid, tags=fifty)
    with pytest.raises(errors.BadRequest, match="exceeded the per-server limit 50"):
        change(harness, uuid, add_tag="more")
    with pytest.raises(errors.BadRequest):
        change(harness, uuid, tags=(*fifty, "more"))
    assert tags_of(harness, uuid) == fifty


def test_tags_need_a_server_that_is_there_and_the_same_tags_change_nothing(harness: ConductorHarness) -> None:
    uuid = harness.active()
    change(harness, uuid, add_tag="a")
    before = harness.instance(uuid).updated_at
    harness.now += 10
    change(harness, uuid, add_tag="a")
    change(harness, uuid, tags=("a",))
    assert harness.instance(uuid).updated_at == before
    change(harness, uuid, add_tag="b")
    assert harness.instance(uuid).updated_at != before
    harness.bring_to(uuid, VmState.ERROR)
    with pytest.raises(errors.Conflict, match="while it is in vm_state error"):
        change(harness, uuid, remove_tag="a")


def test_descriptions_host_names_and_disk_configs(harness: ConductorHarness) -> None:
    uuid = harness.active()
    change(harness, uuid, description="first", hostname="one")
    change(harness, uuid, name="other", disk_config="AUTO")
    row = harness.instance(uuid)
    assert (row.description, row.hostname) == ("first", "one")
    with_auto = row.system_metadata
    change(harness, uuid, description=None)
    assert (harness.instance(uuid).description, harness.instance(uuid).system_metadata) == (None, with_auto)
    change(harness, uuid, disk_config="MANUAL")
    assert harness.instance(uuid).system_metadata != with_auto


def test_a_server_is_pinned_to_the_zone_of_its_host_alone(harness: ConductorHarness) -> None:
    aggregate = harness.conductor.create_aggregate(CTX, name="n", metadata={"availability_zone": "north"})
    harness.conductor.add_host_to_aggregate(CTX, aggregate_id=aggregate.id, host="a")
    (nowhere,) = harness.create()
    for uuid, zone in ((harness.active("a"), "north"), (on_host_b(harness), "nova"), (nowhere, "nova")):
        with pytest.raises(errors.Conflict, match=f"current availability zone '{zone}', but 'south' was requested"):
            change(harness, uuid, pinned_zone="south")
        change(harness, uuid, pinned_zone=zone)
        assert harness.instance(uuid).availability_zone == zone
        change(harness, uuid, pinned_zone=zone)
        with pytest.raises(errors.Conflict, match="Unpin first"):
            change(harness, uuid, pinned_zone="south")
        change(harness, uuid, pinned_zone=None)
        assert harness.instance(uuid).availability_zone is None


def on_host_b(harness: ConductorHarness) -> str:
    harness.scheduler.order = ["b", "a"]
    return harness.active("b")


def test_an_administrators_lock_replaces_that_of_the_owner(harness: ConductorHarness) -> None:
    uuid = harness.active()
    change(harness, uuid, lock=True, locked_reason="mine")
    assert (harness.instance(uuid).locked_by, harness.instance(uuid).locked_reason) == ("owner", "mine")
    change(harness, uuid, lock=True, locked_reason="again")
    assert harness.instance(uuid).locked_reason == "mine"
    change(harness, uuid, ADMIN, lock=True, locked_reason="audit")
    assert (harness.instance(uuid).locked_by, harness.instance(uuid).locked_reason) == ("admin", "audit")
    change(harness, uuid, ADMIN, lock=False, locked_reason="over")
    assert (harness.instance(uuid).locked_by, harness.instance(uuid).locked_reason) == (None, None)


def test_metadata_above_a_lowered_quota_may_be_replaced_and_removed(harness: ConductorHarness) -> None:
    uuid = harness.active()
    change(harness, uuid, metadata={"a": "1", "b": "2", "c": "3"})
    set_items = partial(
        harness.conductor.update_quota_set, ADMIN, project_id=harness.instance(uuid).project_id, force=True
    )
    set_items(limits={"metadata_items": 1})
    change(harness, uuid, metadata={"a": "other"})
    change(harness, uuid, metadata={"a": None})
    assert harness.instance(uuid).metadata_ == {"b": "2", "c": "3"}
    with pytest.raises(errors.Forbidden):
        change(harness, uuid, metadata={"d": "4"})
    set_items(limits={"metadata_items": -1})
    change(harness, uuid, metadata={"d": "4"})


def test_an_unknown_state_is_shown_with_at_most_64_characters(harness: ConductorHarness) -> None:
    with pytest.raises(errors.BadRequest, match=r"not to x{64}\.$"):
        harness.conductor.reset_server_state(ADMIN, instance_uuid=harness.active(), vm_state="x" * 65)


def test_what_is_shelved_away_or_has_no_host_is_not_reset_to_active(harness: ConductorHarness) -> None:
    shelved = harness.active()
    harness.acted(shelved, "shelve")
    harness.acted(shelved, "shelve_offload")
    with pytest.raises(errors.Conflict, match="it is shelved, and can be unshelved"):
        harness.conductor.reset_server_state(ADMIN, instance_uuid=shelved, vm_state="error")
    (failed,) = harness.create()
    harness.fail("a", failed, retriable=False)
    with pytest.raises(errors.Conflict, match="to active: it has no host"):
        harness.conductor.reset_server_state(ADMIN, instance_uuid=failed, vm_state="active")
    harness.conductor.reset_server_state(ADMIN, instance_uuid=failed, vm_state="error")
    assert harness.state(failed) == "error/None on None"
