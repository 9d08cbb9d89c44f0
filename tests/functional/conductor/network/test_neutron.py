"""Ports in Neutron of servers: wherever a conductor dies, none is doubled or left over. tests/integration/neutron has a real Neutron."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from sqlalchemy import select, update

from minova import errors
from minova.conductor.network.neutron import AGAIN, NeutronPorts
from minova.db import models
from minova.db.networks import interfaces, neutron_ports, vifs
from minova.neutron_client import NeutronClient
from minova.objects.vif import NEUTRON, RequestedNic
from tests.fakes.neutron import FakeNeutron, Killed
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness, request
from tests.tables import make_tables

NEW = RequestedNic(network_id="net-1", service=NEUTRON)
USERS_PORT = "11111111-0000-4000-8000-000000000000"
OWNER = "compute:nova"


class World:
    """A server that host `a` builds, on a network with a new port, another one with the port of a user."""

    def __init__(self, url: str) -> None:
        make_tables(url)
        self.harness = ConductorHarness(url)
        self.worker = self.harness.conductor.worker
        self.neutron = FakeNeutron()
        users = self.neutron.create_port({"network_id": "net-1"})
        self.neutron.books[USERS_PORT] = {**users, "id": USERS_PORT}
        del self.neutron.books[users["id"]]
        self.neutron.requests = 0
        self.ports = NeutronPorts(self.worker, cast(NeutronClient, self.neutron), "br-int")
        (self.server,) = self.harness.conductor.create_servers(CTX, request=request()).instance_uuids
        nics = {0: NEW, 1: RequestedNic(network_id="net-1", port_id=USERS_PORT, service=NEUTRON)}
        self.worker.run(lambda session: neutron_ports.add(session, self.server, "demo", OWNER, nics))
        self.place("a", 1)

    def place(self, host: str | None, attempt: int, **values: Any) -> None:
        instance = models.Instance
        change = update(instance).where(instance.uuid == self.server).values(host=host, attempt=attempt, **values)
        self.worker.run(lambda session: session.execute(change))

    def made(self) -> list[dict[str, Any]]:
        return [port for uuid, port in self.neutron.books.items() if uuid != USERS_PORT]

    def described(self) -> Any:
        with self.harness.db.read() as session:
            return vifs.of_instances(session, [self.server]).get(self.server, ())

    def delete(self) -> None:
        """As `finish_delete` does."""
        self.place("a", 1, deleted_at=self.worker.at())
        self.worker.run(lambda session: interfaces.release(session, self.server, self.worker.at()))

    def rows(self) -> int:
        with self.harness.db.read() as session:
            return len(session.scalars(select(models.NeutronPort.id)).all())


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(f"sqlite:///{tmp_path / 'minova.sqlite'}")
    yield made
    made.harness.db.close()


def test_ports_are_made_bound_and_described(world: World) -> None:
    vifs = world.ports.bind(world.server, 1, "a")
    (new,) = world.made()
    users = world.neutron.books[USERS_PORT]
    for port in (new, users):
        assert (port["device_id"], port["device_owner"], port["binding:host_id"]) == (world.server, OWNER, "a")
    assert new["tenant_id"] == "demo"
    assert world.described() == vifs
    assert [vif.port_id for vif in vifs] == [new["id"], USERS_PORT]
    assert (vifs[0].mac_address, vifs[0].mtu, vifs[0].network_name) == (new["mac_address"].lower(), 1450, "blue")
    assert vifs[0].vif_details["bridge_name"] == "br-int"


def test_a_second_bind_asks_for_nothing_new(world: World) -> None:
    first = world.ports.bind(world.server, 1, "a")
    assert world.ports.bind(world.server, 1, "a") == first
    assert len(world.made()) == 1


def test_the_next_host_gets_the_same_ports(world: World) -> None:
    before = world.ports.bind(world.server, 1, "a")
    world.place("b", 2)
    after = world.ports.bind(world.server, 2, "b")
    assert [vif.port_id for vif in after] == [vif.port_id for vif in before]
    assert {port["binding:host_id"] for port in world.neutron.books.values()} == {"b"}
    with pytest.raises(errors.StaleAttempt):
        world.ports.bind(world.server, 1, "a")


def test_a_host_without_an_agent_is_told(world: World) -> None:
    world.place("far", 1)
    with pytest.raises(errors.PortBindingFailed, match=r"has not bound port .* to host far: binding_failed"):
        world.ports.bind(world.server, 1, "far")
    world.place("b", 2)
    assert len(world.ports.bind(world.server, 2, "b")) == 2
    assert len(world.made()) == 1


def test_the_port_of_another_server_is_refused(world: World) -> None:
    world.neutron.books[USERS_PORT]["device_id"] = "another"
    with pytest.raises(errors.PortInUse):
        world.ports.bind(world.server, 1, "a")


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("kill_at", range(1, 5))
def test_a_conductor_that_dies_in_bind_leaves_no_second_port(world: World, kill_at: int, after: bool) -> None:
    world.neutron.kill_at, world.neutron.after = kill_at, after
    with pytest.raises(Killed):
        world.ports.bind(world.server, 1, "a")
    vifs = world.ports.bind(world.server, 1, "a")
    assert {vif.port_id for vif in vifs} == world.neutron.books.keys()
    assert len(world.made()) == 1


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("kill_at", range(1, 5))
def test_a_server_that_goes_after_a_crash_leaves_nothing(world: World, kill_at: int, after: bool) -> None:
    """Also a port that no row names."""
    world.neutron.kill_at, world.neutron.after = kill_at, after
    with pytest.raises(Killed):
        world.ports.bind(world.server, 1, "a")
    world.delete()
    world.ports.clean()
    assert world.made() == []
    users = world.neutron.books[USERS_PORT]
    assert (users["device_id"], users["binding:host_id"]) == ("", "")


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("kill_at", range(1, 4))
def test_a_conductor_that_dies_while_it_cleans_is_no_matter(world: World, kill_at: int, after: bool) -> None:
    world.ports.bind(world.server, 1, "a")
    world.delete()
    world.neutron.requests, world.neutron.kill_at, world.neutron.after = 0, kill_at, after
    with pytest.raises(Killed):
        world.ports.clean()
    world.ports.clean()
    assert world.made() == []
    assert world.neutron.books[USERS_PORT]["device_id"] == ""


def test_a_port_that_came_after_the_end_is_found_later(world: World) -> None:
    """A conductor was slow: its request reached Neutron when the ports had been deleted. The rows go with the second look."""
    world.delete()
    world.ports.clean()
    world.neutron.create_port({"network_id": "net-1", "device_id": world.server, "device_owner": OWNER})
    world.ports.clean()
    assert len(world.made()) == 1
    assert world.rows() == 2
    world.harness.now += AGAIN.total_seconds() + 1
    world.ports.clean()
    assert world.made() == []
    assert world.rows() == 0


def test_a_port_that_was_given_to_another_server_meanwhile_stays(world: World) -> None:
    world.ports.bind(world.server, 1, "a")
    world.delete()
    world.neutron.books[USERS_PORT] |= {"device_id": "another", "binding:host_id": "b"}
    world.ports.clean()
    assert world.neutron.books[USERS_PORT]["device_id"] == "another"


def test_ports_of_other_devices_stay(world: World) -> None:
    """What has the device but is no server's is not minova's."""
    other = world.neutron.create_port(
        {"network_id": "net-1", "device_id": world.server, "device_owner": "network:dhcp"}
    )
    world.delete()
    world.ports.clean()
    assert [port["id"] for port in world.made()] == [other["id"]]


def test_a_shelved_server_keeps_its_ports_without_a_host(world: World) -> None:
    world.ports.bind(world.server, 1, "a")
    world.place(None, 1, vm_state="shelved_offloaded", task_state=None)
    world.ports.clean()
    assert {port["binding:host_id"] for port in world.neutron.books.values()} == {""}
    assert {port["device_id"] for port in world.neutron.books.values()} == {world.server}
    requests = world.neutron.requests
    world.ports.clean()
    assert world.neutron.requests == requests


def test_what_neutron_changed_is_described(world: World) -> None:
    world.ports.bind(world.server, 1, "a")
    (new,) = world.made()
    new["fixed_ips"] = [{"subnet_id": "sub-1", "ip_address": "10.0.0.99"}]
    del world.neutron.books[USERS_PORT]
    world.ports.heal()
    (vif,) = world.described()
    assert [address.ip_address for address in vif.addresses] == ["10.0.0.99"]


def test_a_server_that_an_older_conductor_deleted_is_found(world: World) -> None:
    world.ports.bind(world.server, 1, "a")
    world.place("a", 1, deleted_at=world.worker.at())
    world.ports.forsake()
    world.ports.clean()
    assert world.made() == []


def test_two_servers_do_not_get_one_port(world: World) -> None:
    with world.harness.db.read() as session:
        assert neutron_ports.held(session, [USERS_PORT]) == {USERS_PORT}
    world.delete()
    with world.harness.db.read() as session:
        assert neutron_ports.held(session, [USERS_PORT]) == set()
