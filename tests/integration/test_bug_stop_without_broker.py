"""A compute whose broker was away needed 90 s to stop, until systemd killed it, and one that had stopped looked alive for a minute."""

import os
import signal
import time
from typing import Any

import pytest

from tests.integration.deployment import Deployment
from tests.integration.test_servers_away import HOSTS, broker, cloud, create, database, deployment  # noqa: F401
from tests.servers.rabbitmq import RabbitMQ
from tests.waiting import wait_for

pytestmark = pytest.mark.timeout(400)
STOPS_WITHIN = 10.0


def service_of(cloud: Deployment, host: str) -> dict[str, Any]:  # noqa: F811
    listed: list[dict[str, Any]] = cloud.json("service", "list", "--long")
    (found,) = [row for row in listed if (row["Host"], row["Binary"]) == (host, "minova-compute")]
    return found


def test_every_service_stops_soon_although_the_broker_is_away(
    cloud: Deployment,  # noqa: F811
    broker: RabbitMQ,  # noqa: F811
) -> None:
    stopped, *others = HOSTS
    cloud.services[stopped].stop()
    row = service_of(cloud, stopped)
    assert row["State"] == "down", row
    assert "stopped" in row.values(), row
    create(cloud, "one")
    assert cloud.wait_status("one", "ACTIVE")["OS-EXT-SRV-ATTR:host"] != stopped
    cloud.services[stopped].start()
    wait_for("it is up again", lambda: service_of(cloud, stopped)["State"] == "up", 60)

    # SIGSTOP: connections stay open, and nothing answers.
    assert broker.pid is not None
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        took = {}
        for name in (*others, "conductor", "scheduler", "api"):
            service, begun = cloud.services[name], time.monotonic()
            service.signal(signal.SIGTERM)
            assert service.wait(60) == 0
            took[name] = time.monotonic() - begun
    finally:
        os.kill(broker.pid, signal.SIGCONT)
    print({name: f"{seconds:.1f} s" for name, seconds in took.items()})
    assert max(took.values()) < STOPS_WITHIN, f"{took}\n{cloud.logs()}"
