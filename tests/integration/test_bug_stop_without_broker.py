"""Services stop whatever is out of reach. A compute whose broker was away needed 90 s to stop, until systemd killed it, and one that had stopped looked alive for a minute."""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psutil
import pytest

from tests.integration.deployment import Deployment
from tests.integration.test_servers_away import HOSTS, broker, cloud, create, database, deployment  # noqa: F401
from tests.servers.postgresql import PostgreSQL
from tests.servers.private_server import PrivateServer
from tests.servers.rabbitmq import RabbitMQ
from tests.waiting import wait_for

pytestmark = pytest.mark.timeout(400)
STOPS_WITHIN = 10.0


def service_of(cloud: Deployment, host: str) -> dict[str, Any]:  # noqa: F811
    listed: list[dict[str, Any]] = cloud.json("service", "list", "--long")
    (service_row,) = [row for row in listed if (row["Host"], row["Binary"]) == (host, "minova-compute")]
    return service_row


@contextmanager
def hanging(server: PrivateServer) -> Iterator[None]:
    """Its connections stay open, and nothing answers."""
    assert server.pid is not None
    first = psutil.Process(server.pid)
    stopped = [first, *first.children(recursive=True)]
    for process in stopped:
        process.suspend()
    try:
        yield
    finally:
        for process in stopped:
            process.resume()


def test_every_service_stops_soon_although_nothing_answers(
    cloud: Deployment,  # noqa: F811
    broker: RabbitMQ,  # noqa: F811
    database: PostgreSQL,  # noqa: F811
) -> None:
    """Computes and the scheduler without a broker; then conductor and API without broker and database."""
    stopped, *others = HOSTS
    cloud.services[stopped].stop()
    row = service_of(cloud, stopped)
    assert row["State"] == "down", row
    assert "stopped" in row.values(), row
    create(cloud, "one")
    assert cloud.wait_status("one", "ACTIVE")["OS-EXT-SRV-ATTR:host"] != stopped
    cloud.services[stopped].start()
    wait_for("it is up again", lambda: service_of(cloud, stopped)["State"] == "up", 60)

    took = {}

    def stop(*names: str) -> None:
        for name in names:
            service, begun = cloud.services[name], time.monotonic()
            service.signal(signal.SIGTERM)
            assert service.wait(60) == 0
            took[name] = time.monotonic() - begun

    with hanging(broker):
        stop(*others, "scheduler")
        with hanging(database):
            stop("conductor", "api")
    print({name: f"{seconds:.1f} s" for name, seconds in took.items()})
    assert max(took.values()) < STOPS_WITHIN, f"{took}\n{cloud.logs()}"
