"""Queues that several brokers can hold, by configuration."""

from collections.abc import Callable, Iterator
from pathlib import Path

import amqp
import kombu
import pytest

from minova.db.engine import Database
from tests.integration.deployment import Deployment
from tests.integration.leftovers import leftovers_in_tables
from tests.waiting import wait_for


@pytest.fixture
def database_url(fresh_postgresql_url: Callable[[], str]) -> str:
    return fresh_postgresql_url()


@pytest.fixture
def cloud(tmp_path: Path, fresh_rabbit_url: Callable[[], str], database_url: str) -> Iterator[Deployment]:
    quorum = {"rabbit_quorum_queue": "true"}
    with Deployment(tmp_path, fresh_rabbit_url(), database_url, oslo_messaging_rabbit=quorum) as deployment:
        deployment.compute("hv", DEFAULT={"compute_driver": "fake"})
        deployment.manage("db", "upgrade")
        deployment.start()
        deployment.wait_up()
        yield deployment


def test_a_server_is_built_and_deleted_over_quorum_queues(cloud: Deployment, database_url: str, tmp_path: Path) -> None:
    disk = tmp_path / "disk.raw"
    disk.write_bytes(b"\1" * 4096)
    cloud.cli("flavor", "create", "tiny", "--ram", "128", "--disk", "1")
    cloud.cli("image", "create", "i", "--file", str(disk), "--disk-format", "raw")
    cloud.cli("server", "create", "vm", "--flavor", "tiny", "--image", "i", "--wait")
    assert cloud.server("vm")["status"] == "ACTIVE"
    for queue in ("conductor", "scheduler", "compute.hv"):
        assert "current is 'quorum'" in refusal(cloud.transport_url, queue)
    cloud.cli("server", "delete", "vm", "--wait")
    database = Database(database_url)
    try:
        wait_for("nothing is left", lambda: leftovers_in_tables(database) == [])
    finally:
        database.close()


def refusal(transport_url: str, queue: str) -> str:
    """What the broker says to a client that takes the queue for a classic one."""
    url = transport_url.replace("rabbit://", "amqp://")
    with kombu.Connection(url) as connection:  # type: ignore[attr-defined, no-untyped-call]
        channel = connection.channel()
        with pytest.raises(amqp.PreconditionFailed) as caught:
            channel.queue_declare(queue, durable=True, auto_delete=False, arguments={"x-queue-type": "classic"})
    return str(caught.value)
