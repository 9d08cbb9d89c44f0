"""RabbitMQ in an alarm of its memory took the API's reads away, the first 503 came after 38 s, and half of the creates that were
refused were executed afterwards.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self

import amqp
import pytest
import urllib3

from minova.messaging import flow_control
from tests.cluster import wait_for
from tests.integration.deployment import Deployment
from tests.servers.rabbitmq import RabbitMQ
from tests.soak.logs import tracebacks

pytestmark = pytest.mark.timeout(400)

CLIENTS = 48
READERS = 4
# Of the connections that tests open themselves.
CONNECTION_NAME = "connection of a test"
# Seconds of the alarm.
ALARM = float(os.environ.get("MINOVA_ALARM_SECONDS", "8"))
# Warnings and errors of one service: one for each change of state, and for each call that waited for its answer.
LINES = 60
DOWN_TIME = 6
# Seconds from the alarm to the first refusal, and of the slowest of a hundred reads: tens of milliseconds each on an idle machine, and as long
# as the alarm before minova watched it.
TOLD_WITHIN = READ_WITHIN = 0.75 * ALARM


@pytest.fixture(scope="module")
def broker() -> Iterator[RabbitMQ]:
    with RabbitMQ(vhosts=2) as server:
        yield server


@pytest.fixture(params=["false", "true"], ids=["classic queues", "quorum queues"])
def cloud(
    tmp_path: Path, broker: RabbitMQ, fresh_postgresql_url: Callable[[], str], request: pytest.FixtureRequest
) -> Iterator[Deployment]:
    with Deployment(
        tmp_path,
        broker.fresh_url(),
        fresh_postgresql_url(),
        DEFAULT={"service_down_time": DOWN_TIME},
        oslo_messaging_rabbit={"rabbit_quorum_queue": request.param},
    ) as deployment:
        for host in ("hv-a", "hv-b"):
            deployment.compute(
                host, DEFAULT={"compute_driver": "fake", "fake_vcpus": 10_000, "fake_memory_mb": 10_000_000}
            )
        deployment.manage("db", "upgrade")
        deployment.start()
        deployment.wait_up()
        yield deployment


class Load:
    """Clients that create servers, and clients that read, until they are stopped."""

    def __init__(self, cloud: Deployment, body: dict[str, Any]) -> None:
        self._http = urllib3.PoolManager(maxsize=CLIENTS + READERS, retries=False, timeout=60)
        self._url = cloud.url
        self._body = body
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        # (when it was sent, seconds, status, the server's ID)
        self.creates: list[tuple[float, float, int, str | None]] = []
        self.reads: list[tuple[float, float, int]] = []
        work = [self._create] * CLIENTS + [self._read] * READERS
        self._threads = [threading.Thread(target=one, daemon=True) for one in work]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()
        self._http.clear()

    def _create(self) -> None:
        while not self._stopping.is_set():
            begun = time.monotonic()
            answer = self._http.request("POST", f"{self._url}/v2.1/servers", json=self._body)
            made = answer.json()["server"]["id"] if answer.status == 202 else None
            with self._lock:
                self.creates.append((begun, time.monotonic() - begun, answer.status, made))
            if made is None:
                self._stopping.wait(0.5)

    def _read(self) -> None:
        while not self._stopping.is_set():
            begun = time.monotonic()
            answer = self._http.request("GET", f"{self._url}/v2.1/servers?limit=5")
            with self._lock:
                self.reads.append((begun, time.monotonic() - begun, answer.status))
            self._stopping.wait(0.05)


def test_a_refused_create_is_never_executed_and_reads_go_on(
    cloud: Deployment, broker: RabbitMQ, tmp_path: Path
) -> None:
    disk = tmp_path / "disk.raw"
    disk.write_bytes(b"\1" * 4096)
    cloud.cli("flavor", "create", "tiny", "--ram", "1", "--disk", "0", "--vcpus", "1", "--id", "tiny")
    cloud.cli("image", "create", "i", "--file", str(disk), "--disk-format", "raw")
    image = cloud.json("image", "list")[0]["ID"]
    body = {"server": {"name": "vm", "flavorRef": "tiny", "imageRef": image, "networks": []}}
    with Load(cloud, body) as load:
        wait_for("servers are made", lambda: len(load.creates) > CLIENTS)
        with broker.alarm():
            alarmed = time.monotonic()
            wait_for("a create is refused", lambda: any(status == 503 for *_, status, _ in load.creates), 60)
            time.sleep(ALARM)
            # Longer than [DEFAULT] service_down_time: all services are silent, and none counts as down.
            states = {(row["Binary"], row["Host"]): row["State"] for row in cloud.json("service", "list")}
            calm = time.monotonic()
        wait_for("servers are made again", lambda: any(b > calm and s == 202 for b, _, s, _ in load.creates), 60)

    refused = [(begun, took) for begun, took, status, _ in load.creates if status == 503]
    first = min(begun + took for begun, took in refused) - alarmed
    during = sorted(took for begun, took, _ in load.reads if alarmed < begun < calm)
    assert set(states.values()) <= {"up", "in doubt"}, states
    statuses = {status for *_, status, _ in load.creates}, {status for *_, status in load.reads}
    print(
        f"first refusal after {first:.2f} s, {len(refused)} refused, the slowest after {max(t for _, t in refused):.2f} s"
    )
    print(
        f"{len(during)} reads in the alarm, p50 {during[len(during) // 2]:.3f} s, p99 {during[len(during) * 99 // 100]:.3f} s"
    )
    assert statuses == ({202, 503}, {200})
    assert first < TOLD_WITHIN
    assert during[len(during) * 99 // 100] < READ_WITHIN
    acknowledged = {made for *_, made in load.creates if made is not None}
    wait_for("no request waits", lambda: waiting(cloud, broker) == {0}, 60)
    wait_for("the acknowledged servers exist", lambda: acknowledged <= existing(cloud), 60)
    assert existing(cloud) == acknowledged
    for name, service in cloud.services.items():
        lines = [line for line in service.log.splitlines() if " WARNING " in line or " ERROR " in line]
        assert [one for one in tracebacks(service.log) if one.level != "DEBUG"] == [], name
        assert len(lines) < LINES, (name, lines)


@contextmanager
def channel_to(broker: RabbitMQ, *, holds_back: bool = False) -> Iterator[flow_control.ConfirmChannel]:
    """A channel of a connection of its own, which is closed at the end."""
    connection = flow_control.AmqpConnection(
        host=f"127.0.0.1:{broker.ports[0]}",
        userid="guest",
        password="guest",
        confirm_publish=True,
        client_properties={"connection_name": CONNECTION_NAME, "capabilities": {"connection.blocked": True}},
    )
    connection.connect()
    try:
        channel: flow_control.ConfirmChannel = connection.channel()
        channel.holds_back = holds_back
        yield channel
    finally:
        connection.collect()


@pytest.mark.parametrize("size", [10, 300_000], ids=["one frame", "several frames"])
@pytest.mark.parametrize("used", [False, True], ids=["new connection", "used connection"])
def test_a_message_that_was_held_back_is_never_delivered(broker: RabbitMQ, size: int, used: bool) -> None:
    """A short one that was not held back is: the broker has it in its socket, and reads it after the alarm."""
    queue = f"{size} {used}"
    with channel_to(broker) as observer:
        observer.queue_declare(queue, auto_delete=False)
    for holds_back, error in ((True, flow_control.ConnectionBlocked), (False, flow_control.InDoubt)):
        # The connection is closed before the alarm ends.
        with ExitStack() as alarm, channel_to(broker, holds_back=holds_back) as channel:
            if used:
                channel.basic_publish(amqp.Message("x" * size), routing_key=queue)
                assert taken_from(broker, queue) == "x" * size
            alarm.enter_context(broker.alarm())
            with pytest.raises(error):
                channel.basic_publish(amqp.Message(str(holds_back) * size), routing_key=queue)
        if holds_back:
            wait_for("the broker has read all that came on it", lambda: not has_connection(broker))
            assert taken_from(broker, queue) is None
        elif size < 1000:
            wait_for("the message is there", lambda: taken_from(broker, queue) is not None)


def taken_from(broker: RabbitMQ, queue: str) -> str | None:
    with channel_to(broker) as observer:
        message = observer.basic_get(queue, no_ack=True)
        return message.body if message is not None else None


def has_connection(broker: RabbitMQ) -> bool:
    """Whether the broker has a connection of `channel_to`."""
    return CONNECTION_NAME in broker.ctl("list_connections", "--no-table-headers", "client_properties")


def test_the_end_of_an_alarm_is_noticed(broker: RabbitMQ, caplog: pytest.LogCaptureFixture) -> None:
    flow = flow_control.FlowControl()
    changes: list[bool] = []
    flow.on_change(changes.append)
    with ExitStack() as connections:
        with broker.alarm():
            for _ in range(2):
                channel = connections.enter_context(channel_to(broker, holds_back=True))
                with pytest.raises(flow_control.ConnectionBlocked):
                    channel.basic_publish(amqp.Message("x"), routing_key="nowhere")
                flow.blocked(channel.connection)
            with pytest.raises(flow_control.ConnectionBlocked):
                flow.require_open()
            assert changes == [True]
        wait_for("it is noticed", lambda: not flow.is_blocked)
        wait_for("it is told", lambda: changes == [True, False])
    flow.require_open()
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]


def existing(cloud: Deployment) -> set[str]:
    found: set[str] = set()
    path = "/v2.1/servers?limit=1000"
    while path:
        page = urllib3.request("GET", cloud.url + path).json()
        found |= {server["id"] for server in page["servers"]}
        path = f"/v2.1/servers?limit=1000&marker={page['servers'][-1]['id']}" if page["servers"] else ""
    return found


def waiting(cloud: Deployment, broker: RabbitMQ) -> set[int]:
    """The lengths of the queues from which conductors take the API's requests."""
    vhost = cloud.transport_url.rpartition("/")[2]
    lines = broker.ctl("list_queues", "-p", vhost, "--no-table-headers", "name", "messages").splitlines()
    lengths = dict(line.split("\t") for line in lines)
    return {int(lengths[name]) for name in ("conductor", "conductor_api")}
