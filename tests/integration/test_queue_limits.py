"""What the queues of hosts hold, on a real RabbitMQ."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import amqp
import pytest
import requests

from minova.cmd import manage
from minova.cmd.commands.broker import POLICIES
from minova.context import service_context
from minova.contracts.compute import ComputeApi
from minova.messaging import broker_connection
from minova.messaging.dispatch import Implementation
from minova.messaging.rpc import Rpc
from tests.cluster import configure
from tests.nightly import daily
from tests.servers.authority import Authority
from tests.servers.rabbitmq import SecureRabbitMQ
from tests.waiting import wait_for

pytestmark = pytest.mark.timeout(300)

HOST = "hv"
QUEUE = f"compute.{HOST}"
LIMIT = 10_000


@pytest.fixture(scope="module")
def broker(authority: Authority) -> Iterator[SecureRabbitMQ]:
    with SecureRabbitMQ(authority) as server:
        yield server


class Queues:
    """A host that has listened once, and is off."""

    def __init__(self, folder: Path, broker: SecureRabbitMQ, quorum: bool) -> None:
        url = broker.fresh_url()
        self.vhost = url.rpartition("/")[2]
        self._queue = f"{broker.management_url}/api/queues/{self.vhost}/{QUEUE}"
        conf = configure(folder)
        self.rpc = Rpc(conf, url)
        conf.set_override("rabbit_quorum_queue", quorum, "oslo_messaging_rabbit")
        server = self.rpc.server(ComputeApi, Implementation(parts=(_Nothing(),)), host=HOST)
        server.start()
        server.stop()
        server.wait()
        self.compute = self.rpc.client(ComputeApi, server=HOST)

    def length(self) -> int:
        """Returns -1 while the management API does not know it."""
        return int(requests.get(self._queue, timeout=30).json().get("messages", -1))

    def definition(self) -> Any:
        """Returns what the policies say of the queue."""
        show = lambda: requests.get(self._queue, timeout=30).json().get("effective_policy_definition")  # noqa: E731
        return wait_for("the policy is in force", show)


class _Nothing:
    def __getattr__(self, name: str) -> object:
        return lambda *_, **__: None


@pytest.fixture(params=daily([False, True], (True,), "quorum queues are the default"), ids=["classic", "quorum"])
def queues(tmp_path: Path, broker: SecureRabbitMQ, request: pytest.FixtureRequest) -> Iterator[Queues]:
    queues = Queues(tmp_path, broker, request.param)
    yield queues
    queues.rpc.close()


def test_messages_to_a_host_that_stays_off_expire(queues: Queues, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_connection, "CAST_LIFETIME", 5.0)
    for _ in range(200):
        queues.compute.refresh_interfaces(service_context())
    wait_for("the queue is empty again", lambda: queues.length() == 0)


def test_policies_limit_queues_that_exist_already(queues: Queues, broker: SecureRabbitMQ, tmp_path: Path) -> None:
    file = tmp_path / "manage.conf"
    file.write_text("")
    words = ["broker", "policies", "--vhost", queues.vhost, "--apply", broker.management_url]
    assert manage.run(["--config-file", str(file), *words]) == 0
    assert queues.definition() == POLICIES[0].definition
    with amqp.Connection(
        f"127.0.0.1:{broker.ports[0]}", "guest", "guest", virtual_host=queues.vhost, confirm_publish=False
    ) as connection:
        channel = connection.channel()
        for _ in range(LIMIT + 100):
            channel.basic_publish(amqp.Message("{}"), routing_key=QUEUE)

        def is_full() -> bool:
            # A quorum queue that gets its policy late looks at its length with the next message.
            channel.basic_publish(amqp.Message("{}"), routing_key=QUEUE)
            return queues.length() == LIMIT

        wait_for("the queue is full", is_full)
