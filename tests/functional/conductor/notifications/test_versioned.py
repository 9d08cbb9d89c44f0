"""Versioned notifications, compared with the samples of Nova's package: tests/conformance/notification_samples.py."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from oslo_messaging.notify import _impl_test

from minova.context import service_context
from minova.db.catalogue import key_pairs
from minova.log import bound_request
from minova.messaging.notifier import Notifier
from minova.objects.actions.action import ServerAction
from minova.objects.actions.images import CREATE_IMAGE
from minova.objects.actions.interfaces import ATTACH_INTERFACE, DETACH_INTERFACE
from minova.objects.actions.power import REBOOT_HARD, STOP
from minova.objects.actions.rescue import RESCUE
from minova.objects.actions.table import RUN_BY_HOSTS
from minova.objects.catalogue.key_pair import KeyPair
from minova.objects.requests.build_extras import RequestedNic
from minova.objects.servers.server_changes import ServerChanges
from tests.conformance.notification_samples import SAMPLES, require_payload
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness
from tests.functional.conductor.network_cases import network, subnet
from tests.tables import make_tables
from tests.unit.messaging.test_notifier import conf_of

Json = dict[str, Any]
Open = Callable[..., ConductorHarness]


@pytest.fixture
def open_harness(tmp_path: Path) -> Iterator[Open]:
    _impl_test.reset()
    harnesses: list[ConductorHarness] = []

    def work(notification_format: str = "versioned", **options: Any) -> ConductorHarness:
        url = f"sqlite:///{tmp_path}/minova.sqlite"
        make_tables(url)
        notifier = Notifier(conf_of(["test"], notification_format=notification_format))
        harnesses.append(ConductorHarness(url, notifier=notifier, **options))
        return harnesses[0]

    yield work
    for harness in harnesses:
        harness.close()
    _impl_test.reset()


def sent(harness: ConductorHarness) -> list[tuple[Json, str]]:
    """All of them once they are sent, with their priorities."""
    assert harness.notifier is not None
    harness.notifier.stop()
    return [(message, priority) for _, message, priority, _ in _impl_test.NOTIFICATIONS]


def names(harness: ConductorHarness) -> list[str]:
    return [message["event_type"] for message, _ in sent(harness)]


def data_of(harness: ConductorHarness, event_type: str) -> Json:
    """Of the only one with this type."""
    ((data),) = [
        message["payload"]["nova_object.data"] for message, _ in sent(harness) if message["event_type"] == event_type
    ]
    payload: Json = data
    return payload


def require_as_the_samples(messages: list[tuple[Json, str]]) -> None:
    for message, priority in messages:
        sample = SAMPLES["events"][message["event_type"]]
        service = message["publisher_id"].partition(":")[0]
        assert priority == sample["priority"]
        # In Nova the API locks servers; here the conductor does, and speaks for the host. A server without a host has no compute.
        host = message["payload"]["nova_object.data"].get("host")
        assert service in {sample["source"], "nova-compute" if host is not None else "nova-conductor"}
        assert message["payload"]["nova_object.name"] == sample["payload"]
        require_payload(message["payload"])


def test_a_life_of_a_server_is_as_in_the_samples(open_harness: Open) -> None:
    harness = open_harness(notifications__notify_on_state_change="vm_state")
    blue = network(harness)
    subnet(harness, blue, "10.1.0.0/24")
    key_pair = KeyPair(name="mine", user_id="alice", public_key="ssh-ed25519 AAAA", fingerprint="aa:bb")
    harness.db.run(lambda session: key_pairs.add(session, key_pair, 10, harness.conductor.worker.at()))
    (uuid,) = harness.create(
        key_name="mine",
        requested_networks=(RequestedNic(network_id=blue.id),),
        tags=("red",),
        metadata={"role": "web"},
        description="first",
    )
    with bound_request(service_context(CTX.request_id)):  # as what a host reports
        harness.build("a", uuid)
    harness.conductor.update_server(CTX, instance_uuid=uuid, changes=ServerChanges(lock=True, locked_reason="backup"))
    harness.conductor.update_server(CTX, instance_uuid=uuid, changes=ServerChanges(lock=False))
    harness.delete(uuid)
    harness.conductor.instance_deleted(CTX, instance_uuid=uuid, host="a")
    messages = sent(harness)
    require_as_the_samples(messages)
    assert [message["event_type"] for message, _ in messages if "update" not in message["event_type"]] == [
        "instance.create.start",
        "instance.create.end",
        "instance.lock",
        "instance.unlock",
        "instance.delete.start",
        "instance.delete.end",
    ]
    payload = data_of(harness, "instance.create.end")
    (address,), (key,) = payload["ip_addresses"], payload["keypairs"]
    assert (address["nova_object.data"]["address"], address["nova_object.data"]["label"]) == ("10.1.0.2", blue.name)
    assert key["nova_object.data"]["fingerprint"] == "aa:bb"
    assert (payload["tags"], payload["metadata"], payload["display_description"]) == (["red"], {"role": "web"}, "first")
    assert (payload["state"], payload["host"], payload["request_id"]) == ("active", "a", CTX.request_id)
    assert (payload["action_initiator_user"], payload["action_initiator_project"]) == ("alice", "demo")
    locked = data_of(harness, "instance.lock")
    assert (locked["locked"], locked["locked_reason"]) == (True, "backup")


@pytest.mark.parametrize("action", RUN_BY_HOSTS, ids=lambda action: action.kind)
def test_each_server_action_is_as_in_the_samples(open_harness: Open, action: ServerAction) -> None:
    harness = open_harness()
    uuid = harness.active()
    harness.bring_to(uuid, min(action.vm_states))
    harness.acted(uuid, action.kind)
    messages = sent(harness)
    require_as_the_samples(messages)
    if action.notification:
        assert names(harness)[-2:] == [f"instance.{action.notification}.{phase}" for phase in ("start", "end")]
    else:
        assert names(harness) == ["instance.create.start", "instance.create.end"]
    if action in (CREATE_IMAGE, RESCUE):
        field = "snapshot_image_id" if action is CREATE_IMAGE else "rescue_image_ref"
        start, end = (message["payload"]["nova_object.data"][field] for message, _ in messages[-2:])
        assert start == end
        assert start


def test_a_failed_action_is_an_error_where_nova_has_one(open_harness: Open) -> None:
    harness = open_harness()
    uuid = harness.active()
    for action in (STOP, REBOOT_HARD, ATTACH_INTERFACE, DETACH_INTERFACE):
        action_id = harness.act(uuid, action.kind)
        harness.conductor.begin_action(CTX, instance_uuid=uuid, action_id=action_id, host="a")
        harness.conductor.action_failed(
            CTX, instance_uuid=uuid, action_id=action_id, host="a", reason="libvirt is away", power_state=1
        )
    messages = sent(harness)
    require_as_the_samples(messages)
    assert [name for name in names(harness) if name.endswith(".error")] == [
        "instance.reboot.error",
        "instance.interface_attach.error",
    ]
    fault = data_of(harness, "instance.reboot.error")["fault"]["nova_object.data"]
    assert "libvirt is away" in fault["exception_message"]


def test_builds_that_fail_are_as_in_the_samples(open_harness: Open) -> None:
    harness = open_harness()
    (uuid,) = harness.create()
    harness.fail("a", uuid, reason="the image is corrupt", retriable=False)
    messages = sent(harness)
    require_as_the_samples(messages)
    assert names(harness) == [
        "instance.create.start",
        "instance.create.error",
        "compute_task.build_instances.error",
    ]
    ended = data_of(harness, "compute_task.build_instances.error")
    assert (ended["instance_uuid"], ended["state"]) == (uuid, "error")


def test_both_kinds_are_sent_side_by_side(open_harness: Open) -> None:
    harness = open_harness("both")
    harness.active()
    assert names(harness) == [
        "compute.instance.create.start",
        "instance.create.start",
        "compute.instance.create.end",
        "instance.create.end",
    ]
