"""What is told of instances, by whom and when: as Nova's unversioned notifications, after the commit."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from oslo_messaging.notify import _impl_test

from minova.conductor.servers.finish import fail_builds
from minova.db.servers import instances, tasks
from minova.notifier import Notifier
from tests.functional.conductor.desk import CTX, IMAGE, Desk
from tests.functional.scheduler.cloud import named
from tests.servers.private_server import free_ports
from tests.tables import make_tables
from tests.unit.test_notifier import conf_of

Open = Callable[..., Desk]


@pytest.fixture
def open_desk(tmp_path: Path) -> Iterator[Open]:
    _impl_test.reset()
    made: list[Desk] = []

    def work(driver: str = "test", **options: Any) -> Desk:
        url = f"sqlite:///{tmp_path}/minova.sqlite"
        make_tables(url)
        made.append(Desk(url, notifier=Notifier(conf_of([driver])), **options))
        return made[0]

    yield work
    for desk in made:
        desk.close()
    _impl_test.reset()


def told(desk: Desk) -> list[dict[str, Any]]:
    """All of them, once they are sent."""
    assert desk.notifier is not None
    desk.notifier.stop()
    return [message for _, message, _, _ in _impl_test.NOTIFICATIONS]


def names(desk: Desk) -> list[tuple[str, str]]:
    return [(m["publisher_id"], m["event_type"].removeprefix("compute.instance.")) for m in told(desk)]


# -- which, and by whom ------------------------------------------------------------------------------------------------


def test_by_default_nothing_is_observed(open_desk: Open) -> None:
    desk = open_desk("noop")
    desk.active()
    assert desk.conductor.worker._observe is None
    assert told(desk) == []


def test_a_build_that_goes_well(open_desk: Open) -> None:
    desk = open_desk()
    desk.active()
    assert names(desk) == [("compute.a", "create.start"), ("compute.a", "create.end")]


def test_a_build_that_fails_and_succeeds_on_the_next_alternate(open_desk: Open) -> None:
    desk = open_desk()
    (uuid,) = desk.create()
    desk.claim("a", uuid)
    desk.fail("a", uuid)
    desk.build("b", uuid, attempt=2)
    assert names(desk) == [
        ("compute.a", "create.start"),
        ("compute.a", "create.error"),
        ("compute.b", "create.start"),
        ("compute.b", "create.end"),
    ]


def test_a_build_that_fails_for_good(open_desk: Open) -> None:
    desk = open_desk()
    (uuid,) = desk.create()
    desk.fail("a", uuid, reason="the image is corrupt", retriable=False)
    assert names(desk) == [
        ("compute.a", "create.start"),
        ("compute.a", "create.error"),
        ("compute_task.one", "compute_task.build_instances"),
    ]


def test_no_host_for_it(open_desk: Open) -> None:
    desk = open_desk()
    desk.scheduler.order = []
    desk.create(2)
    assert names(desk) == [("compute_task.one", "compute_task.build_instances")] * 2


def test_a_deletion(open_desk: Open) -> None:
    desk = open_desk()
    uuid = desk.active()
    desk.delete(uuid)
    desk.delete(uuid)
    desk.conductor.instance_deleted(CTX, instance_uuid=uuid, host="a")
    desk.conductor.instance_deleted(CTX, instance_uuid=uuid, host="a")
    assert names(desk)[2:] == [("compute.a", "delete.start"), ("compute.a", "delete.end")]


def test_a_deletion_without_a_host_is_told_too(open_desk: Open) -> None:
    desk = open_desk()
    desk.scheduler.order = []
    (uuid,) = desk.create()
    desk.delete(uuid)
    assert names(desk)[1:] == [("conductor.one", "delete.start"), ("conductor.one", "delete.end")]


def test_what_is_said_twice_is_told_once(open_desk: Open) -> None:
    desk = open_desk()
    uuid = desk.active()
    desk.succeed("a", uuid)
    desk.fail("a", uuid)
    assert len(told(desk)) == 2


def test_what_is_not_committed_is_not_told(open_desk: Open) -> None:
    desk = open_desk()
    (uuid,) = desk.create()
    before = desk.state(uuid)

    def work(session: Any) -> None:
        standings, held = instances.lock(session, [uuid]), tasks.lock(session, [uuid])
        fail_builds(session, standings, list(held.values()), "K", "m", desk.conductor.worker.at(), desk.db.now())
        raise RuntimeError("The process ends here")

    with pytest.raises(RuntimeError):
        desk.conductor.worker.run(work)
    assert desk.state(uuid) == before
    assert names(desk) == [("compute.a", "create.start")]


def test_a_broker_that_is_away_keeps_nobody_from_building(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (port,) = free_ports(1)
    conf = conf_of(["messagingv2"], url=f"rabbit://127.0.0.1:{port}")
    conf.set_override("retry", 0, group="oslo_messaging_notifications")
    make_tables(f"sqlite:///{tmp_path}/minova.sqlite")
    desk = Desk(f"sqlite:///{tmp_path}/minova.sqlite", notifier=Notifier(conf))
    try:
        uuid = desk.active()
        assert desk.state(uuid) == "active/None on a"
    finally:
        desk.conductor.stop()
        desk.close()
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
    open_desk: Open, option: str | None, states: list[str]
) -> None:
    desk = open_desk(notifications__notify_on_state_change=option)
    uuid = desk.active()
    desk.delete(uuid)
    desk.conductor.instance_deleted(CTX, instance_uuid=uuid, host="a")
    updates = [m["payload"] for m in told(desk) if m["event_type"] == "compute.instance.update"]
    assert [f"{p['old_state']}/{p['old_task_state']} {p['state']}/{p['new_task_state']}" for p in updates] == states


# -- what they say -----------------------------------------------------------------------------------------------------


def test_they_say_what_novas_say(open_desk: Open) -> None:
    desk = open_desk(notifications__notify_on_state_change="vm_state")
    (uuid,) = desk.create(1, metadata={"k": "v"})
    desk.build("a", uuid)
    by_name = {m["event_type"]: m for m in told(desk)}
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


def test_an_error_has_its_reason_and_priority(open_desk: Open) -> None:
    desk = open_desk()
    (uuid,) = desk.create()
    desk.fail("a", uuid, reason="disk broken", retriable=False)
    error, failed = [m for m in told(desk) if m["priority"] == "ERROR"]
    assert {name: error["payload"][name] for name in ("message", "code", "instance_id")} == {
        "message": "disk broken",
        "code": 500,
        "instance_id": uuid,
    }
    assert failed["payload"]["instance_id"] == failed["payload"]["instance_properties"]["uuid"] == uuid
    assert (failed["payload"]["state"], failed["payload"]["reason"]) == ("error", "a: disk broken")
    assert failed["payload"]["request_spec"]["instance_type"]["name"] == "m1"
