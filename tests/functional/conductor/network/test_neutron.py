"""Ports in Neutron of servers: wherever a conductor dies, none is doubled or left over. tests/integration/neutron has a real Neutron."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest
from sqlalchemy import delete, select, update

from minova import errors
from minova.conductor.network import attachments
from minova.conductor.network.neutron.cleaning import AGAIN
from minova.conductor.network.neutron.limits import BACKOFF, MAX_SERVERS, InstanceLocks
from minova.conductor.network.neutron.ports import NeutronPorts
from minova.db import models
from minova.db.networks import neutron_ports, vifs
from minova.neutron_client import NeutronClient
from minova.objects.catalogue.flavor import Flavor
from minova.objects.network.port_marks import mark
from minova.objects.network.vif import NEUTRON
from minova.objects.requests.build_extras import RequestedNic
from minova.objects.servers.instance import Instance
from tests.fakes.neutron import FakeNeutron, Killed
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness, request
from tests.tables import make_tables

NEW = RequestedNic(network_id="net-1", service=NEUTRON)
USERS_PORT = "11111111-0000-4000-8000-000000000000"
OWNER = "compute:nova"
FLAVOR = Flavor(flavorid="1", name="m1", vcpus=1, memory_mb=512, root_gb=1)


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
        self.ports = self.another()
        (self.server,) = self.harness.conductor.create_servers(CTX, request=request()).instance_uuids
        nics = {0: NEW, 1: RequestedNic(network_id="net-1", port_id=USERS_PORT, service=NEUTRON)}
        self.worker.run(lambda session: neutron_ports.add(session, self.server, "demo", OWNER, nics))
        self.place("a", 1)

    def another(self) -> NeutronPorts:
        """Those of one more conductor."""
        client = cast(NeutronClient, self.neutron)
        return NeutronPorts(self.worker, client, "br-int", ticks=lambda: self.harness.now)

    def place(self, host: str | None, attempt: int, **values: Any) -> None:
        instance = models.Instance
        change = update(instance).where(instance.uuid == self.server).values(host=host, attempt=attempt, **values)
        self.worker.run(lambda session: session.execute(change))

    def make(self, project: str = "demo", **marks: int | None) -> str:
        """A port with the server's id, as its project can make one; with `interface`, as minova makes it."""
        body = {"network_id": "net-1", "device_id": self.server, "device_owner": OWNER, "tenant_id": project}
        if marks:
            body |= mark(self.server, marks["interface"])
        return str(self.neutron.create_port(body)["id"])

    def made(self) -> list[dict[str, Any]]:
        return [port for uuid, port in self.neutron.books.items() if uuid != USERS_PORT]

    def described(self) -> Any:
        with self.harness.db.read() as session:
            return vifs.of_instances(session, [self.server]).get(self.server, ())

    def delete(self) -> None:
        """As `finish_delete` does."""
        self.place("a", 1, deleted_at=self.worker.at())
        self.worker.run(lambda session: vifs.release(session, [self.server], self.worker.at()))

    def forget_rows(self) -> None:
        """The server has no interfaces."""
        self.worker.run(lambda session: session.execute(delete(models.NeutronPort)))

    def rows(self) -> int:
        with self.harness.db.read() as session:
            return len(session.scalars(select(models.NeutronPort.id)).all())


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(f"sqlite:///{tmp_path / 'minova.sqlite'}")
    yield world
    world.harness.db.close()


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


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("kill_at", range(1, 9))
def test_a_conductor_that_dies_while_bindings_are_switched_is_no_matter(
    world: World, kill_at: int, after: bool
) -> None:
    world.ports.bind(world.server, 1, "a")
    instance = Instance(uuid=world.server, display_name="one", flavor=FLAVOR, network_info=world.described())
    prepared = world.ports.bindings.prepare(instance, "b")
    assert {vif.vif_details["bridge_name"] for vif in prepared.network_info} == {"br-b"}
    assert {port["binding:host_id"] for port in world.neutron.books.values()} == {"a"}
    world.place("b", 2)
    world.neutron.kill_at, world.neutron.after = world.neutron.requests + kill_at, after
    with suppress(Killed):
        world.ports.bind(world.server, 2, "b")
    world.neutron.kill_at = 0
    world.another().bind(world.server, 2, "b")
    assert {port["binding:host_id"] for port in world.neutron.books.values()} == {"b"}
    # What is left of the source is made anew when the server goes back.
    world.ports.bindings.prepare(instance, "a")
    assert {host for _, host in world.neutron.inactive} == {"a"}


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


def test_a_port_that_asks_for_more_than_there_is_is_refused(world: World) -> None:
    """Users are not shown it."""
    world.neutron.books[USERS_PORT]["resource_request"] = {"request_groups": []}
    with pytest.raises(errors.PortNotSupported, match=r"has a resource_request: minimum bandwidth"):
        world.ports.bind(world.server, 1, "a")
    assert world.neutron.books[USERS_PORT]["binding:host_id"] == ""


def test_a_conductor_without_neutron_warns_of_ports_there(world: World, caplog: pytest.LogCaptureFixture) -> None:
    attachments.warn_of_foreign_ports(world.worker)
    assert "this conductor is not configured for it" in caplog.text
    caplog.clear()
    world.forget_rows()
    attachments.warn_of_foreign_ports(world.worker)
    assert caplog.text == ""


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
    world.make(interface=1)
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
    world.ports.release_orphans()
    world.ports.clean()
    assert world.made() == []


def test_two_servers_do_not_get_one_port(world: World) -> None:
    with world.harness.db.read() as session:
        assert neutron_ports.ports_of_servers(session, [USERS_PORT]) == {USERS_PORT}
    world.delete()
    with world.harness.db.read() as session:
        assert neutron_ports.ports_of_servers(session, [USERS_PORT]) == set()


# -- several at the same time ------------------------------------------------------------------------------------------


def test_a_bind_that_comes_behind_another_deletes_nothing_of_it(world: World) -> None:
    """It finds the port that the other one has made, and is about to note."""
    port_id = world.make(interface=1)

    def other() -> None:
        world.neutron.during.clear()
        world.worker.run(lambda session: neutron_ports.give_port(session, 1, port_id))

    # The rows are read, and then Neutron is asked for the second port: the first one has no port then.
    world.neutron.during["GET", ""] = other
    world.ports.bind(world.server, 1, "a")
    assert port_id in world.neutron.books
    assert len(world.made()) == 1


def test_an_adopted_port_is_not_deleted(world: World) -> None:
    """Its row has got another one meanwhile."""
    port_id = world.make(interface=1)
    other = world.make(interface=1)
    run = world.worker.run

    def late(work: Any) -> Any:
        run(lambda session: neutron_ports.give_port(session, 1, other))
        return run(work)

    world.worker.run = late  # type: ignore[method-assign]
    with pytest.raises(errors.ServiceUnavailable, match="changed meanwhile"):
        world.ports.bind(world.server, 1, "a")
    assert {port_id, other} <= world.neutron.books.keys()


def test_two_conductors_that_bind_keep_one_port(world: World) -> None:
    """Both find none; who notes the second one deletes what it has made itself."""
    second = world.another()

    def other() -> None:
        world.neutron.during.clear()
        second.bind(world.server, 1, "a")

    world.neutron.during["POST", ""] = other
    with pytest.raises(errors.ServiceUnavailable, match="changed meanwhile"):
        world.ports.bind(world.server, 1, "a")
    (kept,) = world.made()
    assert [vif.port_id for vif in world.ports.bind(world.server, 1, "a")] == [kept["id"], USERS_PORT]


def test_one_conductor_binds_a_server_once_at_a_time(world: World) -> None:
    refused = []

    def again() -> None:
        with pytest.raises(errors.ServiceUnavailable, match="worked on already"):
            world.ports.bind(world.server, 1, "a")
        refused.append(True)

    world.neutron.during["POST", ""] = again
    world.ports.bind(world.server, 1, "a")
    assert refused == [True]


def test_few_servers_at_a_time() -> None:
    instance_locks, held = InstanceLocks(), []
    for number in range(MAX_SERVERS):
        held.append(instance_locks.take(f"server-{number}"))
        held[-1].__enter__()
    with pytest.raises(errors.ServiceUnavailable, match="Too many"), instance_locks.take("one more"):
        pass
    held[0].__exit__(None, None, None)
    with instance_locks.take("one more"):
        pass


def test_a_server_that_is_being_deleted_gets_no_ports(world: World) -> None:
    world.place("a", 1, task_state="deleting")
    with pytest.raises(errors.StaleAttempt, match="is being deleted"):
        world.ports.bind(world.server, 1, "a")
    assert world.neutron.requests == 0


# -- whose ports they are ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("project", ["demo", "other"])
def test_ports_that_users_give_the_servers_id_are_neither_taken_nor_deleted(world: World, project: str) -> None:
    users = world.make(project)
    vifs = world.ports.bind(world.server, 1, "a")
    assert users not in [vif.port_id for vif in vifs]
    world.delete()
    world.ports.clean()
    assert [port["id"] for port in world.made()] == [users]


def test_the_port_of_an_attachment_goes_to_no_other_interface(world: World) -> None:
    """The API has made it; its process has died. It goes with the server."""
    attached = world.make(interface=None)
    assert attached not in [vif.port_id for vif in world.ports.bind(world.server, 1, "a")]
    world.delete()
    world.ports.clean()
    assert world.made() == []


@pytest.mark.parametrize("dies", [False, True])
def test_the_port_of_an_attachment_without_an_end_is_deleted(world: World, dies: bool) -> None:
    """The API has heard no answer, and the server has no interface in Neutron: nothing else names the port."""
    world.forget_rows()
    conductor = world.harness.conductor
    conductor.expect_port(CTX, instance_uuid=world.server, network_id="net-1")
    world.make(interface=None)
    users = world.make()
    if dies:
        world.delete()
    for seconds in (0.0, AGAIN.total_seconds() - 10):
        world.harness.now += seconds
        world.ports.clean()
        assert len(world.made()) == 2, "its interface may still be on its way"
    world.harness.now += 20
    world.ports.clean()
    assert [port["id"] for port in world.made()] == [users]
    assert world.rows() == 0


def test_a_port_that_an_attachment_makes_now_stays(world: World) -> None:
    conductor = world.harness.conductor
    conductor.expect_port(CTX, instance_uuid=world.server, network_id="net-1")
    world.harness.now += AGAIN.total_seconds() + 1
    port_ids: list[str] = []

    def another() -> None:
        """Another attachment, after the first look at the rows."""
        if not port_ids:
            conductor.expect_port(CTX, instance_uuid=world.server, network_id="net-1")
            port_ids.append(world.make(interface=None))

    world.neutron.during["GET", ""] = another
    world.ports.clean()
    assert port_ids[0] in world.neutron.books
    world.harness.now += AGAIN.total_seconds() + 1
    world.ports.clean()
    assert port_ids[0] not in world.neutron.books


def test_the_port_of_an_attachment_that_succeeded_stays(world: World) -> None:
    world.harness.conductor.expect_port(CTX, instance_uuid=world.server, network_id="net-1")
    attached = world.make(interface=None)
    nic = {2: RequestedNic(network_id="net-1", port_id=attached, service=NEUTRON)}
    world.worker.run(
        lambda session: neutron_ports.add(session, world.server, "demo", OWNER, nic, made_for_instance=True)
    )
    world.ports.bind(world.server, 1, "a")
    world.harness.now += AGAIN.total_seconds() + 1
    world.ports.clean()
    assert attached in world.neutron.books
    assert world.rows() == 3


def test_a_server_that_has_gone_expects_no_port(world: World) -> None:
    world.delete()
    with pytest.raises(errors.NotFound):
        world.harness.conductor.expect_port(CTX, instance_uuid=world.server, network_id="net-1")


# -- what Neutron refuses ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [errors.BadRequest, errors.Conflict, errors.ServiceUnavailable])
def test_a_port_that_neutron_keeps_holds_up_no_other(world: World, error: type[errors.MinovaError]) -> None:
    """Neither of its server, nor of another one, nor what is to be unbound. It is tried again, and then the row goes."""
    world.ports.bind(world.server, 1, "a")
    (new,) = world.made()
    world.delete()

    def refuse() -> None:
        raise error("no")

    world.neutron.during["DELETE", new["id"]] = refuse
    unbound = []
    world.ports._cleaning.unbind = lambda: unbound.append(True)  # type: ignore[method-assign]
    world.ports.clean()
    assert world.neutron.books[USERS_PORT]["device_id"] == ""
    assert unbound == [True]
    requests = world.neutron.requests
    world.ports.clean()
    assert world.neutron.requests == requests, "it waits"
    world.neutron.during.clear()
    world.harness.now += BACKOFF.longest
    world.ports.clean()
    assert world.made() == []


# -- what is gone in Neutron -------------------------------------------------------------------------------------------


def test_a_port_without_its_device_id_is_not_gone(world: World) -> None:
    """Its user took the id away: the guest has the port."""
    before = world.ports.bind(world.server, 1, "a")
    (new,) = world.made()
    new["device_id"] = ""
    world.ports.heal()
    assert world.described() == before
    world.harness.now += 2 * AGAIN.total_seconds()
    world.ports.clean()
    assert new["id"] in world.neutron.books


def test_a_port_that_comes_back_is_not_deleted_while_its_server_lives(world: World) -> None:
    """Neutron said that it is gone, which was not true."""
    world.ports.bind(world.server, 1, "a")
    (new,) = world.made()
    kept = world.neutron.books.pop(new["id"])
    world.ports.heal()
    assert len(world.described()) == 1
    world.neutron.books[new["id"]] = kept
    for _ in range(3):
        world.ports.clean()
        world.harness.now += 2 * AGAIN.total_seconds()
    assert new["id"] in world.neutron.books


# -- servers that leave their hosts, and come back -----------------------------------------------------------------------


def shelved(world: World) -> None:
    world.ports.bind(world.server, 1, "a")
    world.place(None, 1, vm_state="shelved_offloaded", task_state=None)


def test_a_server_that_comes_back_meanwhile_keeps_its_host(world: World) -> None:
    """It is unshelved between the two ports."""
    shelved(world)
    (new,) = world.made()
    world.neutron.during["PUT", new["id"]] = lambda: world.place(None, 1, task_state="unshelving")
    world.ports.unbind()
    assert world.neutron.books[USERS_PORT]["binding:host_id"] == "a"


@pytest.mark.parametrize("host", ["a", "b"])
def test_a_port_that_a_host_takes_while_it_is_unbound_is_bound_again(world: World, host: str) -> None:
    """Another conductor has bound it before Neutron unbinds it."""
    shelved(world)
    second = world.another()
    (new,) = world.made()

    def taken() -> None:
        world.neutron.during.clear()
        world.place(host, 2, task_state="spawning")
        second.bind(world.server, 2, host)

    world.neutron.during["PUT", new["id"]] = taken
    world.ports.unbind()
    assert {port["binding:host_id"] for port in world.neutron.books.values()} == {host}
    with world.harness.db.read() as session:
        assert set(session.scalars(select(models.NeutronPort.host))) == {host}


def test_a_conductor_that_dies_before_it_binds_again_is_made_good(world: World) -> None:
    """The next look at the server's interfaces finds it."""
    world.ports.bind(world.server, 1, "a")
    world.place("a", 1, vm_state="active", task_state=None)
    (new,) = world.made()
    new["binding:host_id"] = ""
    world.ports.heal()
    assert new["binding:host_id"] == "a"


def test_a_server_is_not_bound_while_it_is_unbound(world: World) -> None:
    """Of one conductor: its host asks again."""
    shelved(world)
    refused = []

    def bind() -> None:
        with pytest.raises(errors.ServiceUnavailable, match="worked on already"):
            world.ports.bind(world.server, 1, "a")
        refused.append(True)

    world.neutron.during["PUT", USERS_PORT] = bind
    world.ports.unbind()
    assert refused == [True]
