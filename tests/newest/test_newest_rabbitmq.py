"""The newest RabbitMQ: 4 has no transient queues that are not exclusive and no mirrored queues. $MINOVA_NEWEST_RABBITMQ is the folder in
which tools/newest-rabbitmq has unpacked it.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import amqp
import pytest

from minova.context import service_context
from minova.contracts.compute import ComputeApi
from minova.messaging.dispatch import Implementation
from minova.messaging.notifier import Notice, Notifier
from minova.messaging.rpc import Rpc
from tests.cluster import configure
from tests.integration.deployment import Deployment
from tests.servers.rabbitmq import NewestRabbitMQ
from tests.soak.logs import tracebacks
from tests.waiting import wait_for

pytestmark = pytest.mark.timeout(600)

HOST = "hv"


@pytest.fixture(scope="module")
def broker() -> Iterator[NewestRabbitMQ]:
    with NewestRabbitMQ(Path(os.environ["MINOVA_NEWEST_RABBITMQ"])) as server:
        yield server


def queues(broker: NewestRabbitMQ, url: str) -> dict[str, tuple[str, bool]]:
    """Returns type and durability by name."""
    words = ("-p", url.rpartition("/")[2], "--no-table-headers", "name", "type", "durable")
    lines = broker.ctl("list_queues", *words).splitlines()
    return {name: (kind, durable == "true") for name, kind, durable in (line.split("\t") for line in lines)}


def connection_to(broker: NewestRabbitMQ, url: str) -> amqp.Connection:
    vhost = url.rpartition("/")[2]
    connection = amqp.Connection(f"127.0.0.1:{broker.ports[0]}", "guest", "guest", virtual_host=vhost)
    connection.connect()
    return connection


def test_a_cloud_declares_no_transient_queue(
    broker: NewestRabbitMQ, tmp_path: Path, fresh_postgresql_url: Callable[[], str]
) -> None:
    assert broker.ctl("version").startswith("4.")
    url = broker.fresh_url()
    with connection_to(broker, url) as connection, pytest.raises(amqp.AMQPError):
        connection.channel().queue_declare("transient", durable=False, exclusive=False, auto_delete=False)
    notify = {"driver": "messagingv2"}
    with Deployment(tmp_path, url, fresh_postgresql_url(), oslo_messaging_notifications=notify) as cloud:
        cloud.compute(HOST, DEFAULT={"compute_driver": "fake"})
        cloud.manage("db", "upgrade")
        cloud.start()
        cloud.wait_up()
        disk = tmp_path / "disk.raw"
        disk.write_bytes(b"\1" * 4096)
        cloud.cli("flavor", "create", "tiny", "--ram", "128", "--disk", "1")
        cloud.cli("image", "create", "i", "--file", str(disk), "--disk-format", "raw")
        cloud.cli("server", "create", "vm", "--flavor", "tiny", "--image", "i", "--wait")
        queue_durability = queues(broker, url)
        assert all(durable for _, durable in queue_durability.values()), queue_durability
        requests = {name for name in queue_durability if not name.startswith("reply_")}
        assert requests >= {
            "conductor",
            "conductor_api",
            "scheduler",
            f"compute.{HOST}",
            "notifications.info",
        }
        assert {queue_durability[name][0] for name in requests} == {"quorum"}
        assert "fanout" not in str(queue_durability)
        with broker.alarm():
            output = cloud.cli("flavor", "create", "more", "--ram", "128", "--disk", "1", check=False)
            assert "takes no messages" in output, output
            assert cloud.server("vm")["status"] == "ACTIVE"
        words = ("flavor", "create", "later", "--ram", "128", "--disk", "1")
        wait_for("messages are taken", lambda: "takes no messages" not in cloud.cli(*words, check=False))
        cloud.cli("server", "delete", "vm", "--wait")
        for name, service in cloud.services.items():
            assert [logged for logged in tracebacks(service.log) if logged.level != "DEBUG"] == [], name


class _Nothing:
    def __getattr__(self, name: str) -> object:
        return lambda *_, **__: "answer"


def test_queues_of_an_earlier_declaration_are_used_as_they_are(broker: NewestRabbitMQ, tmp_path: Path) -> None:
    """Such as classic queues, durable or not, that were declared before the broker was upgraded."""
    url = broker.fresh_url()
    with connection_to(broker, url) as connection:
        channel = connection.channel()
        channel.exchange_declare("minova", "topic", durable=False, auto_delete=False)
        channel.queue_declare(f"compute.{HOST}", durable=True, auto_delete=False)
        rpc = Rpc(configure(tmp_path), url)
        server = rpc.server(ComputeApi, Implementation(parts=(_Nothing(),)), host=HOST)
        server.start()
        try:
            compute = rpc.client(ComputeApi, server=HOST, timeout=30)
            for _ in range(3):
                answer = compute.get_console_output(service_context(), instance_uuid="1", tail_length=None)
                assert answer == "answer"
            assert queues(broker, url)[f"compute.{HOST}"] == ("classic", True)
            assert queues(broker, url)["compute"] == ("quorum", True)
        finally:
            server.stop()
            server.wait()
            rpc.close()


def test_notifications_reach_a_queue_that_its_reader_has_declared(broker: NewestRabbitMQ, tmp_path: Path) -> None:
    url = broker.fresh_url()
    file = tmp_path / "notifications.conf"
    file.write_text(f"[DEFAULT]\ntransport_url = {url}\n[oslo_messaging_notifications]\ndriver = messagingv2\n")
    with connection_to(broker, url) as connection:
        channel = connection.channel()
        channel.exchange_declare("nova", "topic", durable=False, auto_delete=False)
        channel.queue_declare("notifications.info", durable=True, auto_delete=False)
        channel.queue_bind("notifications.info", "nova", "notifications.info")
        notifier = Notifier(configure(tmp_path, files=[str(file)]))
        for _ in range(2):
            notifier.send(Notice(service_context(), "publisher", "event", {}))
            wait_for("it is there", lambda: channel.basic_get("notifications.info", no_ack=True) is not None)
        notifier.stop()
