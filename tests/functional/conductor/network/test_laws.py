"""What holds of addresses after any sequence of requests, good and bad: compared with a model that counts on its fingers."""

import uuid
from contextlib import suppress
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from minova import errors
from minova.db import models
from minova.db.networks import ports, subnets
from minova.objects.network.addresses import candidates_after, in_pools
from minova.objects.network.network import AddressRequest, Network, Port, Subnet
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness, new_request
from tests.functional.conductor.network_cases import network, port, size_of, subnet
from tests.functional.conductor.quota_cases import used

# Full soon: 5, 1 and 3 addresses for ports.
RANGES = (("10.1.0.0/29", 0), ("10.1.1.0/30", 0), ("10.2.0.0/29", 1), ("fd00::/126", 1))
MACS = ("fa:16:3e:00:00:01", "fa:16:3e:00:00:02")

numbers = st.integers(0, 5)
fixed = st.one_of(
    st.none(),
    st.lists(st.tuples(st.sampled_from((0, 1, 2, 3, None)), st.one_of(st.none(), st.integers(0, 8))), max_size=3),
)
operations = st.lists(
    st.one_of(
        st.tuples(st.just("create"), st.integers(0, 1), fixed, st.sampled_from((*MACS, "", "", ""))),
        st.tuples(st.just("update"), numbers, fixed, st.sampled_from((*MACS, None))),
        st.tuples(st.just("delete"), numbers, st.none(), st.none()),
        st.tuples(st.just("delete_subnet"), st.integers(0, 3), st.none(), st.none()),
        st.tuples(st.just("delete_network"), st.integers(0, 1), st.none(), st.none()),
    ),
    max_size=25,
)
REFUSALS = (errors.BadRequest, errors.Conflict, errors.NotFound, errors.IpAddressGenerationFailure)


class World:
    """`ports`: what the conductor has answered, which is what must be in the tables."""

    def __init__(self, harness: ConductorHarness) -> None:
        self.harness = harness
        self.networks = [network(harness), network(harness)]
        self.subnets = [subnet(harness, self.networks[of], cidr) for cidr, of in RANGES]
        self.ports: dict[str, Port] = {}

    def run(self, what: str, number: int, addresses: Any, mac: Any) -> None:
        try:
            getattr(self, what)(number, addresses, mac)
        except REFUSALS as refusal:
            self.check_refusal(what, number, addresses, refusal)

    def create(self, number: int, addresses: Any, mac: Any) -> None:
        new_port = Port(id=str(uuid.uuid4()), network_id=self.networks[number].id, project_id="demo", mac_address=mac)
        answer = self.harness.conductor.create_port(CTX, port=new_port, fixed_ips=self.requests(addresses))
        self.ports[answer.id] = answer

    def update(self, number: int, addresses: Any, mac: Any) -> None:
        port = self.nth(number)
        changed = port if mac is None else msgspec.structs.replace(port, mac_address=mac)
        answer = self.harness.conductor.update_port(CTX, port=changed, fixed_ips=self.requests(addresses))
        self.ports[answer.id] = answer

    def delete(self, number: int, _: Any, __: Any) -> None:
        port = self.nth(number)
        self.harness.conductor.delete_port(new_request(), port_id=port.id)
        del self.ports[port.id]

    def delete_subnet(self, number: int, _: Any, __: Any) -> None:
        self.harness.conductor.delete_subnet(CTX, subnet_id=self.subnets[number].id)
        assert not any(ip.subnet_id == self.subnets[number].id for port in self.ports.values() for ip in port.fixed_ips)

    def delete_network(self, number: int, _: Any, __: Any) -> None:
        self.harness.conductor.delete_network(CTX, network_id=self.networks[number].id)
        assert not any(port.network_id == self.networks[number].id for port in self.ports.values())

    def nth(self, number: int) -> Port:
        if not self.ports:
            raise errors.NotFound("There is no port.")
        return list(self.ports.values())[number % len(self.ports)]

    def requests(self, addresses: Any) -> tuple[AddressRequest, ...] | None:
        if addresses is None:
            return None
        return tuple(self.request(*each) for each in addresses)

    def request(self, of: int | None, host: int | None) -> AddressRequest:
        """Of a subnet, or of none; with an address of the first range, or of the subnet's."""
        named: Subnet = self.subnets[of or 0]
        address = None if host is None else f"{named.cidr.partition('/')[0][:-1]}{host}"
        if address is not None and ":" in address:
            address = f"fd00::{host}"
        return AddressRequest(subnet_id=None if of is None else named.id, ip_address=address)

    def check_refusal(self, what: str, number: int, addresses: Any, refusal: Exception) -> None:
        """No address is refused while one is left."""
        if isinstance(refusal, errors.IpAddressGenerationFailure) and what == "create" and addresses is None:
            versions = {4: 0, 6: 0}
            for row in self.rows_of(self.networks[number]):
                versions[row.ip_version] += self.free(row)
            assert 0 in {versions[row.ip_version] for row in self.rows_of(self.networks[number])}

    def rows_of(self, on: Network) -> list[models.Subnet]:
        with self.harness.db.read() as session:
            query = select(models.Subnet).join(models.Network, models.Network.id == models.Subnet.network_id)
            return list(session.scalars(query.where(models.Network.uuid == on.id)))

    def free(self, row: models.Subnet) -> int:
        pools = subnets.pools_of(row)
        given = self.given(row)
        return len([each for each in candidates_after(pools, None, 100) if each not in given])

    def given(self, row: models.Subnet) -> set[str]:
        with self.harness.db.read() as session:
            allocation = models.IpAllocation
            return set(session.scalars(select(allocation.address).where(allocation.subnet_id == row.id)))

    def check(self) -> None:
        """No address or MAC twice, none leaked, used + free = pool, and quotas count what is there."""
        with self.harness.db.read() as session:
            stored = {row.uuid: row for row in session.scalars(select(models.Port))}
            allocations = session.execute(
                select(models.Port.uuid, models.Subnet.uuid, models.IpAllocation.address)
                .join(models.Port, models.Port.id == models.IpAllocation.port_id)
                .join(models.Subnet, models.Subnet.id == models.IpAllocation.subnet_id)
            ).all()
            every = session.query(models.IpAllocation).count()
        assert stored.keys() == self.ports.keys()
        assert {row.mac_address for row in stored.values()} == {port.mac_address for port in self.ports.values()}
        assert len({port.mac_address for port in self.ports.values()}) == len(self.ports)
        expected = [(port.id, ip.subnet_id, ip.ip_address) for port in self.ports.values() for ip in port.fixed_ips]
        assert sorted(tuple(each) for each in allocations) == sorted(expected)
        assert len({each[1:] for each in expected}) == len(expected) == every
        for on in self.networks:
            for row in self.rows_of(on):
                pools = subnets.pools_of(row)
                in_pool = [each for each in self.given(row) if in_pools(pools, each)]
                assert len(in_pool) + self.free(row) == size_of(pools)
                assert row.gateway_ip not in self.given(row)
        assert used(self.harness).get("ports", 0) == len(self.ports)
        assert used(self.harness).get("subnets", 0) == self.harness.count(models.Subnet)
        assert used(self.harness).get("networks", 0) == self.harness.count(models.Network)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=operations)
def test_no_address_is_given_twice_or_lost(harness: ConductorHarness, steps: list[Any]) -> None:
    groups = (models.PortSecurityGroup, models.SecurityGroupRule, models.SecurityGroup)
    for table in (models.IpAllocation, *groups, models.Port, models.Subnet, models.Network, models.QuotaUsage):
        harness.db.run(lambda session, table=table: session.query(table).delete())  # type: ignore[misc]  # a default binds the loop's variable
    world = World(harness)
    for what, number, addresses, mac in steps:
        world.run(what, number, addresses, mac)
    world.check()


class Attachments:
    """Two servers on a network of five addresses, a port that was there before, and a host that does its part well, badly or not
    at all.
    """

    def __init__(self, harness: ConductorHarness) -> None:
        self.harness = harness
        self.network = network(harness)
        self.subnet = subnet(harness, self.network, "10.9.0.0/29")
        self.servers = [harness.active() for _ in range(2)]
        self.reports: list[dict[str, Any]] = []
        self.deleted: set[str] = set()

    def begin(self) -> None:
        """No server has an interface, and there is one port."""
        for server in self.servers:
            self.harness.acted(server, "reboot_hard")
            for port_id in self.ports_of(server):
                self.harness.conductor.delete_port(new_request(), port_id=port_id)
                self.said(server, 0)
        with self.harness.db.read() as session:
            left = list(session.scalars(select(models.Port.uuid)))
        for port_id in left:
            self.harness.conductor.delete_port(new_request(), port_id=port_id)
        self.own = port(self.harness, self.network).id
        self.reports.clear()
        self.deleted.clear()

    def ports_of(self, server: str) -> list[str]:
        with self.harness.db.read() as session:
            return [attached_port.id for attached_port in ports.of_instance(session, server)]

    def run(self, what: str, number: int) -> None:
        with suppress(errors.Forbidden, *REFUSALS):
            getattr(self, what)(self.servers[number % 2], number)

    def ask(self, server: str, action: str, arguments: dict[str, Any]) -> None:
        self.harness.conductor.start_action(new_request(), instance_uuid=server, action=action, arguments=arguments)
        self.reports.append({"instance_uuid": server, "action_id": self.harness.action_id(server), "host": "a"})

    def attach(self, server: str, number: int) -> None:
        interface = {"id": str(uuid.uuid4()), "network_id": self.network.id}
        self.ask(server, "attach_interface", {"interface": interface})

    def attach_own(self, server: str, number: int) -> None:
        interface = {"id": str(uuid.uuid4()), "network_id": self.network.id, "port_id": self.own}
        self.ask(server, "attach_interface", {"interface": interface})

    def detach(self, server: str, number: int) -> None:
        for port_id in self.ports_of(server)[number // 2 :][:1]:
            self.ask(server, "detach_interface", {"port_id": port_id})

    def remove_port(self, server: str, number: int) -> None:
        for port_id in self.ports_of(server)[:1]:
            self.harness.conductor.delete_port(new_request(), port_id=port_id)
            self.deleted.add(port_id)

    def gone(self, server: str, number: int) -> None:
        """The host says so of a port that is deleted."""
        with self.harness.db.read() as session:
            macs = select(models.Port.mac_address).where(models.Port.uuid.in_(ports.pending_delete_of(session, server)))
            known_macs = list(session.scalars(macs.order_by(models.Port.id)))
        for mac in known_macs[:1]:
            self.harness.conductor.interface_detached(CTX, instance_uuid=server, mac_address=mac, host="a")

    def address(self, server: str, number: int) -> None:
        with self.harness.db.read() as session:
            attached = ports.of_instance(session, server)
        for attached_port in attached[:1]:
            addresses = (AddressRequest(ip_address=f"10.9.0.{2 + number}"),)
            self.harness.conductor.update_port(CTX, port=attached_port, fixed_ips=addresses)

    def reboot(self, server: str, number: int) -> None:
        self.harness.acted(server, "reboot_hard")

    def said(self, server: str, number: int) -> None:
        """By the host, of the action in progress."""
        task = self.harness.task(server)
        if task is None:
            return
        report: dict[str, Any] = {"instance_uuid": server, "action_id": task.action_id, "host": "a"}
        if number < 4:
            self.harness.conductor.action_succeeded(CTX, **report, power_state=1)
        else:
            # Its guest has nothing of an interface that was to be attached, or that is not known.
            self.harness.conductor.action_failed(CTX, **report, reason="no", untouched=number == 4)

    def late(self, server: str, number: int) -> None:
        """A report of any action, also of one that has ended."""
        for report in self.reports[number : number + 1]:
            self.harness.conductor.action_succeeded(CTX, **report, power_state=1)
            self.harness.conductor.action_failed(CTX, **report, reason="late")

    def check(self) -> None:
        with self.harness.db.read() as session:
            rows = list(session.scalars(select(models.Port)))
            given = list(session.scalars(select(models.IpAllocation.address)))
            assert not [port_id for port_id in self.deleted if ports.find(session, port_id) is not None], (
                "it comes back"
            )
        assert len(set(given)) == len(given) == len(rows) <= 5
        assert used(self.harness).get("ports", 0) == len(rows)
        assert len({row.mac_address for row in rows}) == len(rows)
        for row in rows:
            # What was made for a server goes with it, and is nowhere without it.
            assert (row.instance_uuid in self.servers) == bool(row.device_id)
            assert row.made_for_instance or row.uuid == self.own
            assert row.instance_uuid is not None or row.uuid == self.own
        for server in self.servers:
            numbers = [row.nic for row in rows if row.instance_uuid == server]
            assert len(set(numbers)) == len(numbers)
            task = self.harness.task(server)
            assert task is None or task.kind in ("attach_interface", "detach_interface")


steps_of_interfaces = st.lists(
    st.tuples(
        st.sampled_from(
            ("attach", "attach_own", "detach", "remove_port", "address", "reboot", "said", "said", "late", "gone")
        ),
        numbers,
    ),
    max_size=20,
)


def test_interfaces_that_come_and_go_leave_no_address_and_no_port(harness: ConductorHarness) -> None:
    world = Attachments(harness)

    @settings(max_examples=30, deadline=None)
    @given(steps=steps_of_interfaces)
    def law(steps: list[tuple[str, int]]) -> None:
        world.begin()
        for what, number in steps:
            world.run(what, number)
            world.check()

    law()
