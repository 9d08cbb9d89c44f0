"""A restart of broker or database cost builds up to a minute more than its own length, and a conductor 60 s to stop.

Measured are the seconds after the server answers again. The bounds leave room for a busy machine, on which the builds
themselves take as long as the outage, and are below the waits that were there: 30 s (the scheduler), 60 s (a result that
could not be written; the conductor's stop).
"""

import json
import signal
import time
from collections.abc import Callable

import pytest
import urllib3

from tests.integration.deployment import Deployment
from tests.integration.test_servers_away import broker, cloud, create, database, deployment  # noqa: F401
from tests.servers.postgresql import PostgreSQL
from tests.servers.rabbitmq import RabbitMQ
from tests.waiting import wait_for

pytestmark = pytest.mark.timeout(400)

BUILDS = 12
# Aimed at are 2 s on a machine at rest.
SOON = 25.0
STOPS_WITHIN = 5.0


def seconds_until_built(cloud: Deployment, restart: Callable[[], None]) -> float:  # noqa: F811
    """Of a request that is under way while `restart` runs: from the end of that."""
    create(cloud, "many", "--max", str(BUILDS))
    restart()
    back = time.monotonic()

    def built() -> bool:
        answer = urllib3.request("GET", f"{cloud.url}/v2.1/servers/detail", timeout=30, retries=False)
        statuses = [server["status"] for server in json.loads(answer.data).get("servers", [])]
        assert "ERROR" not in statuses
        return statuses == ["ACTIVE"] * BUILDS

    try:
        wait_for("all are ACTIVE", built, 120)
        took = time.monotonic() - back
        assert took < SOON
    except AssertionError as error:
        raise AssertionError(f"{error}\n{cloud.logs()}") from None
    return took


def test_a_restart_of_the_database_costs_little_more_than_its_length(
    cloud: Deployment,  # noqa: F811
    database: PostgreSQL,  # noqa: F811
) -> None:
    def restart() -> None:
        database.kill()
        database.start()

    print(f"{seconds_until_built(cloud, restart):.1f} s after the database is back")


@pytest.mark.nightly("it measures seconds; test_servers_away has builds through such a restart each day")
def test_a_restart_of_the_broker_costs_little_more_than_its_length(
    cloud: Deployment,  # noqa: F811
    broker: RabbitMQ,  # noqa: F811
) -> None:
    def restart() -> None:
        broker.kill()
        broker.start()

    print(f"{seconds_until_built(cloud, restart):.1f} s after the broker is back")
    # And a conductor that owes answers to queues which went with the broker stops soon.
    broker.kill()
    broker.start()
    conductor = cloud.services["conductor"]
    begun = time.monotonic()
    conductor.signal(signal.SIGTERM)
    assert conductor.wait() == 0
    took = time.monotonic() - begun
    print(f"{took:.1f} s to stop")
    assert took < STOPS_WITHIN, f"{took:.1f} s\n{conductor.log[-6000:]}"
