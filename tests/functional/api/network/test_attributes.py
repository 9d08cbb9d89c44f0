"""Attributes that clients send: those that are served, and those of which only the default is."""

from typing import Any

import pytest

from minova.db.networks import vifs
from minova.objects.network.dhcp_options import DhcpOption
from tests.functional.api.conftest import Cloud
from tests.functional.api.network.test_networks import Json, addresses, listed, make, network, port, refused, subnet

ROOT = "/network/v2.0"


def put(cloud: Cloud, kind: str, made: Json, **values: Any) -> tuple[int, Any]:
    status, answer = cloud.ask("PUT", f"{ROOT}/{kind.replace('_', '-')}s/{made['id']}", {kind: values})
    return status, answer[kind] if status == 200 else answer["NeutronError"]["message"]


def test_ports_are_as_secure_as_their_network(cloud: Cloud) -> None:
    blue = network(cloud, port_security_enabled=False)
    assert (blue["port_security_enabled"], network(cloud)["port_security_enabled"]) == (False, True)
    open_port = port(cloud, blue)
    assert (open_port["port_security_enabled"], open_port["security_groups"]) == (False, [])
    own = port(cloud, blue, port_security_enabled=True)
    assert (own["port_security_enabled"], len(own["security_groups"])) == (True, 1)
    group = cloud.get(f"{ROOT}/security-groups")["security_groups"][0]["id"]
    assert refused(cloud, "port", network_id=blue["id"], security_groups=[group])[0] == 409
    assert put(cloud, "network", blue, port_security_enabled=True)[1]["port_security_enabled"]
    assert port(cloud, blue)["port_security_enabled"]
    assert not cloud.get(f"{ROOT}/ports/{open_port['id']}")["port"]["port_security_enabled"]


def test_servers_are_as_secure_as_their_network(stocked: Cloud) -> None:
    blue, green = network(stocked, name="blue", port_security_enabled=False), network(stocked, name="green")
    subnet(stocked, blue)
    subnet(stocked, green, "10.2.0.0/24")
    server = stocked.make_server(networks=[{"uuid": blue["id"]}, {"uuid": green["id"]}])
    ports = {port["network_id"]: port for port in listed(stocked, "port", f"device_id={server['id']}")}
    assert {network_id: shown_port["port_security_enabled"] for network_id, shown_port in ports.items()} == {
        blue["id"]: False,
        green["id"]: True,
    }
    assert [len(ports[each["id"]]["security_groups"]) for each in (blue, green)] == [0, 1]
    stocked.ask("POST", f"{ROOT}/security-groups", {"security_group": {"name": "web"}})
    body = {**stocked.server, "networks": [{"uuid": blue["id"]}], "security_groups": [{"name": "web"}]}
    status, answer = stocked.ask("POST", "/v2.1/servers", {"server": body})
    assert (status, "port_security_enabled" in answer["badRequest"]["message"]) == (400, True)


def test_dhcp_options_of_a_port(cloud: Cloud) -> None:
    blue = network(cloud)
    new_port = port(cloud, blue, extra_dhcp_opts=[{"opt_name": "tftp-server", "opt_value": "192.0.2.1"}])
    assert new_port["extra_dhcp_opts"] == [{"opt_name": "tftp-server", "opt_value": "192.0.2.1", "ip_version": 4}]
    changes = [
        {"opt_name": "bootfile-name", "opt_value": "pxelinux.0"},
        {"opt_name": "150", "opt_value": "192.0.2.9", "ip_version": 4},
        {"opt_name": "dns-server", "opt_value": "[2001:db8::1]", "ip_version": "6"},
        {"opt_name": "tftp-server", "opt_value": None},
        {"opt_name": "router", "opt_value": ""},
    ]
    status, changed = put(cloud, "port", new_port, extra_dhcp_opts=changes)
    assert (status, [extra_dhcp_opt["opt_name"] for extra_dhcp_opt in changed["extra_dhcp_opts"]]) == (
        200,
        ["150", "bootfile-name", "dns-server", "router"],
    )
    assert put(cloud, "port", new_port, name="x")[1]["extra_dhcp_opts"] == changed["extra_dhcp_opts"]
    assert port(cloud, blue, extra_dhcp_opts=None)["extra_dhcp_opts"] == []


@pytest.mark.parametrize(
    "option",
    [
        {"opt_name": "elephant", "opt_value": "1"},
        {"opt_name": "0", "opt_value": "1"},
        {"opt_name": "255", "opt_value": "1"},
        {"opt_name": "tftp-server,x", "opt_value": "1"},
        {"opt_name": "bootfile-url", "opt_value": "1"},
        {"opt_name": "bootfile-name", "opt_value": "a\nb"},
        {"opt_name": "bootfile-name", "opt_value": ""},
        {"opt_name": "bootfile-name", "opt_value": "é"},
        {"opt_name": "bootfile-name", "opt_value": "x" * 256},
        {"opt_name": "bootfile-name"},
        {"opt_name": "bootfile-name", "opt_value": "x", "ip_version": 5},
    ],
)
def test_dhcp_option_that_cannot_be_served_is_refused(cloud: Cloud, option: Json) -> None:
    status, _, message = refused(cloud, "port", network_id=network(cloud)["id"], extra_dhcp_opts=[option])
    assert (status, "opt" in message) == (400, True)


def test_hosts_get_the_dhcp_options(stocked: Cloud) -> None:
    blue = network(stocked)
    subnet(stocked, blue)
    new_port = port(stocked, blue, extra_dhcp_opts=[{"opt_name": "bootfile-name", "opt_value": "a"}])
    server = stocked.make_server(networks=[{"port": new_port["id"]}])
    with stocked.db.read() as session:
        (vif,) = vifs.of_instances(session, [server["id"]])[server["id"]]
    assert vif.extra_dhcp_opts == (DhcpOption(opt_name="bootfile-name", opt_value="a"),)


def test_subnet_for_ports_of_some_owners(cloud: Cloud) -> None:
    blue = network(cloud)
    front = subnet(cloud, blue, service_types=["compute:nova"])
    assert front["service_types"] == ["compute:nova"]
    status, kind, message = refused(cloud, "port", network_id=blue["id"], device_owner="network:dhcp")
    assert (status, kind) == (409, "IpAddressGenerationFailureNoMatchingSubnet")
    assert "service type network:dhcp" in message
    back = subnet(cloud, blue, "10.2.0.0/24")
    assert addresses(port(cloud, blue, device_owner="compute:nova")) == ["10.1.0.2"]
    assert addresses(port(cloud, blue)) == ["10.2.0.2"]
    bodies = [{"network_id": blue["id"], "device_owner": owner} for owner in ("compute:nova", "", "compute:nova")]
    _, answer = cloud.ask("POST", f"{ROOT}/ports", {"ports": bodies})
    assert [addresses(port) for port in answer["ports"]] == [["10.1.0.3"], ["10.2.0.3"], ["10.1.0.4"]]
    assert put(cloud, "subnet", front, service_types=[])[1]["service_types"] == []
    assert put(cloud, "subnet", back, service_types=["elephant"])[0] == 400
    assert (
        refused(cloud, "subnet", network_id=blue["id"], cidr="10.3.0.0/24", ip_version=4, service_types=["x"])[0] == 400
    )


def test_what_administrators_see_of_a_port(cloud: Cloud) -> None:
    new_port = port(
        cloud, network(cloud), **{"binding:vnic_type": "normal", "binding:profile": {}, "binding:host_id": "h"}
    )
    shown = {name: value for name, value in new_port.items() if name.startswith("binding:")}
    assert shown == {
        "binding:vnic_type": "normal",
        "binding:host_id": "h",
        "binding:profile": {},
        "binding:vif_type": "bridge",
        "binding:vif_details": {"port_filter": True},
    }


def test_profile_of_a_port_is_kept_for_administrators(cloud: Cloud) -> None:
    new_port = port(cloud, network(cloud), **{"binding:profile": {"rack": "7", "of": {"a": [1]}}})
    assert new_port["binding:profile"] == {"rack": "7", "of": {"a": [1]}}
    own = f"{ROOT}/ports/{new_port['id']}"
    assert put(cloud, "port", new_port, name="web")[1]["binding:profile"] == new_port["binding:profile"]
    assert put(cloud, "port", new_port, **{"binding:profile": {"rack": "8"}})[0] == 200
    assert cloud.ask("GET", own)[1]["port"]["binding:profile"] == {"rack": "8"}
    status, answer = cloud.ask("PUT", own, {"port": {"binding:profile": {"rack": "8" * 4096}}})
    assert (status, "4095 characters" in answer["NeutronError"]["message"]) == (400, True)
    assert put(cloud, "port", new_port, **{"binding:profile": {}})[1]["binding:profile"] == {}


@pytest.mark.parametrize(("levels", "expected"), [(21, 200), (22, 400), (40, 400)])
def test_bug_profile_that_no_column_takes(cloud: Cloud, levels: int, expected: int) -> None:
    """MariaDB takes no document of more than 32 levels: the answer was 500. The body has two levels around the profile."""
    profile: Json = {}
    for _ in range(levels):
        profile = {"a": profile}
    new_port = port(cloud, network(cloud))
    assert put(cloud, "port", new_port, **{"binding:profile": profile})[0] == expected


DEFAULTS: list[tuple[str, Json, Json]] = [
    ("network", {"availability_zone_hints": []}, {"availability_zone_hints": ["nova"]}),
    ("network", {"vlan_transparent": False}, {"vlan_transparent": True}),
    ("network", {"is_default": False}, {"is_default": True}),
    ("network", {"qos_policy_id": None}, {"qos_policy_id": "x"}),
    ("network", {"dns_domain": ""}, {"dns_domain": "example.org."}),
    ("port", {"binding:vnic_type": "normal"}, {"binding:vnic_type": "direct"}),
    ("port", {"binding:profile": {"rack": "7"}}, {"binding:profile": {"pci_slot": "0000:01:00.0"}}),
    ("port", {"binding:profile": None}, {"binding:profile": {"trusted": "true"}}),
    ("port", {"dns_name": ""}, {"dns_name": "www"}),
    ("port", {"dns_domain": ""}, {"dns_domain": "example.org."}),
    ("port", {"trusted": None}, {"trusted": True}),
    ("port", {"qos_policy_id": None}, {"qos_policy_id": "x"}),
    ("port", {"device_profile": None}, {"device_profile": "fpga"}),
    ("port", {"numa_affinity_policy": None}, {"numa_affinity_policy": "required"}),
    ("security_group", {"stateful": True}, {"stateful": False}),
    ("subnet", {"segment_id": None}, {"segment_id": "x"}),
    ("subnet", {"dns_publish_fixed_ip": False}, {"dns_publish_fixed_ip": True}),
]


@pytest.mark.parametrize(("kind", "served", "other"), DEFAULTS)
def test_only_the_default_is_served(cloud: Cloud, kind: str, served: Json, other: Json) -> None:
    body: Json = {"name": "n"}
    if kind in ("port", "subnet"):
        body["network_id"] = network(cloud)["id"]
    if kind == "subnet":
        body |= {"cidr": "10.1.0.0/24", "ip_version": 4}
    path = f"{ROOT}/{kind.replace('_', '-')}s"
    status, answer = cloud.ask("POST", path, {kind: body | served})
    assert status == 201, answer
    (name,) = other
    own = f"{path}/{answer[kind]['id']}"
    changes = name not in ("availability_zone_hints", "vlan_transparent", "device_profile")
    assert not changes or cloud.ask("PUT", own, {kind: served})[0] == 200
    for method, where in (("POST", path), ("PUT", own)):
        status, said = cloud.ask(method, where, {kind: other if method == "PUT" else body | other})
        assert (status, name in said["NeutronError"]["message"]) == (400, True)


@pytest.mark.parametrize(
    "listing",
    ["networks", "subnets", "subnetpools", "ports", "security-groups", "security-group-rules", "address-groups"],
)
def test_filters_that_a_listing_does_not_have_are_refused_as_in_neutron(cloud: Cloud, listing: str) -> None:
    network(cloud)
    status, answer = cloud.ask("GET", f"/network/v2.0/{listing}?elephants=1")
    assert (status, answer["NeutronError"]["message"]) == (400, "['elephants'] is invalid attribute for filtering")


def test_listings_have_the_filters_of_neutron(cloud: Cloud) -> None:
    new_network = network(cloud)
    subnet(cloud, new_network)
    group = make(cloud, "security_group", name="web")["id"]
    secured = port(cloud, new_network, security_groups=[group])
    port(cloud, new_network, security_groups=[])
    ends = {"port_range_min": 22, "port_range_max": 23}
    make(cloud, "security_group_rule", security_group_id=group, direction="ingress", protocol="tcp", **ends)

    def count(kind: str, query: str) -> int:
        return len(listed(cloud, kind, query))

    assert [port["id"] for port in listed(cloud, "port", f"security_groups={group}")] == [secured["id"]]
    assert count("port", f"security_groups={new_network['id']}") == 0
    assert [count("security_group_rule", f"port_range_max={number}") for number in (22, 23)] == [0, 1]
    assert (count("security_group", "shared=False&name=web"), count("security_group", "shared=True")) == (1, 0)
    assert (count("subnet", "shared=False"), count("subnet", "shared=True")) == (1, 0)
    assert (count("subnet", "ipv6_ra_mode=slaac"), count("subnet", f"segment_id={group}")) == (0, 0)
    assert (count("network", "is_default=False"), count("network", "is_default=True")) == (1, 0)
    for kind in ("network", "subnet", "port", "security_group", "security_group_rule"):
        assert count(kind, "changed_since=2100-01-01T00:00:00Z") == 0
        assert count(kind, "changed_since=2000-01-01T00:00:00Z") > 0
    assert cloud.ask("GET", f"{ROOT}/networks?changed_since=yesterday")[0] == 400
