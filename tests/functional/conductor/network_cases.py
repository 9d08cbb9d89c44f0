"""Networks, subnets and ports on every engine: no address and no MAC twice, also when many ask at once."""

import threading
import uuid
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from ipaddress import ip_address
from typing import Any

import msgspec
import pytest
from sqlalchemy import select, update
from sqlalchemy.orm import Session

from minova import errors
from minova.conductor.network.local_ranges import NAMESPACES
from minova.conductor.network.ports import PortCreation
from minova.db import models
from minova.db.networks import group_members, networks, subnets, vifs
from minova.db.networks import ports as stored_ports
from minova.db.networks.pages import Page
from minova.db.networks.tags import TagFilter, of_resources
from minova.objects.network.addresses import default_pools, parse_cidr
from minova.objects.network.network import (
    AddressPair,
    AddressRequest,
    AllocationPool,
    Network,
    NewPort,
    Port,
    SecurityGroup,
    SecurityGroupRule,
    Subnet,
)
from minova.objects.network.vif import MAX_RANGES, VifAddress, VifRule, VifSubnet
from minova.objects.requests.build_extras import RequestedNic
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness, new_request, request
from tests.functional.conductor.quota_cases import at_once, limit, used

PROJECT = CTX.project_id
# The default group of a project that has ports.
GROUPS = {"security_group": 1, "security_group_rule": 4}


def network(harness: ConductorHarness, **values: Any) -> Network:
    network = Network(id=str(uuid.uuid4()), project_id=PROJECT, **values)
    return harness.conductor.create_networks(CTX, networks=(network,))[0]


def new_subnet(on: Network, cidr: str, **values: Any) -> Subnet:
    block = parse_cidr(cidr, 6 if ":" in cidr else 4)
    gateway = str(block[1])
    return Subnet(
        id=str(uuid.uuid4()),
        network_id=on.id,
        project_id=PROJECT,
        ip_version=block.version,
        cidr=str(block),
        gateway_ip=gateway,
        allocation_pools=values.pop("allocation_pools", default_pools(block, gateway)),
        **values,
    )


def subnet(harness: ConductorHarness, on: Network, cidr: str, **values: Any) -> Subnet:
    return harness.conductor.create_subnets(CTX, subnets=(new_subnet(on, cidr, **values),))[0]


def port(harness: ConductorHarness, on: Network, *addresses: str, **values: Any) -> Port:
    """With these addresses, or with the next free ones."""
    port = Port(id=str(uuid.uuid4()), network_id=on.id, project_id=PROJECT, **values)
    fixed = tuple(AddressRequest(ip_address=address) for address in addresses)
    return harness.conductor.create_port(CTX, port=port, fixed_ips=fixed or None)


def addresses_of(ports: Sequence[Port]) -> list[str]:
    return [fixed.ip_address for port in ports for fixed in port.fixed_ips]


class NetworkCases:
    def test_tags_are_compared_letter_by_letter_and_go_with_their_resource(self, harness: ConductorHarness) -> None:
        blue, green = network(harness, name="blue"), network(harness, name="green")
        conductor = harness.conductor

        def tag(one: Network, **more: Any) -> tuple[str, ...]:
            return conductor.update_network_tags(CTX, kind="network", resource_id=one.id, **more)

        assert tag(blue, add=("Red", "red", "é")) == ("Red", "red", "é")
        assert tag(green, add=("red ", "e")) == ("e", "red ")

        def found(**wanted: tuple[str, ...]) -> list[str]:
            page = Page(limit=10, tags=TagFilter(**wanted))
            with harness.db.read() as session:
                return [visible_network.name for visible_network in networks.visible(session, PROJECT, {}, page)]

        assert (found(every=("red",)), found(every=("Red",)), found(every=("red ",))) == (["blue"], ["blue"], ["green"])
        assert (found(some=("é", "RED")), found(not_some=("red", "RED"))) == (["blue"], ["green"])
        assert found(not_every=("red", "e")) == ["blue", "green"]
        assert tag(blue, add=("red", "new"), remove=None) == ("new", "red")
        assert tag(blue, remove=("absent", "new")) == ("red",)
        conductor.delete_network(CTX, network_id=blue.id)
        with harness.db.read() as session:
            assert session.scalars(select(models.NetworkTag.resource_id).distinct()).all() == [green.id]

    def test_tags_that_come_at_the_same_time_all_stay(self, harness: ConductorHarness) -> None:
        blue = network(harness)
        add = harness.conductor.update_network_tags
        at_once(lambda number: add(CTX, kind="network", resource_id=blue.id, add=("abcdefgh"[number],)))
        with harness.db.read() as session:
            assert of_resources(session, [blue.id]) == {blue.id: list("abcdefgh")}

    def test_several_are_made_all_or_none(self, harness: ConductorHarness) -> None:
        blue, green = network(harness), network(harness)
        wrong = (new_subnet(blue, "10.1.0.0/24"), new_subnet(green, "10.2.0.0/24"), new_subnet(blue, "10.1.0.0/25"))
        with pytest.raises(errors.OverlappingSubnets):
            harness.conductor.create_subnets(CTX, subnets=wrong)
        assert used(harness).get("subnets", 0) == 0
        harness.conductor.create_subnets(CTX, subnets=wrong[:2])
        new = tuple(
            NewPort(port=Port(id=str(uuid.uuid4()), network_id=on.id, project_id=PROJECT)) for on in (blue, green, blue)
        )
        ports = harness.conductor.create_ports(CTX, ports=new)
        assert addresses_of(ports) == ["10.1.0.2", "10.2.0.2", "10.1.0.3"]
        assert (used(harness)["subnets"], used(harness)["ports"]) == (2, 3)

    def test_local_networks_have_addresses_of_their_ranges_alone(self, harness: ConductorHarness) -> None:
        """Hosts have routes to them: 192.0.2.8/30 would take the traffic to a broker there."""
        harness.options["networks__local_ranges"] = ["10.128.0.0/9", "fd00::/8"]
        conductor = harness.start("two")
        blue = network(harness)

        def make(cidr: str, version: int) -> Subnet:
            subnet = Subnet(id=str(uuid.uuid4()), network_id=blue.id, project_id=PROJECT, cidr=cidr, ip_version=version)
            return conductor.create_subnets(CTX, subnets=(subnet,))[0]

        for cidr, version in (("192.0.2.8/30", 4), ("10.0.0.0/8", 4), ("2001:db8::/64", 6)):
            with pytest.raises(errors.BadRequest, match="not in a range of local networks"):
                make(cidr, version)
        assert make("10.200.0.0/24", 4).cidr == "10.200.0.0/24"
        assert make("fd00:1::/64", 6).cidr == "fd00:1::/64"

    def test_projects_choose_private_ranges_for_local_networks(self, harness: ConductorHarness) -> None:
        """With no setting: no project takes the traffic of a hosts' to addresses that are not its own."""
        local = network(harness)
        for cidr, reason in (
            ("192.0.2.0/24", "is not private"),
            ("2001:db8::/64", "is not private"),
            ("10.0.0.0/15", "prefix length of a local network's is 16"),
            ("fd00::/40", "prefix length of a local network's is 48"),
        ):
            with pytest.raises(errors.BadRequest, match=reason):
                subnet(harness, local, cidr)
        for cidr in ("10.1.0.0/16", "172.16.0.0/24", "192.168.1.0/24", "100.64.0.0/24", "fd00::/48"):
            assert subnet(harness, local, cidr).cidr == cidr
        flat = network(harness, network_type="flat", physical_network="dc1")
        assert subnet(harness, flat, "192.0.2.0/24").cidr == "192.0.2.0/24"
        # An administrator answers for the cloud.
        block = parse_cidr("198.18.0.0/15", 4)
        public = Subnet(id=str(uuid.uuid4()), network_id=local.id, project_id=PROJECT, ip_version=4, cidr=str(block))
        assert harness.conductor.create_subnets(CTX, subnets=(public,), any_range=True)[0].cidr == "198.18.0.0/15"

    def test_ranges_of_networks_in_namespaces_may_overlap(self, harness: ConductorHarness) -> None:
        """Each host has namespaces. Neither an error nor a reservation tells a project of the ranges of others."""
        harness.levels["compute"] = NAMESPACES
        blue, green = network(harness), network(harness)
        for on in (blue, green):
            for cidr in ("10.1.0.0/16", "8.8.8.0/24", "172.16.0.0/12", "2001:db8::/32"):
                assert subnet(harness, on, cidr).cidr == cidr
            with pytest.raises(errors.OverlappingSubnets):
                subnet(harness, on, "10.1.128.0/24")

    def test_ranges_are_exclusive_while_a_host_has_no_namespaces(self, harness: ConductorHarness) -> None:
        blue, green = network(harness), network(harness)
        subnet(harness, blue, "10.1.0.0/16")
        for level in ({}, {"compute": "1.1"}, {"compute": "1.3"}):
            harness.levels = level
            with pytest.raises(errors.OverlappingSubnets, match="another local network"):
                subnet(harness, green, "10.1.2.0/24")
            with pytest.raises(errors.BadRequest, match="not private"):
                subnet(harness, green, "192.0.2.0/24")

    def test_reachable_networks_share_no_addresses(self, harness: ConductorHarness) -> None:
        """With each other and with hosts, whatever is first: the subnet or the wish to reach it."""
        harness.levels["compute"] = NAMESPACES
        reachable, other, hidden = network(harness, reachable=True), network(harness, reachable=True), network(harness)
        subnet(harness, reachable, "10.1.0.0/16")
        with pytest.raises(errors.OverlappingSubnets, match="another reachable network"):
            subnet(harness, other, "10.1.2.0/24")
        subnet(harness, other, "10.2.0.0/16")
        for cidr in ("10.1.0.0/16", "10.3.0.0/16"):
            subnet(harness, hidden, cidr)
        changed = msgspec.structs.replace(hidden, reachable=True)
        with pytest.raises(errors.OverlappingSubnets, match="another reachable network"):
            harness.conductor.update_network(CTX, network=changed)
        freed = msgspec.structs.replace(reachable, reachable=False)
        assert not harness.conductor.update_network(CTX, network=freed).reachable
        assert harness.conductor.update_network(CTX, network=changed).reachable
        with pytest.raises(errors.BadRequest, match="not private"):
            subnet(harness, hidden, "192.0.2.0/24")
        with harness.db.write() as session:
            session.execute(update(models.ComputeNode).values(host_ip="198.51.100.7"))
        of_host = new_subnet(hidden, "198.51.100.0/24")
        with pytest.raises(errors.BadRequest, match="contains a host's address, 198"):
            harness.conductor.create_subnets(CTX, subnets=(of_host,), any_range=True)[0]

    def test_networks_made_reachable_at_once_share_no_addresses(self, harness: ConductorHarness) -> None:
        harness.levels["compute"] = NAMESPACES
        networks = [network(harness) for _ in range(4)]
        for each_network in networks:
            subnet(harness, each_network, "10.1.0.0/16")

        def ask(number: int) -> Network:
            changed = msgspec.structs.replace(networks[number], reachable=True)
            return harness.conductor.update_network(CTX, network=changed)

        kinds = [type(answer) for answer in at_once(ask, 4)]
        assert (kinds.count(Network), kinds.count(errors.OverlappingSubnets)) == (1, 3)

    def test_network_with_ports_of_others_stays_shared(self, harness: ConductorHarness) -> None:
        new_network = network(harness, shared=True)
        own = port(harness, new_network)
        alien = Port(id=str(uuid.uuid4()), network_id=new_network.id, project_id="other")
        harness.conductor.create_port(CTX, port=alien, fixed_ips=None)
        private = msgspec.structs.replace(new_network, shared=False)
        with pytest.raises(errors.InvalidSharedSetting, match="Multiple tenants are using it"):
            harness.conductor.update_network(CTX, network=private)
        harness.conductor.delete_port(new_request(), port_id=alien.id)
        assert not harness.conductor.update_network(CTX, network=private).shared
        harness.conductor.delete_port(new_request(), port_id=own.id)

    @pytest.mark.parametrize("full", [False, True], ids=["its first subnet", "the second one, as the first is full"])
    def test_port_gets_an_address_of_a_subnet_that_is_made_while_it_waits(
        self, harness: ConductorHarness, full: bool
    ) -> None:
        harness.conductor.ensure_default_security_group(CTX, project_id=PROJECT)
        blue = network(harness, network_type="flat", physical_network="dc1")
        if full:
            subnet(harness, blue, "10.1.0.0/30")
            port(harness, blue)
        ports: list[Port] = []
        asking = threading.Thread(target=lambda: ports.append(port(harness, blue)))
        with harness.db.write() as session:
            row = networks.lock(session, blue.id)
            assert row is not None
            assert blue.created_at is not None
            asking.start()
            asking.join(0.5)
            assert asking.is_alive(), "it waits for the network"
            subnets.add(session, new_subnet(blue, "10.2.0.0/24"), row.id, blue.created_at)
        asking.join(60)
        assert addresses_of(ports) == ["10.2.0.2"]

    def test_32_callers_at_once_get_different_addresses(self, harness: ConductorHarness) -> None:
        """Of a /27, whose 29 addresses are for ports: three callers are refused, and no address is left over or given twice."""
        blue = network(harness)
        subnet(harness, blue, "10.1.0.0/27")
        conductors = [harness.conductor, harness.start("two")]

        def ask(number: int) -> Port:
            port = Port(id=str(uuid.uuid4()), network_id=blue.id, project_id=PROJECT)
            return conductors[number % 2].create_port(CTX, port=port, fixed_ips=None)

        answers = at_once(ask, 32)
        ports = [answer for answer in answers if isinstance(answer, Port)]
        refusals = [type(answer) for answer in answers if not isinstance(answer, Port)]
        assert refusals == [errors.IpAddressGenerationFailure] * 3
        assert sorted(addresses_of(ports)) == sorted(f"10.1.0.{number}" for number in range(2, 31))
        assert len({port.mac_address for port in ports}) == 29
        assert used(harness) == {"networks": 1, "subnets": 1, "ports": 29, **GROUPS}
        # As many at once give theirs back, and others take them meanwhile.
        halves = [ports[:14], ports[14:]]
        at_once(lambda number: harness.conductor.delete_port(new_request(), port_id=halves[0][number].id), 14)
        answers = at_once(lambda number: _exchange(harness, blue, halves[1], number), 28)
        assert [answer for answer in answers if isinstance(answer, Exception)] == []
        left = harness.count(models.IpAllocation)
        assert left == harness.count(models.Port) == used(harness)["ports"] == 15

    def test_ports_that_are_made_together_get_different_addresses(self, harness: ConductorHarness) -> None:
        """Those that name addresses get them, whatever place they have; what is answered is what stands in the rows."""
        blue, green = network(harness), network(harness)
        front = subnet(harness, blue, "10.1.0.0/24")
        subnet(harness, blue, "fd00:1::/64")
        subnet(harness, green, "10.2.0.0/24")
        ports = harness.conductor.collaborators.ports
        harness.conductor.ensure_default_security_group(CTX, project_id=PROJECT)
        group = SecurityGroup(id=str(uuid.uuid4()), name="web", project_id=PROJECT)
        harness.conductor.create_security_groups(CTX, groups=(group,))[0]

        def new(on: Network, *fixed: AddressRequest, **values: Any) -> PortCreation:
            port = Port(id=str(uuid.uuid4()), network_id=on.id, project_id=PROJECT, **values)
            return PortCreation(CTX, port, fixed or None)

        new_ports = [
            new(blue, name="first"),
            new(green, security_groups=(group.id,)),
            new(blue, AddressRequest(subnet_id=front.id), mac_address="fa:16:3e:00:00:07"),
            new(blue, AddressRequest(ip_address="10.1.0.3"), port_security_enabled=False),
            new(blue),
        ]
        created = harness.db.run(lambda session: ports.add(session, new_ports, ports.lock(session, new_ports)))
        assert [[fixed.ip_address for fixed in new_port.fixed_ips] for new_port in created] == [
            ["10.1.0.4", "fd00:1::2"],
            ["10.2.0.2"],
            ["10.1.0.2"],
            ["10.1.0.3"],
            ["10.1.0.5", "fd00:1::3"],
        ]
        assert [new_port.name for new_port in created] == ["first", "", "", "", ""]
        assert (created[1].security_groups, created[3].security_groups) == ((group.id,), ())
        assert (created[2].mac_address, len({new_port.mac_address for new_port in created})) == ("fa:16:3e:00:00:07", 5)
        with harness.db.read() as session:
            assert [stored_ports.find(session, new_port.id) for new_port in created] == created
        again = [new(blue, AddressRequest(ip_address="10.1.0.9")) for _ in range(2)]
        with pytest.raises(errors.IpAddressAlreadyAllocated):
            harness.db.run(lambda session: ports.add(session, again, ports.lock(session, again)))

    def test_one_of_many_gets_the_same_fixed_address_or_mac(self, harness: ConductorHarness) -> None:
        blue = network(harness)
        subnet(harness, blue, "10.1.0.0/24")
        answers = at_once(lambda _: port(harness, blue, "10.1.0.9"), 8)
        assert sorted(type(answer).__name__ for answer in answers) == ["IpAddressAlreadyAllocated"] * 7 + ["Port"]
        answers = at_once(lambda _: port(harness, blue, mac_address="fa:16:3e:00:00:01"), 8)
        assert sorted(type(answer).__name__ for answer in answers) == ["MacAddressInUse"] * 7 + ["Port"]
        assert used(harness)["ports"] == harness.count(models.Port) == 2

    def test_overlapping_subnets_at_once_become_one(self, harness: ConductorHarness) -> None:
        """On one network, and on local networks, which share the addresses of their hosts."""
        networks = [network(harness) for _ in range(4)]
        answers = at_once(lambda number: subnet(harness, networks[number % 4], f"10.1.0.0/{16 + number}"), 8)
        kinds = [type(answer) for answer in answers]
        assert (kinds.count(Subnet), kinds.count(errors.OverlappingSubnets)) == (1, 7)
        assert used(harness)["subnets"] == 1

    def test_network_is_deleted_or_gets_ports_never_both(self, harness: ConductorHarness) -> None:
        # The project gets its default group with its first port, and in the first round there may be none.
        red = network(harness)
        harness.conductor.delete_port(new_request(), port_id=port(harness, red).id)
        harness.conductor.delete_network(CTX, network_id=red.id)
        for _ in range(5):
            blue = network(harness)
            subnet(harness, blue, "10.1.0.0/24")

            def ask(number: int, blue: Network = blue) -> Any:
                if number == 2:
                    return harness.conductor.delete_network(CTX, network_id=blue.id)
                return port(harness, blue)

            answers = at_once(ask, 4)
            gone = answers[2] is None
            assert {type(answer).__name__ for answer in [*answers[:2], answers[3]]} <= {"Port", "NetworkNotFound"}
            for each_port in (answer for answer in answers if isinstance(answer, Port)):
                assert not gone
                harness.conductor.delete_port(new_request(), port_id=each_port.id)
            if not gone:
                assert isinstance(answers[2], errors.NetworkInUse)
                harness.conductor.delete_network(CTX, network_id=blue.id)
            assert used(harness) == GROUPS
            assert harness.count(models.Subnet) == harness.count(models.IpAllocation) == 0

    def test_stale_change_is_refused(self, harness: ConductorHarness) -> None:
        blue = network(harness)
        renamed = msgspec.structs.replace(blue, name="blue")
        assert harness.conductor.update_network(CTX, network=renamed).revision_number == 2
        with pytest.raises(errors.RevisionNumberConstraintFailed):
            harness.conductor.update_network(CTX, network=renamed)
        new_subnet = subnet(harness, blue, "10.1.0.0/24")
        assert harness.conductor.update_subnet(CTX, subnet=new_subnet).revision_number == 2
        with pytest.raises(errors.RevisionNumberConstraintFailed):
            harness.conductor.update_subnet(CTX, subnet=new_subnet)
        new_port = port(harness, blue)
        assert harness.conductor.update_port(CTX, port=new_port, fixed_ips=None).fixed_ips == new_port.fixed_ips
        with pytest.raises(errors.RevisionNumberConstraintFailed):
            harness.conductor.update_port(CTX, port=new_port, fixed_ips=())
        assert harness.count(models.IpAllocation) == 1

    def test_full_quota_gives_no_address(self, harness: ConductorHarness) -> None:
        blue = network(harness)
        subnet(harness, blue, "10.1.0.0/24")
        limit(harness, ports=3)
        answers = at_once(lambda _: port(harness, blue), 6)
        assert [type(answer) for answer in answers].count(errors.Forbidden) == 3
        assert harness.count(models.Port) == harness.count(models.IpAllocation) == used(harness)["ports"] == 3

    def test_large_subnets_give_and_find_addresses(self, harness: ConductorHarness) -> None:
        """Of 2**64 addresses none is counted one by one; a gap far behind the last address is found all the same."""
        blue = network(harness)
        subnet(harness, blue, "fd00:1:1::/64")
        new_port = port(harness, blue)
        assert addresses_of([new_port]) == ["fd00:1:1::2"]
        four = network(harness)
        subnet(harness, four, "10.1.0.0/26")
        every = [port(harness, four) for _ in range(61)]
        harness.conductor.delete_port(new_request(), port_id=every[30].id)
        assert addresses_of([port(harness, four)]) == addresses_of([every[30]])
        with pytest.raises(errors.IpAddressGenerationFailure):
            port(harness, four)

    def test_ids_of_rows_lead_nowhere_after_a_deletion(self, harness: ConductorHarness) -> None:
        blue = network(harness)
        new_subnet = subnet(harness, blue, "10.1.0.0/24")
        new_port = port(harness, blue)
        harness.conductor.delete_port(new_request(), port_id=new_port.id)
        harness.conductor.delete_subnet(CTX, subnet_id=new_subnet.id)
        harness.conductor.delete_network(CTX, network_id=blue.id)
        for ask in (
            lambda: harness.conductor.delete_port(new_request(), port_id=new_port.id),
            lambda: harness.conductor.update_port(CTX, port=new_port, fixed_ips=None),
            lambda: harness.conductor.delete_subnet(CTX, subnet_id=new_subnet.id),
            lambda: harness.conductor.update_subnet(CTX, subnet=new_subnet),
            lambda: harness.conductor.delete_network(CTX, network_id=blue.id),
            lambda: harness.conductor.update_network(CTX, network=blue),
            lambda: subnet(harness, blue, "10.1.0.0/24"),
            lambda: port(harness, blue),
        ):
            with pytest.raises(errors.NotFound):
                ask()
        with harness.db.read() as session:
            counted = select(models.QuotaUsage.resource).where(models.QuotaUsage.used != 0)
            # The `default` group of the project came with the first port, and stays.
            assert {*session.scalars(counted)} == {"security_group", "security_group_rule"}


def _exchange(harness: ConductorHarness, on: Network, old: Sequence[Port], number: int) -> Any:
    """Half of the callers give an address back, the others take one."""
    if number < 14:
        return port(harness, on)
    return harness.conductor.delete_port(new_request(), port_id=old[number - 14].id)


def on(*networks: Network, **values: Any) -> dict[str, Any]:
    """Of a request: on these networks."""
    return {"requested_networks": tuple(RequestedNic(network_id=network.id) for network in networks), **values}


class ServerPortCases:
    def test_ports_come_and_go_with_their_servers(self, harness: ConductorHarness) -> None:
        """In the transactions that write and end the servers; the host is told what it must know."""
        blue, green = network(harness, name="blue"), network(harness)
        front = subnet(harness, blue, "10.1.0.0/24", dns_nameservers=("9.9.9.9",))
        subnet(harness, green, "10.2.0.0/24")
        mine = port(harness, green)
        valid_request = request(1, **on(blue))
        taken = RequestedNic(network_id=green.id, port_id=mine.id)
        create_request = msgspec.structs.replace(
            valid_request, requested_networks=(taken, *valid_request.requested_networks)
        )
        (uuid,) = harness.conductor.create_servers(CTX, request=create_request).instance_uuids
        assert used(harness)["ports"] == 2
        harness.settle()
        # The compute builds from the claim's answer.
        interfaces = harness.claim("a", uuid).network_info
        first, second = interfaces
        assert (first.port_id, first.mac_address, first.addresses[0].ip_address) == (
            mine.id,
            mine.mac_address,
            "10.2.0.2",
        )
        assert (second.network_name, second.network_type, second.mtu) == ("blue", "local", 1500)
        assert second.addresses == (VifAddress(subnet_id=front.id, ip_address="10.1.0.2"),)
        assert second.subnets == (
            VifSubnet(id=front.id, cidr="10.1.0.0/24", gateway_ip="10.1.0.1", dns_nameservers=("9.9.9.9",)),
        )
        with pytest.raises(errors.PortInUse):
            harness.conductor.delete_port(new_request(), port_id=mine.id)
        with pytest.raises(errors.NetworkInUse):
            harness.conductor.delete_network(CTX, network_id=blue.id)
        harness.succeed("a", uuid)
        # A host that starts defines its guests anew from these.
        (row,) = harness.conductor.instances_of_host(CTX, host="a").instances
        assert row.network_info == interfaces
        harness.delete(uuid)
        assert harness.count(models.Port) == 2, "until its host has removed it"
        harness.conductor.instance_deleted(CTX, instance_uuid=uuid, host="a")
        assert (harness.count(models.Port), harness.count(models.IpAllocation), used(harness)["ports"]) == (1, 1, 1)
        harness.conductor.delete_port(new_request(), port_id=mine.id)

    def test_bug_servers_without_a_host_kept_ports_and_addresses(self, harness: ConductorHarness) -> None:
        blue, green = network(harness, network_type="flat", physical_network="dc1"), network(harness)
        subnet(harness, blue, "10.1.0.0/24")
        subnet(harness, green, "10.2.0.0/24")
        harness.active(**on(blue))
        mine = port(harness, green)
        harness.scheduler.order = []
        host = harness.hosts["a"]
        harness.settle()
        host.members.clear()
        failed = harness.create(3, **on(blue))
        create_request = msgspec.structs.replace(
            request(), requested_networks=(RequestedNic(network_id=green.id, port_id=mine.id),)
        )
        failed += harness.conductor.create_servers(CTX, request=create_request).instance_uuids
        harness.settle()
        assert {harness.instance(uuid).vm_state for uuid in failed} == {"error"}
        with harness.db.read() as session:
            assert vifs.of_instances(session, failed) == {}
        assert harness.count(models.Port) == harness.count(models.IpAllocation) == used(harness)["ports"] == 2
        assert host.members[-1].ranges("", 4) == ("10.1.0.2/32", "10.2.0.2/32"), "of the guest and the port"
        harness.conductor.delete_port(new_request(), port_id=mine.id)
        for server in failed:
            harness.delete(server)
        harness.settle()
        assert (harness.count(models.Port), used(harness)["ports"]) == (1, 1)

    def test_server_whose_builds_failed_keeps_no_ports(self, harness: ConductorHarness) -> None:
        blue = network(harness)
        subnet(harness, blue, "10.1.0.0/24")
        (uuid,) = harness.create(1, **on(blue))
        harness.claim("a", uuid)
        harness.fail("a", uuid)
        assert harness.count(models.Port) == 1, "the next host builds with it"
        harness.claim("b", uuid, attempt=2)
        harness.fail("b", uuid, attempt=2, retriable=False)
        assert harness.instance(uuid).vm_state == "error"
        assert harness.count(models.Port) == harness.count(models.IpAllocation) == used(harness).get("ports", 0) == 0

    def test_too_few_addresses_make_no_server(self, harness: ConductorHarness) -> None:
        blue = network(harness)
        subnet(harness, blue, "10.1.0.0/29")
        with pytest.raises(errors.IpAddressGenerationFailure):
            harness.conductor.create_servers(CTX, request=request(6, **on(blue)))
        assert harness.count(models.Instance) == harness.count(models.Port) == 0
        assert "instances" not in used(harness)
        created = harness.conductor.create_servers(CTX, request=request(5, **on(blue)))
        assert len(created.instance_uuids) == harness.count(models.IpAllocation) == 5

    def test_many_callers_at_once_share_a_network(self, harness: ConductorHarness) -> None:
        """Requests that are written together: what fits is made, with addresses of its own."""
        blue = network(harness)
        subnet(harness, blue, "10.1.0.0/28")
        answers = at_once(lambda _: harness.conductor.create_servers(CTX, request=request(2, **on(blue))), 8)
        assert (
            sorted(type(answer).__name__ for answer in answers)
            == ["CreatedServers"] * 6 + ["IpAddressGenerationFailure"] * 2
        )
        assert harness.count(models.Instance) == harness.count(models.Port) == harness.count(models.IpAllocation) == 12
        assert used(harness)["ports"] == used(harness)["instances"] == 12

    def test_one_of_many_gets_a_port(self, harness: ConductorHarness) -> None:
        blue = network(harness)
        subnet(harness, blue, "10.1.0.0/24")
        mine = port(harness, blue)
        create_request = msgspec.structs.replace(
            request(), requested_networks=(RequestedNic(network_id=blue.id, port_id=mine.id),)
        )
        answers = at_once(lambda _: harness.conductor.create_servers(CTX, request=create_request), 4)
        assert sorted(type(answer).__name__ for answer in answers) == ["CreatedServers"] + ["PortInUse"] * 3
        assert harness.count(models.Instance) == harness.count(models.Port) == 1

    def test_as_many_servers_as_the_quota_of_ports_allows(self, harness: ConductorHarness) -> None:
        blue, green = network(harness), network(harness)
        subnet(harness, blue, "10.1.0.0/24")
        subnet(harness, green, "10.2.0.0/24")
        limit(harness, ports=5)
        created = harness.conductor.create_servers(CTX, request=request(1, min_count=1, max_count=4, **on(blue, green)))
        assert (len(created.instance_uuids), used(harness)["ports"]) == (2, 4)
        with pytest.raises(errors.Forbidden, match="Quota exceeded for ports: Requested 2, but already used 4 of 5"):
            harness.conductor.create_servers(CTX, request=request(1, **on(blue, green)))

    def test_ports_that_an_older_conductor_left_go(self, harness: ConductorHarness) -> None:
        """Release 0.1.0 ends servers and knows no ports."""
        blue = network(harness)
        subnet(harness, blue, "10.1.0.0/24")
        harness.scheduler.order = []
        (uuid,) = harness.conductor.create_servers(CTX, request=request(1, **on(blue))).instance_uuids
        harness.settle()

        def end(session: Session) -> None:
            gone: Any = {"vm_state": "deleted", "deleted_at": datetime(2026, 1, 1)}  # noqa: DTZ001  - as the database keeps times
            session.query(models.Instance).filter_by(uuid=uuid).update(gone)

        harness.db.run(end)
        harness.tick(harness.conductor, 600)
        assert harness.count(models.Port) == harness.count(models.IpAllocation) == 0
        assert "ports" not in used(harness)


def rules_on(harness: ConductorHarness, host: str) -> dict[str, tuple[VifRule, ...] | None]:
    """What a host is told of its ports, by port."""
    interfaces = harness.conductor.interfaces_of_host(CTX, host=host)
    return {vif.port_id: vif.rules for of_server in interfaces.values() for vif in of_server}


def let_in(group: str, **values: Any) -> SecurityGroupRule:
    return SecurityGroupRule(
        id=str(uuid.uuid4()), security_group_id=group, project_id=PROJECT, direction="ingress", **values
    )


class SecurityGroupCases:
    def test_changes_of_rules_and_members_reach_the_hosts_of_the_ports(self, harness: ConductorHarness) -> None:
        """The rows first; a message then, and what a host asks by itself is the same."""
        flat = network(harness, network_type="flat", physical_network="dc1")
        subnet(harness, flat, "10.1.0.0/24")
        harness.active(**on(flat))
        host = harness.hosts["a"]
        ((port_id, rules),) = rules_on(harness, "a").items()
        ((vif,),) = harness.conductor.interfaces_of_host(CTX, host="a").values()
        with harness.db.read() as session:
            # What dnsmasq calls it, should the host have lost that.
            assert vif.hostname == session.scalar(select(models.Instance.hostname))
        members = [rule.remotes for rule in rules or () if rule.direction == "ingress" and rule.ip_version == 4]
        assert members == [("10.1.0.2/32",)], "the default group lets in its own members"
        with harness.db.read() as session:
            (default,) = session.scalars(select(models.SecurityGroup.uuid))

        def told(ask: Callable[[], Any]) -> bool:
            before = host.refreshed
            ask()
            harness.settle()
            return host.refreshed > before

        def told_members(ask: Callable[[], Any]) -> list[tuple[str, ...]]:
            """The host gets them, and need not ask."""
            before = host.refreshed, len(host.members)
            ask()
            harness.settle()
            assert host.refreshed == before[0]
            assert [each.revision for each in host.members] == sorted({each.revision for each in host.members})
            assert {each.group_id for each in host.members} == {default}
            return [each.ranges("", 4) for each in host.members[before[1] :]]

        opened = let_in(default, protocol="tcp", port_range_min=22, port_range_max=22)
        assert told(lambda: harness.conductor.create_security_group_rules(CTX, rules=(opened,))[0])
        vif_rule = VifRule(direction="ingress", ip_version=4, protocol="tcp", port_min=22, port_max=22)
        assert vif_rule in (rules_on(harness, "a")[port_id] or ())
        with pytest.raises(errors.SecurityGroupRuleExists):
            harness.conductor.create_security_group_rules(
                CTX, rules=(msgspec.structs.replace(opened, id=str(uuid.uuid4())),)
            )[0]
        assert told(lambda: harness.conductor.delete_security_group_rule(CTX, rule_id=opened.id))
        assert vif_rule not in (rules_on(harness, "a")[port_id] or ())
        # Another member, on no host yet: neighbours are one range.
        other: list[Port] = []
        assert told_members(lambda: other.append(port(harness, flat))) == [("10.1.0.2/31",)]
        assert [rule.remotes for rule in rules_on(harness, "a")[port_id] or () if rule.remotes] == [("10.1.0.2/31",)]
        assert told_members(lambda: harness.conductor.delete_port(new_request(), port_id=other[0].id)) == [
            ("10.1.0.2/32",)
        ]
        assert [rule.remotes for rule in rules_on(harness, "a")[port_id] or () if rule.remotes] == [("10.1.0.2/32",)]
        sent_ranges = told_members(lambda: harness.conductor.create_servers(CTX, request=request(1, **on(flat))))
        assert sent_ranges == [("10.1.0.2/32", "10.1.0.4/32")]
        # A host that does not hear costs nothing but time.
        host.deaf = True
        harness.conductor.create_security_group_rules(CTX, rules=(opened,))[0]
        harness.settle()
        assert vif_rule in (rules_on(harness, "a")[port_id] or ())

    def test_members_beyond_the_bound_of_a_port_are_not_sent_to_its_host(self, harness: ConductorHarness) -> None:
        """A project could stop its guests' host: each range is a rule there, for each rule that names the group."""
        flat = network(harness, network_type="flat", physical_network="dc1")
        subnet(harness, flat, "10.1.0.0/24")
        harness.active(**on(flat))
        scattered = tuple(
            AddressPair(ip_address=f"192.{number >> 7}.{2 * number & 255}.1/32") for number in range(MAX_RANGES)
        )
        port(harness, flat, allowed_address_pairs=scattered)
        (rules,) = rules_on(harness, "a").values()
        assert sorted((rule.direction, rule.ip_version, rule.remotes) for rule in rules or ()) == [
            ("egress", 4, None),
            ("egress", 6, None),
            ("ingress", 4, ()),
            ("ingress", 6, ()),
        ]
        harness.settle()
        (members,) = harness.hosts["a"].members[-1:]
        assert members.members == (), "nor by themselves"

    def test_changes_that_come_together_are_told_once(self, harness: ConductorHarness) -> None:
        """However fast a project changes rules and members of groups, one work of each waits. What comes after it has begun is
        told again.
        """
        flat = network(harness, network_type="flat", physical_network="dc1")
        subnet(harness, flat, "10.1.0.0/24")
        harness.active(**on(flat))
        harness.settle()
        with harness.db.read() as session:
            (default,) = session.scalars(select(models.SecurityGroup.uuid))
        host = harness.hosts["a"]
        before = host.refreshed, len(host.members)
        for number in range(1, 8):
            opened = let_in(default, protocol="tcp", port_range_min=number, port_range_max=number)
            harness.conductor.create_security_group_rules(CTX, rules=(opened,))[0]
        assert len(harness.waiting) == 1
        for _ in range(3):
            port(harness, flat)
        assert len(harness.waiting) == 2
        harness.settle()
        assert (host.refreshed, len(host.members)) == (before[0] + 1, before[1] + 1)
        harness.conductor.delete_security_group_rule(CTX, rule_id=opened.id)
        harness.settle()
        assert host.refreshed == before[0] + 2

    def test_builds_of_a_moment_read_the_members_of_their_groups_once(self, harness: ConductorHarness) -> None:
        """Each needs all members. What a host asks for is what is there now, and hosts hear of later members by themselves."""
        flat = network(harness, network_type="flat", physical_network="dc1")
        subnet(harness, flat, "10.1.0.0/24")
        server = harness.active(**on(flat))
        harness.settle()

        def in_messages() -> list[tuple[str, ...]]:
            with harness.db.read() as session:
                ((vif,),) = vifs.of_instances(session, [server], rules=True).values()
            return [rule.remotes for rule in vif.rules or () if rule.remotes]

        assert in_messages() == [("10.1.0.2/32",)]
        port(harness, flat)
        assert in_messages() == [("10.1.0.2/32",)]
        ((rules,),) = (rules_on(harness, "a").values(),)
        assert [rule.remotes for rule in rules or () if rule.remotes] == [("10.1.0.2/31",)]
        assert in_messages() == [("10.1.0.2/31",)]

        port(harness, flat)
        assert in_messages() == [("10.1.0.2/31",)]
        with harness.db.write() as session:
            (default,) = session.scalars(select(models.SecurityGroup.uuid))
            group_members.number(session, [default])
        assert in_messages() == [("10.1.0.2/31", "10.1.0.4/32")], "another conductor has told hosts, and not this one"

    def test_one_default_group_for_each_project(self, harness: ConductorHarness) -> None:
        answers = at_once(lambda _: harness.conductor.ensure_default_security_group(CTX, project_id=PROJECT), 8)
        assert answers == [None] * 8
        assert harness.count(models.SecurityGroup) == 1
        assert used(harness) == {"security_group": 1, "security_group_rule": 4}

    def test_group_is_deleted_or_gets_ports_never_both(self, harness: ConductorHarness) -> None:
        blue = network(harness)
        for _ in range(3):
            group = SecurityGroup(id=str(uuid.uuid4()), name="web", project_id=PROJECT)
            harness.conductor.create_security_groups(CTX, groups=(group,))[0]

            def ask(number: int, group: SecurityGroup = group) -> Any:
                if number % 2:
                    return harness.conductor.delete_security_group(CTX, group_id=group.id)
                return port(harness, blue, security_groups=(group.id,))

            at_once(ask, 4)
            with harness.db.read() as session:
                left = session.scalar(select(models.SecurityGroup.id).where(models.SecurityGroup.uuid == group.id))
                of_group = session.scalars(
                    select(models.PortSecurityGroup).where(models.PortSecurityGroup.group_id == left)
                )
                assert (left is not None) == bool(list(of_group))
        assert harness.count(models.PortSecurityGroup) == harness.count(models.Port)


def size_of(pools: Iterable[AllocationPool]) -> int:
    """The number of addresses in the pools."""
    return sum(int(ip_address(pool.end)) - int(ip_address(pool.start)) + 1 for pool in pools)
