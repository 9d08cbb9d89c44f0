"""Networks, subnets and ports over HTTP, as Neutron answers."""

from typing import Any

import pytest

from minova import errors
from minova.context import RequestContext
from tests.functional.api.conftest import Cloud

Json = dict[str, Any]
UNKNOWN = "00000000-0000-4000-8000-000000000000"


def make(cloud: Cloud, kind: str, **values: Any) -> Json:
    status, answer = cloud.ask("POST", f"/network/v2.0/{kind.replace('_', '-')}s", {kind: values})
    assert status == 201, answer
    created: Json = answer[kind]
    return created


def network(cloud: Cloud, **values: Any) -> Json:
    return make(cloud, "network", **values)


def subnet(cloud: Cloud, on: Json, cidr: str = "10.1.0.0/24", **values: Any) -> Json:
    version = 6 if ":" in cidr else 4
    return make(cloud, "subnet", network_id=on["id"], cidr=cidr, ip_version=version, **values)


def port(cloud: Cloud, on: Json, **values: Any) -> Json:
    return make(cloud, "port", network_id=on["id"], **values)


def refused(cloud: Cloud, kind: str, **values: Any) -> tuple[int, str, str]:
    """Status, type and message."""
    status, answer = cloud.ask("POST", f"/network/v2.0/{kind.replace('_', '-')}s", {kind: values})
    error = answer["NeutronError"]
    assert error["detail"] == ""
    return status, error["type"], error["message"]


def listed(cloud: Cloud, kind: str, query: str = "") -> list[Json]:
    listing: list[Json] = cloud.get(f"/network/v2.0/{kind.replace('_', '-')}s", query_string=query)[f"{kind}s"]
    return listing


def addresses(made: Json) -> list[str]:
    return [fixed["ip_address"] for fixed in made["fixed_ips"]]


def test_version_resources_and_extensions_are_found(cloud: Cloud) -> None:
    for path in ("/network", "/network/"):
        (version,) = cloud.get(path)["versions"]
        assert (version["id"], version["status"]) == ("v2.0", "CURRENT")
        assert version["links"][0]["href"] == "http://localhost/network/v2.0/"
    assert [resource["collection"] for resource in cloud.get("/network/v2.0")["resources"]] == [
        "networks",
        "subnets",
        "subnetpools",
        "ports",
        "security_groups",
        "security_group_rules",
        "address_groups",
    ]
    aliases = {extension["alias"] for extension in cloud.get("/network/v2.0/extensions")["extensions"]}
    assert {"provider", "pagination"} <= aliases
    assert cloud.get("/network/v2.0/extensions/provider")["extension"]["alias"] == "provider"
    assert cloud.ask("GET", "/network/v2.0/extensions/router")[0] == 404


def test_new_network_has_neutrons_attributes(cloud: Cloud) -> None:
    new_network = network(cloud, name="blue", description="of the tests")
    assert new_network == new_network | {
        "name": "blue",
        "description": "of the tests",
        "project_id": "admin",
        "tenant_id": "admin",
        "admin_state_up": True,
        "status": "ACTIVE",
        "shared": False,
        "router:external": False,
        "mtu": 1500,
        "subnets": [],
        "revision_number": 1,
        "provider:network_type": "local",
        "provider:physical_network": None,
        "provider:segmentation_id": None,
        "minova:reachable": False,
    }
    assert cloud.get(f"/network/v2.0/networks/{new_network['id']}")["network"] == new_network
    assert listed(cloud, "network") == [new_network]


def test_network_changes_and_goes(cloud: Cloud) -> None:
    new_network = network(cloud, name="blue")
    path = f"/network/v2.0/networks/{new_network['id']}"
    status, answer = cloud.ask("PUT", path, {"network": {"name": "green", "mtu": 1400, "shared": True}})
    assert (status, answer["network"]["name"], answer["network"]["mtu"]) == (200, "green", 1400)
    assert answer["network"]["revision_number"] == 2
    assert cloud.ask("DELETE", path) == (204, None)
    status, answer = cloud.ask("GET", path)
    assert (status, answer["NeutronError"]["type"]) == (404, "NetworkNotFound")
    assert cloud.ask("DELETE", path)[0] == 404


def test_administrators_let_hosts_reach_a_network(cloud: Cloud) -> None:
    new_network = network(cloud, **{"minova:reachable": True})
    path = f"/network/v2.0/networks/{new_network['id']}"
    assert new_network["minova:reachable"]
    for reachable in (False, True):
        cloud.ask("PUT", path, {"network": {"minova:reachable": reachable}})
        assert cloud.get(path)["network"]["minova:reachable"] is reachable
    flat = network(cloud, **{"provider:network_type": "flat", "provider:physical_network": "dc1"})
    status, answer = cloud.ask("PUT", f"/network/v2.0/networks/{flat['id']}", {"network": {"minova:reachable": True}})
    assert (status, "minova:reachable" in answer["NeutronError"]["message"]) == (400, True)


def test_change_that_is_overtaken_is_made_again(cloud: Cloud) -> None:
    new_network = network(cloud, name="blue")
    path = f"/network/v2.0/networks/{new_network['id']}"
    overtaken: list[str] = []

    def overtake(method: str) -> None:
        if not overtaken:
            overtaken.append(method)
            cloud.ask("PUT", path, {"network": {"description": "of the other"}})

    cloud.conductor.before = overtake
    assert cloud.ask("PUT", path, {"network": {"name": "green"}})[0] == 200
    last = cloud.get(path)["network"]
    assert (last["name"], last["description"], last["revision_number"]) == ("green", "of the other", 3)


def test_stale_change_is_refused_by_the_conductor(cloud: Cloud) -> None:
    from minova.db.networks import networks  # noqa: PLC0415 - only this test asks the database

    new_network = network(cloud, name="blue")
    with cloud.db.read() as session:
        stored = networks.find(session, new_network["id"])
    assert stored is not None
    cloud.conductor.update_network(RequestContext(request_id="req-1"), network=stored)
    with pytest.raises(errors.RevisionNumberConstraintFailed):
        cloud.conductor.update_network(RequestContext(request_id="req-1"), network=stored)


def test_physical_networks_are_given_once(cloud: Cloud) -> None:
    tagged = {"provider:network_type": "vlan", "provider:physical_network": "dc1"}
    network(cloud, **tagged, **{"provider:segmentation_id": 100})
    network(cloud, **tagged, **{"provider:segmentation_id": 101})
    network(cloud, **{"provider:network_type": "flat", "provider:physical_network": "dc1"})
    assert refused(cloud, "network", **tagged, **{"provider:segmentation_id": 100})[:2] == (409, "SegmentInUse")
    flat = {"provider:network_type": "flat", "provider:physical_network": "dc1"}
    assert refused(cloud, "network", **flat)[:2] == (409, "SegmentInUse")


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"name": "x" * 256}, "name"),
        ({"name": "a\x07b"}, "name"),
        ({"description": "a\x00b"}, "description"),
        ({"mtu": 67}, "mtu"),
        ({"admin_state_up": "perhaps"}, "admin_state_up"),
        ({"colour": "blue"}, "colour"),
        ({"provider:network_type": "vxlan"}, "provider:network_type"),
        ({"provider:network_type": "flat"}, "provider:physical_network"),
        ({"provider:network_type": "local", "provider:physical_network": "dc1"}, "provider:physical_network"),
        ({"provider:network_type": "vlan", "provider:physical_network": "dc1"}, "provider:segmentation_id"),
        (
            {"provider:network_type": "flat", "provider:physical_network": "dc1", "provider:segmentation_id": 1},
            "provider:segmentation_id",
        ),
        (
            {"provider:network_type": "vlan", "provider:physical_network": "dc1", "provider:segmentation_id": 4095},
            "provider:segmentation_id",
        ),
        (
            {"provider:network_type": "flat", "provider:physical_network": "dc1", "minova:reachable": True},
            "minova:reachable",
        ),
        ({"provider:network_type": "flat", "provider:physical_network": "a b"}, "provider:physical_network"),
        ({"project_id": "one", "tenant_id": "two"}, "tenant_id"),
    ],
)
def test_network_that_cannot_be_is_refused_with_its_field(cloud: Cloud, values: Json, field: str) -> None:
    status, _, message = refused(cloud, "network", **values)
    assert (status, field in message) == (400, True), message
    assert listed(cloud, "network") == []


def test_subnet_has_a_gateway_and_pools_by_default(cloud: Cloud) -> None:
    blue = network(cloud)
    new_subnet = subnet(cloud, blue, "10.1.0.7/24")
    assert (new_subnet["cidr"], new_subnet["gateway_ip"], new_subnet["enable_dhcp"]) == (
        "10.1.0.0/24",
        "10.1.0.1",
        True,
    )
    assert new_subnet["allocation_pools"] == [{"start": "10.1.0.2", "end": "10.1.0.254"}]
    six = subnet(cloud, blue, "2001:db8:1::/64")
    assert six["gateway_ip"] == "2001:db8:1::1"
    assert six["allocation_pools"] == [{"start": "2001:db8:1::2", "end": "2001:db8:1:0:ffff:ffff:ffff:ffff"}]
    middle = subnet(cloud, blue, "10.2.0.0/29", gateway_ip="10.2.0.3")
    assert middle["allocation_pools"] == [
        {"start": "10.2.0.1", "end": "10.2.0.2"},
        {"start": "10.2.0.4", "end": "10.2.0.6"},
    ]
    none = subnet(cloud, blue, "10.3.0.0/29", gateway_ip=None)
    assert (none["gateway_ip"], none["allocation_pools"]) == (None, [{"start": "10.3.0.1", "end": "10.3.0.6"}])
    assert cloud.get(f"/network/v2.0/networks/{blue['id']}")["network"]["subnets"] == [
        each_subnet["id"] for each_subnet in (new_subnet, six, middle, none)
    ]


@pytest.mark.parametrize(
    ("values", "status", "kind", "said"),
    [
        ({"cidr": "10.1.0.0"}, 400, "HTTPBadRequest", "cidr"),
        ({"cidr": "10.1.0.0/33"}, 400, "HTTPBadRequest", "cidr"),
        ({"cidr": "10.1.0.0/31"}, 400, "HTTPBadRequest", "cidr"),
        ({"cidr": "224.0.0.0/24"}, 400, "HTTPBadRequest", "cidr"),
        ({"cidr": "127.0.0.0/24"}, 400, "HTTPBadRequest", "cidr"),
        ({"cidr": "2001:db8::%a/64", "ip_version": 6}, 400, "HTTPBadRequest", "zone"),
        ({"cidr": "2001:db8::/64"}, 400, "HTTPBadRequest", "ip_version"),
        ({"ip_version": 5}, 400, "HTTPBadRequest", "ip_version"),
        ({"gateway_ip": "10.2.0.1"}, 400, "HTTPBadRequest", "gateway_ip"),
        ({"gateway_ip": "10.1.0.255"}, 400, "HTTPBadRequest", "gateway_ip"),
        ({"gateway_ip": "fe80::1%eth0"}, 400, "HTTPBadRequest", "gateway_ip"),
        ({"allocation_pools": [{"start": "10.1.0.9", "end": "10.1.0.5"}]}, 400, "HTTPBadRequest", "allocation_pools"),
        ({"allocation_pools": [{"start": "10.1.0.5", "end": "10.1.1.5"}]}, 400, "HTTPBadRequest", "allocation_pools"),
        (
            {"allocation_pools": [{"start": "10.1.0.5", "end": "10.1.0.9"}, {"start": "10.1.0.9", "end": "10.1.0.12"}]},
            409,
            "OverlappingAllocationPools",
            "overlap",
        ),
        (
            {"allocation_pools": [{"start": "10.1.0.1", "end": "10.1.0.9"}]},
            409,
            "GatewayConflictWithAllocationPools",
            "10.1.0.1",
        ),
        ({"dns_nameservers": ["nine"]}, 400, "HTTPBadRequest", "dns_nameservers"),
        ({"dns_nameservers": ["9.9.9.9", "9.9.9.9"]}, 400, "HTTPBadRequest", "dns_nameservers"),
        ({"host_routes": [{"destination": "x", "nexthop": "10.1.0.1"}]}, 400, "HTTPBadRequest", "host_routes"),
        ({"ipv6_address_mode": "dhcpv6-stateful"}, 400, "HTTPBadRequest", "ipv6_address_mode"),
        ({"network_id": UNKNOWN}, 404, "NetworkNotFound", UNKNOWN),
        ({"network_id": "blue"}, 404, "NetworkNotFound", "blue"),
    ],
)
def test_subnet_that_cannot_be_is_refused_with_its_field(
    cloud: Cloud, values: Json, status: int, kind: str, said: str
) -> None:
    body = {"network_id": network(cloud)["id"], "ip_version": 4, "cidr": "10.1.0.0/24"} | values
    answer = refused(cloud, "subnet", **body)
    assert (*answer[:2], said in answer[2]) == (status, kind, True), answer
    assert listed(cloud, "subnet") == []


def test_subnets_overlap_neither_on_a_network_nor_among_local_networks(cloud: Cloud) -> None:
    blue, green = network(cloud), network(cloud)
    subnet(cloud, blue, "10.1.0.0/24")
    for on, cidr in ((blue, "10.1.0.128/25"), (blue, "10.0.0.0/8"), (green, "10.1.0.0/16")):
        status, kind, _ = refused(cloud, "subnet", network_id=on["id"], cidr=cidr, ip_version=4)
        assert (status, kind) == (409, "OverlappingSubnets")
    # What is on wires of its own may have the same addresses.
    flat = network(cloud, **{"provider:network_type": "flat", "provider:physical_network": "dc1"})
    subnet(cloud, flat, "10.1.0.0/24")


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"cidr": "fd00::/60", "ipv6_address_mode": "slaac"}, "requires the prefix to be /64"),
        ({"cidr": "fd00::/80", "ipv6_ra_mode": "dhcpv6-stateless"}, "requires the prefix to be /64"),
        ({"cidr": "fd00::/60", "ipv6_ra_mode": "dhcpv6-stateful"}, "ranges of /64 at most"),
        ({"ipv6_address_mode": "slaac", "ipv6_ra_mode": "dhcpv6-stateful"}, "must be the same value"),
        ({"ipv6_address_mode": "slaac", "enable_dhcp": False}, "cannot be set when enable_dhcp is set to False"),
        ({"ip_version": 4, "cidr": "10.1.0.0/24", "ipv6_ra_mode": "slaac"}, "ip_version is 4"),
    ],
)
def test_subnet_that_no_host_can_serve_is_refused(cloud: Cloud, values: Json, words: str) -> None:
    body = {"network_id": network(cloud)["id"], "ip_version": 6, "cidr": "fd00::/64"} | values
    status, kind, message = refused(cloud, "subnet", **body)
    assert (status, kind) == (400, "HTTPBadRequest")
    assert words in message


def test_ports_have_the_addresses_that_their_guests_make(cloud: Cloud) -> None:
    """As Neutron: in each such subnet, whatever a port requests, and also in one that is made later."""
    on = network(cloud)
    subnet(cloud, on)
    early = port(cloud, on, mac_address="fa:16:3e:00:00:01")
    new_subnet = subnet(cloud, on, "fd00::/64", ipv6_address_mode="slaac", ipv6_ra_mode="slaac")
    given = subnet(cloud, on, "fd01::/64", ipv6_address_mode="dhcpv6-stateful", ipv6_ra_mode="dhcpv6-stateful")
    shown = cloud.get(f"/network/v2.0/ports/{early['id']}")["port"]
    assert addresses(shown) == ["10.1.0.2", "fd00::f816:3eff:fe00:1"]
    both = port(cloud, on, mac_address="fa:16:3e:00:00:02")
    assert addresses(both) == ["10.1.0.3", "fd00::f816:3eff:fe00:2", "fd01::2"]
    fixed = port(cloud, on, mac_address="fa:16:3e:00:00:03", fixed_ips=[{"ip_address": "10.1.0.9"}])
    assert addresses(fixed) == ["10.1.0.9", "fd00::f816:3eff:fe00:3"]
    new_port = port(cloud, on, mac_address="fa:16:3e:00:00:04", fixed_ips=[{"subnet_id": new_subnet["id"]}])
    assert addresses(new_port) == ["fd00::f816:3eff:fe00:4"]
    status, kind, message = refused(cloud, "port", network_id=on["id"], fixed_ips=[{"ip_address": "fd00::9"}])
    assert (status, kind) == (400, "AllocationOnAutoAddressSubnet"), message
    # Another MAC address, another address; what a client sends back is taken.
    path = f"/network/v2.0/ports/{both['id']}"
    status, changed = cloud.ask("PUT", path, {"port": {"mac_address": "fa:16:3e:00:00:05"}})
    assert addresses(changed["port"]) == ["10.1.0.3", "fd00::f816:3eff:fe00:5", "fd01::2"], status
    status, again = cloud.ask("PUT", path, {"port": {"fixed_ips": changed["port"]["fixed_ips"]}})
    assert addresses(again["port"]) == addresses(changed["port"]), status
    # Ports do not keep such a subnet; others do.
    assert cloud.ask("DELETE", f"/network/v2.0/subnets/{new_subnet['id']}")[0] == 204
    assert addresses(cloud.get(path)["port"]) == ["10.1.0.3", "fd01::2"]
    assert cloud.ask("DELETE", f"/network/v2.0/subnets/{given['id']}")[0] == 409


def test_advertised_subnet_stays_with_dhcp(cloud: Cloud) -> None:
    new_subnet = subnet(cloud, network(cloud), "fd00::/64", ipv6_ra_mode="slaac")
    status, answer = cloud.ask("PUT", f"/network/v2.0/subnets/{new_subnet['id']}", {"subnet": {"enable_dhcp": False}})
    assert (status, answer["NeutronError"]["type"]) == (400, "HTTPBadRequest")


def test_subnet_changes(cloud: Cloud) -> None:
    blue = network(cloud)
    new_subnet = subnet(cloud, blue)
    path = f"/network/v2.0/subnets/{new_subnet['id']}"
    changes = {
        "name": "front",
        "dns_nameservers": ["9.9.9.9"],
        "allocation_pools": [{"start": "10.1.0.20", "end": "10.1.0.30"}],
        "host_routes": [{"destination": "10.9.0.0/16", "nexthop": "10.1.0.9"}],
    }
    status, answer = cloud.ask("PUT", path, {"subnet": changes})
    assert status == 200, answer
    assert answer["subnet"] == answer["subnet"] | changes
    assert addresses(port(cloud, blue)) == ["10.1.0.20"]
    # A gateway that a port has.
    status, answer = cloud.ask("PUT", path, {"subnet": {"gateway_ip": "10.1.0.20"}})
    assert (status, answer["NeutronError"]["type"]) == (409, "GatewayConflictWithAllocationPools")
    port(cloud, blue, fixed_ips=[{"ip_address": "10.1.0.50"}])
    status, answer = cloud.ask("PUT", path, {"subnet": {"gateway_ip": "10.1.0.50"}})
    assert (status, answer["NeutronError"]["type"]) == (409, "IpAddressAlreadyAllocated")
    status, answer = cloud.ask("PUT", path, {"subnet": {"gateway_ip": None}})
    assert (status, answer["subnet"]["gateway_ip"]) == (200, None)


def test_what_is_in_use_is_not_deleted(cloud: Cloud) -> None:
    blue = network(cloud)
    new_subnet = subnet(cloud, blue)
    used = port(cloud, blue)
    status, answer = cloud.ask("DELETE", f"/network/v2.0/networks/{blue['id']}")
    assert (status, answer["NeutronError"]["type"]) == (409, "NetworkInUse")
    status, answer = cloud.ask("DELETE", f"/network/v2.0/subnets/{new_subnet['id']}")
    assert (status, answer["NeutronError"]["type"]) == (409, "SubnetInUse")
    assert cloud.ask("DELETE", f"/network/v2.0/ports/{used['id']}")[0] == 204
    # With its subnets, as Neutron does.
    assert cloud.ask("DELETE", f"/network/v2.0/networks/{blue['id']}")[0] == 204
    assert listed(cloud, "subnet") == []


def test_port_has_an_address_of_each_version_and_a_mac(cloud: Cloud) -> None:
    blue = network(cloud)
    four, six = subnet(cloud, blue), subnet(cloud, blue, "2001:db8:1::/64")
    new_port = port(cloud, blue, name="front")
    assert new_port["fixed_ips"] == [
        {"subnet_id": four["id"], "ip_address": "10.1.0.2"},
        {"subnet_id": six["id"], "ip_address": "2001:db8:1::2"},
    ]
    assert new_port["mac_address"].startswith("fa:16:3e:")
    assert (new_port["status"], new_port["device_id"], new_port["binding:host_id"]) == ("DOWN", "", "")
    assert addresses(port(cloud, blue, fixed_ips=[])) == []
    assert addresses(port(cloud, blue, fixed_ips=[{"subnet_id": four["id"]}])) == ["10.1.0.3"]
    # On a network without subnets.
    assert port(cloud, network(cloud))["fixed_ips"] == []


def test_address_that_was_given_back_rests_before_it_is_given_again(cloud: Cloud) -> None:
    blue = network(cloud)
    subnet(cloud, blue, "10.1.0.0/29")
    first = port(cloud, blue)
    cloud.ask("DELETE", f"/network/v2.0/ports/{first['id']}")
    given = [addresses(port(cloud, blue))[0] for _ in range(5)]
    assert given == ["10.1.0.3", "10.1.0.4", "10.1.0.5", "10.1.0.6", "10.1.0.2"]
    status, kind, message = refused(cloud, "port", network_id=blue["id"])
    assert (status, kind) == (503, "IpAddressGenerationFailure")
    assert blue["id"] in message


def test_next_subnet_gives_an_address_when_the_first_is_full(cloud: Cloud) -> None:
    blue = network(cloud)
    subnet(cloud, blue, "10.1.0.0/30")
    subnet(cloud, blue, "10.2.0.0/29")
    assert [addresses(port(cloud, blue)) for _ in range(2)] == [["10.1.0.2"], ["10.2.0.2"]]


@pytest.mark.parametrize(
    ("values", "status", "kind"),
    [
        ({"fixed_ips": [{"ip_address": "10.1.0.9"}]}, 409, "IpAddressAlreadyAllocated"),
        ({"fixed_ips": [{"ip_address": "10.1.0.1"}]}, 409, "IpAddressAlreadyAllocated"),
        ({"fixed_ips": [{"ip_address": "10.1.0.8"}, {"ip_address": "10.1.0.8"}]}, 409, "IpAddressAlreadyAllocated"),
        ({"fixed_ips": [{"ip_address": "10.1.0.255"}]}, 400, "InvalidIpForSubnet"),
        ({"fixed_ips": [{"ip_address": "10.7.0.8"}]}, 400, "InvalidIpForNetwork"),
        ({"fixed_ips": [{"ip_address": "ten"}]}, 400, "HTTPBadRequest"),
        ({"fixed_ips": [{}]}, 400, "HTTPBadRequest"),
        ({"fixed_ips": [{"subnet_id": UNKNOWN}]}, 400, "HTTPBadRequest"),
        ({"fixed_ips": [{"subnet_id": "v4"}]}, 400, "HTTPBadRequest"),
        ({"fixed_ips": [{"ip_address": f"10.1.0.{n}"} for n in range(20, 26)]}, 400, "HTTPBadRequest"),
        ({"mac_address": "fa:16:3e:00:00:09"}, 409, "MacAddressInUse"),
        ({"mac_address": "FA-16-3E-00-00-09"}, 409, "MacAddressInUse"),
        ({"mac_address": "01:00:5e:00:00:01"}, 400, "HTTPBadRequest"),
        ({"mac_address": "fa:16"}, 400, "HTTPBadRequest"),
        ({"network_id": UNKNOWN}, 404, "NetworkNotFound"),
        ({"trunk_details": []}, 400, "HTTPBadRequest"),
    ],
)
def test_port_that_cannot_be_is_refused(cloud: Cloud, values: Json, status: int, kind: str) -> None:
    blue = network(cloud)
    subnet(cloud, blue)
    port(cloud, blue, fixed_ips=[{"ip_address": "10.1.0.9"}], mac_address="fa:16:3e:00:00:09")
    assert refused(cloud, "port", **({"network_id": blue["id"]} | values))[:2] == (status, kind)
    assert len(listed(cloud, "port")) == 1


def test_port_changes_its_addresses(cloud: Cloud) -> None:
    blue = network(cloud)
    subnet(cloud, blue)
    new_port = port(cloud, blue)
    path = f"/network/v2.0/ports/{new_port['id']}"
    both = [{"ip_address": "10.1.0.2"}, {"ip_address": "10.1.0.40"}]
    status, answer = cloud.ask("PUT", path, {"port": {"fixed_ips": both, "name": "front"}})
    assert (status, addresses(answer["port"])) == (200, ["10.1.0.2", "10.1.0.40"])
    status, answer = cloud.ask("PUT", path, {"port": {"fixed_ips": both[1:]}})
    assert (status, addresses(answer["port"]), answer["port"]["name"]) == (200, ["10.1.0.40"], "front")
    # The other one is free again.
    assert addresses(port(cloud, blue, fixed_ips=both[:1])) == ["10.1.0.2"]
    status, answer = cloud.ask("PUT", path, {"port": {"fixed_ips": both[:1], "name": "back"}})
    assert (status, answer["NeutronError"]["type"]) == (409, "IpAddressAlreadyAllocated")
    left = cloud.get(path)["port"]
    assert (addresses(left), left["name"]) == (["10.1.0.40"], "front"), "a refused change changes nothing"
    status, answer = cloud.ask("PUT", path, {"port": {"mac_address": "02:00:00:00:00:01", "device_id": "d"}})
    assert (status, answer["port"]["mac_address"], answer["port"]["device_id"]) == (200, "02:00:00:00:00:01", "d")


def test_listings_are_filtered_and_paged(cloud: Cloud) -> None:
    blue, green = network(cloud, name="blue"), network(cloud, name="green", mtu=1400)
    four = subnet(cloud, blue)
    ports = [port(cloud, blue, name=f"p{number}", device_id=f"d{number}") for number in range(5)]
    port(cloud, green, name="p9")
    assert [network["name"] for network in listed(cloud, "network", "name=blue&name=red")] == ["blue"]
    assert [network["name"] for network in listed(cloud, "network", f"id={green['id']}")] == ["green"]
    assert [network["name"] for network in listed(cloud, "network", "mtu=1400")] == ["green"]
    assert listed(cloud, "network", "shared=True") == listed(cloud, "network", "router:external=True") == []
    assert listed(cloud, "network", "status=DOWN") == []
    assert listed(cloud, "network", "name=blue&fields=id&fields=mtu") == [{"id": blue["id"], "mtu": 1500}]
    assert len(listed(cloud, "port", f"network_id={blue['id']}")) == 5
    assert [port["name"] for port in listed(cloud, "port", "device_id=d3")] == ["p3"]
    assert [port["name"] for port in listed(cloud, "port", "fixed_ips=ip_address%3D10.1.0.3")] == ["p1"]
    assert len(listed(cloud, "port", f"fixed_ips=subnet_id%3D{four['id']}")) == 5
    mac = ports[2]["mac_address"].upper()
    assert [port["name"] for port in listed(cloud, "port", f"mac_address={mac}")] == ["p2"]
    assert [subnet["cidr"] for subnet in listed(cloud, "subnet", "ip_version=4")] == ["10.1.0.0/24"]

    names, path = [], "/network/v2.0/ports?limit=2"
    while path:
        page = cloud.get(path.partition("?")[0], query_string=path.partition("?")[2])
        names.append([port["name"] for port in page["ports"]])
        links = {link["rel"]: link["href"] for link in page.get("ports_links", [])}
        last, path = page, links.get("next", "").removeprefix("http://localhost")
    assert names == [["p0", "p1"], ["p2", "p3"], ["p4", "p9"]]
    back = {link["rel"]: link["href"] for link in last["ports_links"]}["previous"].partition("?")[2]
    before = cloud.get("/network/v2.0/ports", query_string=back)
    assert [port["name"] for port in before["ports"]] == ["p2", "p3"]
    assert cloud.ask("GET", "/network/v2.0/ports", query_string=f"marker={UNKNOWN}")[0] == 400
    assert cloud.ask("GET", "/network/v2.0/ports", query_string="fixed_ips=colour%3Dblue")[0] == 400


def test_quotas_limit_networks_subnets_and_ports(cloud: Cloud) -> None:
    cloud.conductor.update_quota_set(
        RequestContext(request_id="req-1"),
        project_id="admin",
        limits={"networks": 1, "subnets": 1, "ports": 1},
        force=True,
    )
    blue = network(cloud)
    assert refused(cloud, "network")[0] == 403
    new_subnet = subnet(cloud, blue)
    assert refused(cloud, "subnet", network_id=blue["id"], cidr="10.2.0.0/24", ip_version=4)[0] == 403
    used = port(cloud, blue)
    status, _, message = refused(cloud, "port", network_id=blue["id"])
    assert (status, "ports" in message) == (403, True)
    # What is deleted counts no longer.
    assert cloud.ask("DELETE", f"/network/v2.0/ports/{used['id']}")[0] == 204
    port(cloud, blue, fixed_ips=[])
    assert cloud.ask("DELETE", f"/network/v2.0/subnets/{new_subnet['id']}")[0] == 204
    subnet(cloud, blue)


def test_error_of_an_unknown_path_has_neutrons_form(cloud: Cloud) -> None:
    status, answer = cloud.ask("GET", "/network/v2.0/elephants")
    assert (status, answer["NeutronError"]["type"]) == (404, "HTTPNotFound")
    status, answer = cloud.ask("POST", "/network/v2.0/networks", b"{", headers={"Content-Type": "application/json"})
    assert (status, answer["NeutronError"]["type"]) == (400, "HTTPBadRequest")
