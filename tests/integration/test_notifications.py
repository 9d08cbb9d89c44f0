"""Notifications over RabbitMQ, as a consumer of Nova's finds them: its exchange, its topics, its envelope."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import kombu
import pytest

from tests.conformance.notification_samples import require_payload
from tests.integration.deployment import Deployment
from tests.waiting import wait_for

EXPECTED = [
    "scheduler.select_destinations.start",
    "scheduler.select_destinations.end",
    "compute.instance.create.start",
    "compute.instance.create.end",
    "compute.instance.delete.start",
    "compute.instance.delete.end",
]


@pytest.fixture
def cloud(tmp_path: Path, fresh_rabbit_url: Callable[[], str]) -> Iterator[Deployment]:
    options = {
        "oslo_messaging_notifications": {"driver": "messagingv2"},
        "notifications": {"notification_format": "both"},
    }
    with Deployment(tmp_path, fresh_rabbit_url(), f"sqlite:///{tmp_path}/minova.sqlite", **options) as deployment:
        deployment.compute("hv", DEFAULT={"compute_driver": "fake"})
        deployment.manage("db", "upgrade")
        deployment.start()
        deployment.wait_up()
        yield deployment


class Consumer:
    """Takes what stands in one queue."""

    def __init__(self, transport_url: str, queue: str) -> None:
        self._url = transport_url.replace("rabbit://", "amqp://")
        self._queue = queue
        self.messages: list[dict[str, Any]] = []

    def __call__(self) -> list[dict[str, Any]]:
        broker: Any = kombu  # which has no types
        with broker.Connection(self._url) as connection:
            exchange = broker.Exchange("nova", "topic", durable=False)
            queue = broker.Queue(self._queue, exchange, self._queue, durable=False)
            with connection.SimpleQueue(queue) as simple:
                while len(simple):
                    message = simple.get(timeout=5)
                    self.messages.append(json.loads(json.loads(message.body)["oslo.message"]))
                    message.ack()
        return self.messages


def test_a_server_is_told_of_from_its_request_to_its_end(cloud: Deployment, tmp_path: Path) -> None:
    disk = tmp_path / "disk.raw"
    disk.write_bytes(b"\1" * 4096)
    cloud.cli("flavor", "create", "tiny", "--ram", "128", "--disk", "1")
    cloud.cli("image", "create", "i", "--file", str(disk), "--disk-format", "raw")
    cloud.cli("server", "create", "vm", "--flavor", "tiny", "--image", "i", "--wait")
    uuid = cloud.server("vm")["id"]
    cloud.cli("server", "delete", "vm", "--wait")
    consumer = Consumer(cloud.transport_url, "notifications.info")
    try:
        messages = wait_for("six notifications", lambda: len(consumer()) >= len(EXPECTED) and consumer.messages)
    except AssertionError:
        raise AssertionError(f"{consumer.messages}\n{cloud.logs()}") from None
    assert isinstance(messages, list)
    # The scheduler and the conductor each have a line of their own: only within one is there an order.
    events = [message["event_type"] for message in messages]
    assert sorted(events, key=lambda event: event.startswith("compute")) == EXPECTED
    ended = next(m for m in messages if m["event_type"] == "compute.instance.create.end")
    assert (ended["publisher_id"], ended["priority"]) == ("compute.hv", "INFO")
    assert ended["payload"]["instance_id"] == uuid
    assert ended["_context_request_id"].startswith("req-")
    versioned = Consumer(cloud.transport_url, "versioned_notifications.info")
    try:
        wait_for("as many versioned ones", lambda: len(versioned()) >= len(EXPECTED))
    except AssertionError:
        raise AssertionError(f"{versioned.messages}\n{cloud.logs()}") from None
    names = sorted(message["event_type"] for message in versioned.messages)
    assert names == sorted(event.removeprefix("compute.") for event in EXPECTED)
    for message in versioned.messages:
        require_payload(message["payload"])
