"""What is told of instances, by whom and when: as Nova's unversioned notifications, after the commit."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from oslo_messaging.notify import _impl_test

from minova.conductor.servers.finish import fail_builds
from minova.db import models
from minova.db.servers import instances, tasks
from minova.messaging.notifier import Notifier
from minova.objects.actions.action import ServerAction
from minova.objects.actions.table import RUN_BY_HOSTS
from minova.objects.requests.build_extras import GuestFile
from minova.objects.requests.evacuation import EvacuationRequest
from minova.objects.servers.failures import Failure
from tests.functional.conductor.conductor_harness import CTX, IMAGE, ConductorHarness, new_request
from tests.functional.scheduler.cloud import named
from tests.servers.private_server import free_ports
from tests.tables import make_tables
from tests.unit.messaging.test_notifier import conf_of

Open = Callable[..., ConductorHarness]


@pytest.fixture
def open_harness(tmp_path: Path) -> Iterator[Open]:
    _impl_test.reset()
    harnesses: list[ConductorHarness] = []

    def work(driver: str = "test", **options: Any) -> ConductorHarness:
        url = f"sqlite:///{tmp_path}/minova.sqlite"
        make_tables(url)
        harnesses.append(ConductorHarness(url, notifier=Notifier(conf_of([driver])), **options))
        return harnesses[0]

    yield work
    for harness in harnesses:
        harness.close()
    _impl_test.reset()


def sent_notifications(harness: ConductorHarness) -> list[dict[str, Any]]:
    """All of them, once they are sent."""
    assert harness.notifier is not None
    harness.notifier.stop()
    return [message for _, message, _, _ in _impl_test.NOTIFICATIONS]


def names(harness: ConductorHarness) -> list[tuple[str, str]]:
    return [(m["publisher_id"], m["event_type"].removeprefix("compute.instance.")) for m in sent_notifications(harness)]


# -- which, and by whom ------------------------------------------------------------------------------------------------


def test_by_default_nothing_is_observed(open_harness: Open) -> None:
    harness = open_harness("noop")
    harness.active()
    assert harness.conductor.worker._observe is None
    assert sent_notifications(harness) == []


def test_a_build_that_goes_well(open_harness: Open) -> None:
    harness = open_harness()
    harness.active()
    assert names(harness) == [("compute.a", "create.start"), ("compute.a", "create.end")]


@pytest.mark.parametrize("is_well", [True, False])
def test_an_evacuation(open_harness: Open, is_well: bool) -> None:
    harness = open_harness()
    uuid = harness.active("a")
    harness.force_down("a")
    harness.scheduler.order = ["b"]
    harness.conductor.evacuate_server(new_request(), instance_uuid=uuid, request=EvacuationRequest())
    harness.settle()
    if is_well:
        harness.build("b", uuid, attempt=2)
        assert harness.state(uuid) == "active/None on b"
    else:
        harness.claim("b", uuid, attempt=2)
        harness.conductor.begin_attempt(CTX, instance_uuid=uuid, attempt=2, host="b", step="spawning")
        harness.fail("b", uuid, attempt=2, retriable=False)
        assert harness.state(uuid) == "active/None on a"
    end = "rebuild.end" if is_well else "rebuild.error"
    assert [name for _, name in names(harness)][2:] == ["evacuate", "rebuild.start", end]


def test_no_secret_of_a_server_is_told(open_harness: Open) -> None:
    """CVE-2017-7214: also not when the build fails, nor a token that was sent with it."""
    harness = open_harness()
    secrets: dict[str, Any] = {
        "admin_password": "PASSWORD-x",
        "user_data": "DATA-x",
        "injected_files": (GuestFile(path="FILE-x"),),
    }
    for number in range(2):
        (uuid,) = harness.create(**secrets)
        build = harness.hosts["a"].builds[number]
        if number:
            harness.fail("a", uuid, retriable=False)
        else:
            harness.build("a", uuid)
        assert build.image_token is not None
    told = str(sent_notifications(harness))
    assert "create.error" in told
    for secret in ("PASSWORD-x", "DATA-x", "FILE-x", str(build.image_token), "is_admin"):
        assert secret not in told


@pytest.mark.parametrize("action", RUN_BY_HOSTS, ids=lambda action: action.kind)
def test_a_server_action_that_goes_well(open_harness: Open, action: ServerAction) -> None:
    harness = open_harness()
    uuid = harness.active()
    harness.bring_to(uuid, min(action.vm_states))
    harness.acted(uuid, action.kind)
    told = [("compute.a", f"{action.notification}.{phase}") for phase in ("start", "end")]
    # Nova tells of interfaces in versioned notifications alone.
    is_told = bool(action.notification) and not action.exclusive
    assert names(harness)[-2:] == (told if is_told else [("compute.a", "create.start"), ("compute.a", "create.end")])


def test_a_server_that_is_shelved_and_unshelved(open_harness: Open) -> None:
    harness = open_harness(shelved_offload_time=0)
    uuid = harness.active()
    harness.acted(uuid, "shelve")
    harness.conductor.action_succeeded(
        CTX, instance_uuid=uuid, action_id=harness.action_id(uuid), host="a", power_state=4
    )
    with harness.db.write() as session:
        image = session.get_one(models.Image, harness.instance(uuid).shelved_image_id)
        image.value = msgspec.structs.replace(image.value, status="active")
    harness.scheduler.order = ["b", "c"]
    harness.conductor.start_action(new_request(), instance_uuid=uuid, action="unshelve")
    harness.settle()
    harness.fail("b", uuid, attempt=2)
    harness.build("c", uuid, attempt=3)
    assert names(harness)[2:] == [
        ("compute.a", "shelve.start"),
        ("compute.a", "shelve.end"),
        ("compute.a", "shelve_offload.start"),
        ("compute.a", "shelve_offload.end"),
        ("conductor.one", "unshelve.start"),
        ("compute.c", "unshelve.end"),
    ]


def test_a_server_action_that_fails_has_no_end(open_harness: Open) -> None:
    harness = open_harness()
    uuid = harness.active()
    action_id = harness.act(uuid, "stop")
    harness.conductor.begin_action(CTX, instance_uuid=uuid, action_id=action_id, host="a")
    harness.conductor.action_failed(CTX, instance_uuid=uuid, action_id=action_id, host="a", reason="libvirt is away")
    assert "power_off.end" not in [event for _, event in names(harness)]


def test_a_build_that_fails_and_succeeds_on_the_next_alternate(open_harness: Open) -> None:
    harness = open_harness()
    (uuid,) = harness.create()
    harness.claim("a", uuid)
    harness.fail("a", uuid)
    harness.build("b", uuid, attempt=2)
    assert names(harness) == [
        ("compute.a", "create.start"),
        ("compute.a", "create.error"),
        ("compute.b", "create.start"),
        ("compute.b", "create.end"),
    ]


def test_a_build_that_fails_for_good(open_harness: Open) -> None:
    harness = open_harness()
    (uuid,) = harness.create()
    harness.fail("a", uuid, reason="the image is corrupt", retriable=False)
    assert names(harness) == [
        ("compute.a", "create.start"),
        ("compute.a", "create.error"),
        ("compute_task.one", "compute_task.build_instances"),
    ]


def test_no_host_for_it(open_harness: Open) -> None:
    harness = open_harness()
    harness.scheduler.order = []
    harness.create(2)
    assert names(harness) == [("compute_task.one", "compute_task.build_instances")] * 2


def test_a_deletion(open_harness: Open) -> None:
    harness = open_harness()
    uuid = harness.active()
    harness.delete(uuid)
    harness.delete(uuid)
    harness.conductor.instance_deleted(CTX, instance_uuid=uuid, host="a")
    harness.conductor.instance_deleted(CTX, instance_uuid=uuid, host="a")
    assert names(harness)[2:] == [("compute.a", "delete.start"), ("compute.a", "delete.end")]


def test_a_deletion_without_a_host_is_told_too(open_harness: Open) -> None:
    harness = open_harness()
    harness.scheduler.order = []
    (uuid,) = harness.create()
    harness.delete(uuid)
    assert names(harness)[1:] == [("conductor.one", "delete.start"), ("conductor.one", "delete.end")]


def test_what_is_said_twice_is_told_once(open_harness: Open) -> None:
    harness = open_harness()
    uuid = harness.active()
    harness.succeed("a", uuid)
    harness.fail("a", uuid)
    assert len(sent_notifications(harness)) == 2


def test_what_is_not_committed_is_not_told(open_harness: Open) -> None:
    harness = open_harness()
    (uuid,) = harness.create()
    before = harness.state(uuid)

    def work(session: Any) -> None:
        standings, held = instances.lock(session, [uuid]), tasks.lock(session, [uuid])
        fail_builds(
            session,
            standings,
            list(held.values()),
            Failure(kind="K", details="m"),
            harness.conductor.worker.at(),
            harness.db.now(),
            harness.conductor.collaborators.terminate._hints,
        )
        raise RuntimeError("The process ends here")

    with pytest.raises(RuntimeError):
        harness.conductor.worker.run(work)
    assert harness.state(uuid) == before
    assert names(harness) == [("compute.a", "create.start")]


def test_builds_go_on_while_the_broker_is_away(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (port,) = free_ports(1)
    conf = conf_of(["messagingv2"], url=f"rabbit://127.0.0.1:{port}")
    conf.set_override("retry", 0, group="oslo_messaging_notifications")
    make_tables(f"sqlite:///{tmp_path}/minova.sqlite")
    harness = ConductorHarness(f"sqlite:///{tmp_path}/minova.sqlite", notifier=Notifier(conf))
    try:
        uuid = harness.active()
        assert harness.state(uuid) == "active/None on a"
    finally:
        harness.conductor.stop()
        harness.close()
    assert "Could not send notification" in caplog.text


@pytest.mark.parametrize(
    ("option", "states"),
    [
        (None, []),
        (
            "vm_state",
            ["None/None building/scheduling", "building/spawning active/None", "active/deleting deleted/None"],
        ),
        (
            "vm_and_task_state",
            [
                "None/None building/scheduling",
                "building/scheduling building/block_device_mapping",
                "building/block_device_mapping building/spawning",
                "building/spawning active/None",
                "active/None active/deleting",
                "active/deleting deleted/None",
            ],
        ),
    ],
)
def test_changes_of_state_are_told_as_notify_on_state_change_says(
    open_harness: Open, option: str | None, states: list[str]
) -> None:
    harness = open_harness(notifications__notify_on_state_change=option)
    uuid = harness.active()
    harness.delete(uuid)
    harness.conductor.instance_deleted(CTX, instance_uuid=uuid, host="a")
    updates = [m["payload"] for m in sent_notifications(harness) if m["event_type"] == "compute.instance.update"]
    assert [f"{p['old_state']}/{p['old_task_state']} {p['state']}/{p['new_task_state']}" for p in updates] == states


# -- what they say -----------------------------------------------------------------------------------------------------


def test_they_say_what_novas_say(open_harness: Open) -> None:
    harness = open_harness(notifications__notify_on_state_change="vm_state")
    (uuid,) = harness.create(1, metadata={"k": "v"})
    harness.build("a", uuid)
    by_name = {m["event_type"]: m for m in sent_notifications(harness)}
    start, end = by_name["compute.instance.create.start"], by_name["compute.instance.create.end"]
    assert (start["payload"]["image_name"], start["payload"]["host"], start["payload"]["state"]) == (
        "guest",
        None,
        "building",
    )
    payload = end["payload"]
    expected = {
        "tenant_id": "demo",
        "user_id": "alice",
        "instance_id": uuid,
        "instance_type": "m1",
        "instance_flavor_id": "1",
        "memory_mb": 512,
        "vcpus": 1,
        "disk_gb": 1,
        "root_gb": 1,
        "ephemeral_gb": 0,
        "host": "a",
        "node": "a-node",
        "state": "active",
        "state_description": "",
        "metadata": {"k": "v"},
        "message": "Success",
        "os_type": "linux",
        "created_at": "2023-11-14 22:13:20+00:00",
        "launched_at": "2023-11-14T22:13:20.000000",
        "deleted_at": "",
        "image_ref_url": f"http://127.0.0.1:8774/images/{named('image')}",
    }
    assert {name: payload[name] for name in expected} == expected
    assert payload["image_meta"] == {
        **IMAGE.properties,
        "base_image_ref": named("image"),
        "disk_format": "raw",
        "min_ram": "0",
        "min_disk": "0",
    }
    update = by_name["compute.instance.update"]["payload"]
    assert (update["audit_period_beginning"], update["audit_period_ending"]) == (
        "2023-11-01T00:00:00.000000",
        "2023-11-14T22:13:20.000000",
    )


def test_an_error_has_its_reason_and_priority(open_harness: Open) -> None:
    harness = open_harness()
    (uuid,) = harness.create()
    harness.fail("a", uuid, reason="disk broken", retriable=False)
    error, failed = [m for m in sent_notifications(harness) if m["priority"] == "ERROR"]
    assert {name: error["payload"][name] for name in ("message", "code", "instance_id")} == {
        "message": "disk broken",
        "code": 500,
        "instance_id": uuid,
    }
    assert failed["payload"]["instance_id"] == failed["payload"]["instance_properties"]["uuid"] == uuid
    assert (failed["payload"]["state"], failed["payload"]["reason"]) == ("error", "a: disk broken")
    assert failed["payload"]["request_spec"]["instance_type"]["name"] == "m1"
