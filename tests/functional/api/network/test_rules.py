"""Ranges and protocols of rules, as Neutron shows them."""

from minova.db.networks import vifs
from tests.functional.api.conftest import Cloud
from tests.functional.api.network.test_networks import Json, network, port, subnet

ROOT = "/network/v2.0"


def rule(cloud: Cloud, group: str, **values: object) -> tuple[int, Json]:
    body = {"security_group_id": group, "direction": "ingress", **values}
    return cloud.ask("POST", f"{ROOT}/security-group-rules", {"security_group_rule": body})


def web(cloud: Cloud) -> str:
    body = {"security_group": {"name": "web"}}
    return str(cloud.ask("POST", f"{ROOT}/security-groups", body)[1]["security_group"]["id"])


def test_range_is_shown_as_it_was_given(cloud: Cloud) -> None:
    group = web(cloud)
    for given, shown, network_of_it in (
        ("10.2.3.124/24", "10.2.3.124/24", "10.2.3.0/24"),
        ("10.9.0.1", "10.9.0.1/32", "10.9.0.1/32"),
        ("10.8.0.0/16", "10.8.0.0/16", "10.8.0.0/16"),
    ):
        status, answer = rule(cloud, group, remote_ip_prefix=given)
        security_group_rule = answer["security_group_rule"]
        assert (status, security_group_rule["remote_ip_prefix"], security_group_rule["normalized_cidr"]) == (
            201,
            shown,
            network_of_it,
        )
    security_group_rule = rule(cloud, group, remote_ip_prefix="2001:DB8::5/64", ethertype="IPv6")[1][
        "security_group_rule"
    ]
    assert (security_group_rule["remote_ip_prefix"], security_group_rule["normalized_cidr"]) == (
        "2001:db8::5/64",
        "2001:db8::/64",
    )
    assert rule(cloud, group, remote_ip_prefix="10.2.3.0/24")[0] == 409, "the same range"
    for wrong in ("10.0.0.0/33", "x", "fe80::1%eth0/64", "2001:db8::/64"):
        assert rule(cloud, group, remote_ip_prefix=wrong)[0] == 400


def test_hosts_get_the_range_without_bits_of_a_host(stocked: Cloud) -> None:
    group, blue = web(stocked), network(stocked)
    subnet(stocked, blue)
    assert rule(stocked, group, remote_ip_prefix="10.2.3.124/24")[0] == 201
    new_port = port(stocked, blue, security_groups=[group])
    server = stocked.make_server(networks=[{"port": new_port["id"]}])["id"]
    with stocked.db.read() as session:
        (vif,) = vifs.of_instances(session, [server], rules=True)[server]
    assert ("10.2.3.0/24",) in [each.remotes for each in vif.rules or ()]


def test_protocols_that_hosts_filter(cloud: Cloud) -> None:
    group = web(cloud)
    assert rule(cloud, group, protocol="igmp")[1]["security_group_rule"]["protocol"] == "igmp"
    assert rule(cloud, group, protocol=2)[0] == 409
    assert rule(cloud, group, protocol="igmp", ethertype="IPv6")[0] == 400
    for given, shown in (("gre", "gre"), (112, "vrrp"), ("OSPF", "ospf"), ("254", "254"), (0, None), ("any", None)):
        status, answer = rule(cloud, group, protocol=given, ethertype="IPv6", description=str(given))
        if given == "any":
            assert status == 409, "the same as 0"
        else:
            assert (status, answer["security_group_rule"]["protocol"]) == (201, shown)
    assert rule(cloud, group, protocol=47, ethertype="IPv6")[0] == 409
    # A number that only IPv6 has a name for is one of IPv4, too.
    assert rule(cloud, group, protocol="ipv6-route")[0] == 400
    assert rule(cloud, group, protocol=41)[1]["security_group_rule"]["protocol"] == "41"
    assert rule(cloud, group, protocol=41, ethertype="IPv6")[1]["security_group_rule"]["protocol"] == "ipv6-encap"
    for name in ("elephant", 256, -1, "047", "hopopt", "+47"):
        status, answer = rule(cloud, group, protocol=name)
        assert (status, "and no number from 0 to 255" in answer["NeutronError"]["message"]) == (400, True)
    status, answer = rule(cloud, group, protocol="gre", port_range_min=1, port_range_max=2)
    assert (status, "ports of gre are not filtered" in answer["NeutronError"]["message"]) == (400, True)
