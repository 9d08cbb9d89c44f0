"""Each message may reach RabbitMQ twice, the second time late: nothing is done twice, and nothing is undone."""

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from sqlalchemy import select

from minova import errors
from minova.db.models import Allocation, Instance, Task
from minova.objects.catalogue.flavor import Flavor
from minova.objects.catalogue.image import Image
from minova.objects.requests.server_request import CreateServers
from tests.cluster import Cluster, user
from tests.integration.leftovers import leftovers_in_tables
from tests.servers.repeating_broker import RepeatingBroker
from tests.waiting import wait_for

pytestmark = pytest.mark.timeout(600)
FLAVOR = Flavor(flavorid="1", name="m1", vcpus=1, memory_mb=64, root_gb=1)
IMAGE = Image(id="5d3a1f9e-2a0b-4f8e-9d5c-0c7a8b1f2e11", name="i", status="active", disk_format="raw", size=0)
HOSTS = ("one", "two", "three")
SERVERS = 8
# Seconds after which a second message comes at the latest.
LATEST = 5.0


@pytest.fixture
def broker(fresh_rabbit_url: Callable[[], str]) -> Iterator[tuple[RepeatingBroker, str]]:
    url = fresh_rabbit_url()
    real = urlsplit(url)
    assert real.hostname is not None
    assert real.port is not None
    with RepeatingBroker(real.hostname, real.port, share=0.5, latest=LATEST, seed=1).running() as broker:
        yield broker, url.replace(f"{real.hostname}:{real.port}", f"127.0.0.1:{broker.port}")


def states(cluster: Cluster) -> dict[str, str]:
    with cluster.db.read() as session:
        rows = session.execute(
            select(Instance.uuid, Instance.vm_state, Instance.task_state).where(Instance.deleted_at.is_(None))
        )
        return {server: f"{vm_state}/{task_state}" for server, vm_state, task_state in rows}


def settled(cluster: Cluster) -> bool:
    with cluster.db.read() as session:
        return session.scalar(select(Task.id).limit(1)) is None


def asked(call: Callable[[], object]) -> None:
    """As a client does: a refusal that says "again" is repeated."""

    def once() -> bool:
        try:
            call()
        except errors.ServiceUnavailable:
            return False
        return True

    wait_for("an answer", once)


def test_servers_are_as_they_were_asked_for(tmp_path: Path, broker: tuple[RepeatingBroker, str]) -> None:
    repeating, url = broker
    with Cluster(tmp_path, HOSTS, transport_url=url) as cluster:
        created: list[str] = []
        for number in range(SERVERS):
            request = CreateServers(
                name=f"s{number}",
                flavor=FLAVOR,
                image=IMAGE,
                min_count=1,
                max_count=1,
                # The API gives one to every request.
                request_uuid=str(uuid.uuid4()),
            )
            created += cluster.conductor.create_servers(user(), request=request).instance_uuids
        wait_for("active servers", lambda: set(states(cluster).values()) == {"active/None"} and settled(cluster))
        assert set(states(cluster)) == set(created)
        stopped, paused, deleted = created[0::4], created[1::4], created[2::4]
        for uuids, action in ((stopped, "stop"), (paused, "pause")):
            for server in uuids:
                asked(lambda u=server, a=action: cluster.conductor.start_action(user(), instance_uuid=u, action=a))  # type: ignore[misc]
        for server in deleted:
            asked(lambda u=server: cluster.conductor.delete_server(user(), instance_uuid=u))  # type: ignore[misc]
        expected = dict.fromkeys(created, "active/None") | dict.fromkeys(stopped, "stopped/None")
        expected |= dict.fromkeys(paused, "paused/None")
        expected = {server: state for server, state in expected.items() if server not in deleted}
        wait_for("the states asked for", lambda: states(cluster) == expected and settled(cluster))
        at_first = repeating.repeated
        for server in stopped:
            asked(lambda u=server: cluster.conductor.start_action(user(), instance_uuid=u, action="start"))  # type: ignore[misc]
        expected |= dict.fromkeys(stopped, "active/None")
        wait_for("servers that were started", lambda: states(cluster) == expected and settled(cluster))
        # Late messages of before have come by now, a second stop among them.
        wait_for("more repeated messages", lambda: repeating.repeated > at_first + 10)
        wait_for("the same states", lambda: states(cluster) == expected and settled(cluster))
        with cluster.db.read() as session:
            places = session.execute(select(Allocation.consumer_uuid, Allocation.provider_id).distinct()).all()
        assert sorted(server for server, _ in places) == sorted(expected)
        for server in expected:
            asked(lambda u=server: cluster.conductor.delete_server(user(), instance_uuid=u))  # type: ignore[misc]
        wait_for("nothing is left", lambda: states(cluster) == {} and leftovers_in_tables(cluster.db) == [])
        assert repeating.repeated > 20
