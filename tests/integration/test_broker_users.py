"""Users of services at the broker while a cloud changes over to them, and when the broker is restarted."""

import contextlib
import gc
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
import requests
from oslo_messaging._drivers import impl_rabbit

from minova import errors
from minova.context import RequestContext, service_context
from minova.contracts.base import cast, contract
from minova.messaging.dispatch import Implementation
from minova.messaging.rpc import Rpc
from minova.objects.catalogue.flavor import Flavor
from tests.cluster import Cluster, configure
from tests.functional.test_cloud import People
from tests.security.broker_cloud import HOSTS, Users, secure_cloud
from tests.servers.authority import Authority
from tests.servers.rabbitmq import SecureRabbitMQ
from tests.waiting import wait_for

pytestmark = pytest.mark.timeout(300)

FLAVOR = Flavor(flavorid="1", name="m1", vcpus=1, memory_mb=64, root_gb=0)
WARNING = "[broker] per_host_users is off"
NO_EXCHANGE = "The conductor has made no exchange yet"


def boot(cluster: Cluster) -> None:
    """A server on each host is built, and deleted."""
    people = People(cluster.url)
    if not people.ask("GET", "/v2.1/flavors")["flavors"]:
        cluster.conductor.create_flavor(service_context(), flavor=FLAVOR)
    image = people.image()
    paths = []
    for host in HOSTS:
        server = {"name": host, "flavorRef": FLAVOR.flavorid, "imageRef": image}
        body = {"server": {**server, "availability_zone": f"nova:{host}"}}
        paths.append(f"/v2.1/servers/{people.ask('POST', '/v2.1/servers', json=body)['server']['id']}")
    is_active = lambda path: people.ask("GET", path)["server"]["status"] == "ACTIVE"  # noqa: E731
    wait_for("both servers are active", lambda: all(map(is_active, paths)))
    for path in paths:
        people.ask("DELETE", path)
    wait_for("all servers are gone", lambda: people.ask("GET", "/v2.1/servers")["servers"] == [])


class Warnings(logging.Handler):
    """What minova warns of. Not caplog, which `minova-manage`, run in this process, takes off the root logger."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())

    def count(self, text: str) -> int:
        return sum(text in each for each in self.texts)


@pytest.fixture
def warnings() -> Iterator[Warnings]:
    handler, logger = Warnings(), logging.getLogger("minova")
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)


# The order of docs/operators/broker.md, step by step.
@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({("api", "controller")}, marks=pytest.mark.nightly("the last row changes all of these")),
        pytest.param(
            {("api", "controller"), ("conductor", "controller")},
            marks=pytest.mark.nightly("the last row changes all of these"),
        ),
        {("api", "controller"), ("conductor", "controller"), ("scheduler", "scheduler0"), ("compute", "victim")},
    ],
    ids=["api", "conductor", "one-compute"],
)
def test_services_with_and_without_users_work_together(
    secure_rabbitmq: SecureRabbitMQ, tmp_path: Path, warnings: Warnings, changed: set[tuple[str, str]]
) -> None:
    """Each conductor warns once, and no other service does."""
    old = secure_rabbitmq.fresh_url()
    users = Users(secure_rabbitmq, tmp_path, old.rpartition("/")[2])
    url: Callable[[str, str], str] = lambda *key: users.url(*key) if key in changed else old  # noqa: E731
    with Cluster(tmp_path, HOSTS, transport_url=url) as cluster:
        boot(cluster)
    assert (warnings.count(WARNING), warnings.count("Refused")) == (1, 0)


@pytest.fixture
def collected_sockets() -> Iterator[None]:
    """The driver leaves a socket of a broken connection to the garbage collector, which complains in the test it runs in:
    that test ignores it.
    """
    yield
    gc.collect()


@pytest.mark.nightly("half a minute; test_servers_away.py restarts the broker each day")
@pytest.mark.usefixtures("collected_sockets")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_cloud_with_users_survives_a_restart_of_the_broker(
    authority: Authority, tmp_path: Path, warnings: Warnings
) -> None:
    """Its exchanges and queues are gone, and computes may not make exchanges: they wait for those who may."""
    with SecureRabbitMQ(authority) as broker, secure_cloud(broker, tmp_path, report_interval=1) as (cluster, _):
        boot(cluster)
        broker.kill()
        broker.start()
        boot(cluster)
    assert (warnings.count(WARNING), warnings.count("Refused")) == (0, 0)


@contract
class Bell:
    TOPIC = "compute"
    VERSION = "1.0"

    @cast
    def ring(self, ctx: RequestContext) -> None:
        raise NotImplementedError


class CountingBell:
    def __init__(self) -> None:
        self.rings = 0

    def ring(self, ctx: RequestContext) -> None:
        self.rings += 1


class RingingCloud:
    """A compute with a user of its own that counts messages, and a sender that makes the exchange, as conductors do."""

    def __init__(self, broker: SecureRabbitMQ, folder: Path) -> None:
        self.bell = CountingBell()
        url, conf = broker.fresh_url(), configure(folder, host="victim")
        self._compute = Rpc(conf, Users(broker, folder, url.rpartition("/")[2]).url("compute", "victim"))
        self._conductor = Rpc(conf, url)
        self._client = self._conductor.client(Bell, server="victim", retry=0)
        self.server = self._compute.server(Bell, Implementation(parts=(self.bell,)), host="victim")

    def is_heard(self) -> bool:
        """Send a message, which also makes the exchange, unless it cannot be delivered; whether any has come."""
        with contextlib.suppress(errors.ServiceUnavailable):
            self._client.ring(service_context())
        return self.bell.rings > 0

    def close(self) -> None:
        self.server.stop()
        self.server.wait()
        self._compute.close()
        self._conductor.close()


def prefetch_of(broker: SecureRabbitMQ, queue: str) -> int | None:
    """How many unacknowledged messages the consumer of a queue may have; None: it has no consumer."""
    response = requests.get(f"{broker.management_url}/api/consumers", timeout=30)
    return next((row["prefetch_count"] for row in response.json() if row["queue"]["name"] == queue), None)


@pytest.mark.nightly("half a minute; the test below waits for the exchange at a start")
@pytest.mark.usefixtures("collected_sockets")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_compute_waits_for_the_exchange_after_a_restart_of_the_broker(
    authority: Authority, tmp_path: Path, warnings: Warnings
) -> None:
    """If the compute is back before a conductor. The driver ended its loop with an error, "after inf tries"."""
    driver_log, of_driver = logging.getLogger(impl_rabbit.__name__), Warnings()
    driver_log.addHandler(of_driver)
    with SecureRabbitMQ(authority) as broker, closing(RingingCloud(broker, tmp_path)) as cloud:
        try:
            assert not cloud.is_heard()
            cloud.server.start()
            wait_for("the compute listens", cloud.is_heard)
            limit = wait_for("its limit is known", lambda: prefetch_of(broker, "compute.victim"))
            broker.kill()
            broker.start()
            wait_for("the compute waits", lambda: warnings.count(NO_EXCHANGE))
            cloud.bell.rings = 0
            wait_for("the compute listens again", cloud.is_heard)
            assert wait_for("its limit is known again", lambda: prefetch_of(broker, "compute.victim")) == limit
        finally:
            driver_log.removeHandler(of_driver)
    # It warns once, and the driver does not take the missing exchange for a broker that is away.
    assert warnings.count("no exchange") == 1
    assert (of_driver.count("no exchange"), of_driver.count("after inf tries")) == (0, 0)


def test_compute_that_starts_before_a_conductor_waits_for_the_exchange(
    secure_rabbitmq: SecureRabbitMQ, tmp_path: Path, warnings: Warnings
) -> None:
    with closing(RingingCloud(secure_rabbitmq, tmp_path)) as cloud:
        starter = threading.Thread(target=cloud.server.start)
        starter.start()
        try:
            wait_for("the compute waits", lambda: warnings.count(NO_EXCHANGE))
            wait_for("the compute listens", cloud.is_heard)
            assert warnings.count("no exchange") == 1
        finally:
            starter.join(60)
