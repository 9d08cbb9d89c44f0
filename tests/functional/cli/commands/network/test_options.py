"""Options that `minova` shares with `openstack`: tags, owners, filters of listings."""

import pytest

from tests.functional.cli.conftest import Cli, json_output, succeed

JSON = ("-f", "json")
# How each kind is made, once `blue` with its subnet `front` is there.
KINDS = {
    "network": ("network", "create", "made"),
    "subnet": ("subnet", "create", "made", "--network", "blue", "--subnet-range", "10.2.0.0/24"),
    "subnet pool": ("subnet", "pool", "create", "made", "--pool-prefix", "10.9.0.0/16"),
    "port": ("port", "create", "made", "--network", "blue"),
    "security group": ("security", "group", "create", "made"),
}


@pytest.fixture
def blue(minova: Cli) -> Cli:
    succeed(minova("network", "create", "blue"))
    succeed(minova("subnet", "create", "front", "--network", "blue", "--subnet-range", "10.1.0.0/24"))
    return minova


def names(minova: Cli, *words: str) -> list[str]:
    return sorted(row["Name"] for row in json_output(minova(*words, *JSON)))


@pytest.mark.parametrize("kind", KINDS)
def test_tags(blue: Cli, kind: str) -> None:
    words = kind.split()
    tagged = json_output(blue(*KINDS[kind], "--tag", "x", "--tag", "y", *JSON))
    assert tagged["tags"] == ["x", "y"]
    assert names(blue, *words, "list", "--tags", "x,y") == ["made"]
    assert names(blue, *words, "list", "--any-tags", "x,z") == ["made"]
    assert "made" not in names(blue, *words, "list", "--not-tags", "x")
    assert "made" not in names(blue, *words, "list", "--not-any-tags", "x,z")
    succeed(blue(*words, "set", "made", "--tag", "z"))
    succeed(blue(*words, "unset", "made", "--tag", "x"))
    assert json_output(blue(*words, "show", "made", *JSON))["tags"] == ["y", "z"]
    absent = blue(*words, "unset", "made", "--tag", "x")
    assert (absent.code, "There is no tag x." in absent.err) == (1, True)
    succeed(blue(*words, "set", "made", "--no-tag", "--tag", "w"))
    assert json_output(blue(*words, "show", "made", *JSON))["tags"] == ["w"]
    succeed(blue(*words, "unset", "made", "--all-tag"))
    assert json_output(blue(*words, "show", "made", *JSON))["tags"] == []


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_left_if_its_tag_is_refused(blue: Cli, kind: str) -> None:
    refused = blue(*KINDS[kind], "--tag", "x" * 300)
    assert refused.code == 1
    assert "made" not in names(blue, *kind.split(), "list")


@pytest.mark.parametrize("kind", KINDS)
def test_owners_and_pages(blue: Cli, kind: str) -> None:
    words = kind.split()
    assert json_output(blue(*KINDS[kind], "--project", "p2", *JSON))["project_id"] == "p2"
    # A new project gets a default group, too.
    assert set(names(blue, *words, "list", "--project", "p2")) - {"default"} == {"made"}
    all_of_them = json_output(blue(*words, "list", *JSON))
    (first,) = json_output(blue(*words, "list", "--limit", "1", *JSON))
    assert first == all_of_them[0]
    assert json_output(blue(*words, "list", "--marker", first["ID"], *JSON)) == all_of_them[1:]


def test_filters_of_networks(blue: Cli) -> None:
    succeed(blue("network", "create", "red", "--share", "--disable", "--disable-port-security", "--internal"))
    vlan = ("--provider-network-type", "vlan", "--provider-physical-network", "physnet1", "--provider-segment", "7")
    succeed(blue("network", "create", "wire", *vlan))
    assert json_output(blue("network", "show", "red", *JSON))["port_security_enabled"] is False
    for options, expected_names in (
        (("--name", "red"), ["red"]),
        (("--disable",), ["red"]),
        (("--enable",), ["blue", "wire"]),
        (("--share",), ["red"]),
        (("--no-share",), ["blue", "wire"]),
        (("--external",), []),
        (("--status", "DOWN"), []),
        (vlan, ["wire"]),
    ):
        assert names(blue, "network", "list", *options) == expected_names, options
    succeed(blue("network", "set", "red", "--enable-port-security"))
    assert json_output(blue("network", "show", "red", *JSON))["port_security_enabled"]


def test_filters_of_subnets(blue: Cli) -> None:
    six = ("--subnet-range", "fd00::/64", "--gateway", "none", "--no-dhcp", "--service-type", "compute:nova")
    succeed(blue("subnet", "create", "six", "--network", "blue", *six))
    for options, expected_names in (
        (("--ip-version", "6"), ["six"]),
        (("--dhcp",), ["front"]),
        (("--no-dhcp",), ["six"]),
        (("--gateway", "10.1.0.1"), ["front"]),
        (("--subnet-range", "fd00::/64"), ["six"]),
        (("--service-type", "compute:nova"), ["six"]),
        (("--name", "front"), ["front"]),
    ):
        assert names(blue, "subnet", "list", *options) == expected_names, options
    succeed(blue("subnet", "set", "six", "--service-type", "compute:zone"))
    succeed(blue("subnet", "unset", "six", "--service-type", "compute:nova"))
    assert json_output(blue("subnet", "show", "six", *JSON))["service_types"] == ["compute:zone"]
    succeed(blue("subnet", "set", "front", "--dns-nameserver", "9.9.9.9"))
    succeed(blue("subnet", "unset", "front", "--gateway", "--dns-nameserver", "9.9.9.9"))
    shown = json_output(blue("subnet", "show", "front", *JSON))
    assert (shown["gateway_ip"], shown["dns_nameservers"]) == (None, [])
    absent = blue("subnet", "unset", "front", "--dns-nameserver", "9.9.9.9")
    assert (absent.code, "no 9.9.9.9" in absent.err) == (1, True)
    assert blue("subnet", "unset", "front").code == 2


def test_filters_and_options_of_ports(blue: Cli) -> None:
    succeed(blue("security", "group", "create", "web", "--stateful"))
    options = ("--extra-dhcp-option", "name=bootfile-name,value=a,b", "--host", "host1", "--disable")
    new_port = blue("port", "create", "one", "--network", "blue", "--security-group", "web", *options, *JSON)
    shown = json_output(new_port)
    assert (shown["extra_dhcp_opts"], shown["admin_state_up"]) == (["bootfile-name=a,b"], False)
    address = shown["fixed_ips"][0].split("'")[1]
    succeed(blue("port", "create", "two", "--network", "blue", "--device", "d", "--disable-port-security"))
    for filters, expected_names in (
        (("--security-group", "web"), ["one"]),
        (("--host", "host1"), ["one"]),
        (("--device-id", "d"), ["two"]),
        (("--mac-address", shown["mac_address"]), ["one"]),
        (("--fixed-ip", f"ip-address={address}"), ["one"]),
        (("--fixed-ip", "subnet=front"), ["one", "two"]),
        (("--status", "ACTIVE"), []),
        (("--name", "two"), ["two"]),
    ):
        assert names(blue, "port", "list", *filters) == expected_names, filters
    succeed(blue("port", "set", "one", "--extra-dhcp-option", "name=bootfile-name", "--enable"))
    succeed(blue("port", "unset", "one", "--host"))
    shown = json_output(blue("port", "show", "one", *JSON))
    assert (shown["extra_dhcp_opts"], shown["binding:host_id"], shown["admin_state_up"]) == ([], "", True)
    wrong = blue("port", "set", "one", "--extra-dhcp-option", "value=x")
    assert (wrong.code, "name=NAME" in wrong.err) == (2, True)


def test_profile_of_a_port(blue: Cli) -> None:
    given = ("--binding-profile", "rack=7", "--binding-profile", '{"row": {"a": 1}}')
    assert json_output(blue("port", "create", "one", "--network", "blue", *given, *JSON))["binding:profile"] == {
        "rack": "7",
        "row": {"a": 1},
    }
    for command, left in (
        (("set", "one", "--binding-profile", "rack=8"), {"rack": "8", "row": {"a": 1}}),
        (("unset", "one", "--binding-profile", "row"), {"rack": "8"}),
        (("set", "one", "--no-binding-profile", "--binding-profile", "row=9"), {"row": "9"}),
        (("set", "one", "--no-binding-profile"), {}),
    ):
        succeed(blue("port", *command))
        assert json_output(blue("port", "show", "one", *JSON))["binding:profile"] == left
    absent = blue("port", "unset", "one", "--binding-profile", "rack")
    assert (absent.code, "no such binding profile: rack" in absent.err) == (1, True)
    assert blue("port", "set", "one", "--binding-profile", "rack").code == 2


def test_filters_of_groups_and_rules(blue: Cli) -> None:
    succeed(blue("security", "group", "create", "web"))
    refused = blue("security", "group", "set", "web", "--stateless")
    assert (refused.code, "connections are always followed" in refused.err) == (1, True)
    assert names(blue, "security", "group", "list", "--share") == []
    assert "web" in names(blue, "security", "group", "list", "--no-share")
    rule = blue("security", "group", "rule", "create", "web", "--protocol", "tcp", "--dst-port", "22", *JSON)
    assert json_output(rule)["port_range_min"] == 22
    rows = json_output(blue("security", "group", "rule", "list", "web", "--ethertype", "IPv4", "--long", *JSON))
    assert {row["Ethertype"] for row in rows} == {"IPv4"}
    assert json_output(blue("security", "group", "rule", "list", "--project", "p2", *JSON)) == []


def test_quotas_of_networks_are_listed_and_deleted_alone(minova: Cli) -> None:
    succeed(minova("quota", "set", "p2", "--networks", "3", "--cores", "5"))
    rows = {row["Resource"]: row for row in json_output(minova("quota", "list", "p2", "--network", *JSON))}
    assert (rows["network"]["In Use"], rows["network"]["Limit"]) == (0, 3)
    succeed(minova("quota", "delete", "p2", "--network"))
    shown = json_output(minova("quota", "show", "p2", *JSON))
    assert (shown["networks"], shown["cores"]) == (-1, 5)
    succeed(minova("quota", "delete", "p2", "--compute"))
    assert json_output(minova("quota", "show", "p2", *JSON))["cores"] != 5
