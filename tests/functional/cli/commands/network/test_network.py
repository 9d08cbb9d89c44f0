"""`minova network|subnet|port ...` against minova-api itself."""

from tests.functional.cli.conftest import Cli, json_output, succeed

JSON = ("-f", "json")


def test_networks_subnets_and_ports_from_their_creation_to_their_end(minova: Cli) -> None:
    blue = json_output(minova("network", "create", "blue", "--mtu", "1400", "--share", *JSON))
    assert (blue["name"], blue["mtu"], blue["shared"], blue["provider:network_type"]) == ("blue", 1400, True, "local")
    words = ("--gateway", "10.1.0.254", "--dns-nameserver", "9.9.9.9")
    pool = ("--allocation-pool", "start=10.1.0.10,end=10.1.0.20")
    front = json_output(
        minova("subnet", "create", "front", "--network", "blue", "--subnet-range", "10.1.0.0/24", *words, *pool, *JSON)
    )
    assert (front["gateway_ip"], front["allocation_pools"]) == ("10.1.0.254", ["10.1.0.10-10.1.0.20"])
    range_6 = ("--subnet-range", "2001:db8::/64", "--gateway", "none", "--no-dhcp")
    six = json_output(minova("subnet", "create", "six", "--network", blue["id"], "--ip-version", "6", *range_6, *JSON))
    assert (six["ip_version"], six["gateway_ip"], six["enable_dhcp"]) == (6, None, False)

    fixed = ("--fixed-ip", "subnet=front,ip-address=10.1.0.15", "--fixed-ip", "subnet=six")
    new_port = json_output(minova("port", "create", "one", "--network", "blue", *fixed, *JSON))
    assert new_port["fixed_ips"] == [
        f"ip_address='10.1.0.15', subnet_id='{front['id']}'",
        f"ip_address='2001:db8::1', subnet_id='{six['id']}'",
    ]
    succeed(minova("port", "create", "two", "--network", "blue", "--no-fixed-ip", "--mac-address", "02:00:00:00:00:01"))
    rows = json_output(minova("port", "list", "--network", "blue", "--long", *JSON))
    assert [(row["Name"], row["Network"]) for row in rows] == [("one", blue["id"]), ("two", blue["id"])]
    assert json_output(minova("port", "show", "two", *JSON))["mac_address"] == "02:00:00:00:00:01"
    (row,) = json_output(minova("network", "list", "--long", *JSON))
    assert row == {
        "ID": blue["id"],
        "Name": "blue",
        "Subnets": [front["id"], six["id"]],
        "Status": "ACTIVE",
        "Project": "admin",
        "State": "UP",
        "Shared": True,
        "Network Type": "local",
        "Router Type": "Internal",
    }
    rows = json_output(minova("subnet", "list", "--network", "blue", "--long", *JSON))
    assert [(row["Subnet"], row["Gateway"]) for row in rows] == [("10.1.0.0/24", "10.1.0.254"), ("2001:db8::/64", None)]
    assert json_output(minova("subnet", "show", "front", *JSON))["id"] == front["id"]

    refused = minova("network", "delete", "blue")
    assert (refused.code, "ports still in use" in refused.err) == (1, True)
    refused = minova("port", "delete", "one", "three")
    assert (refused.code, "There is no port with the name or ID 'three'" in refused.err) == (1, True)
    succeed(minova("port", "delete", "one", "two"))
    succeed(minova("subnet", "delete", "front"))
    succeed(minova("network", "delete", "blue"))
    assert minova("network", "show", "blue").code == 1
    assert json_output(minova("subnet", "list", *JSON)) == []


def test_a_network_is_changed(minova: Cli) -> None:
    succeed(minova("network", "create", "blue", "--reachable"))
    assert json_output(minova("network", "show", "blue", *JSON))["minova:reachable"]
    words = ("--name", "green", "--mtu", "1400", "--share", "--disable", "--no-reachable")
    succeed(minova("network", "set", "blue", *words))
    changed = json_output(minova("network", "show", "green", *JSON))
    names = ("mtu", "shared", "admin_state_up", "minova:reachable")
    assert [changed[name] for name in names] == [1400, True, False, False]
    succeed(minova("network", "set", "green", "--no-share", "--internal", "--enable", "--reachable"))
    changed = json_output(minova("network", "show", "green", *JSON))
    assert [changed[name] for name in names] == [1400, False, True, True]
    refused = minova("network", "set", "green", "--external")
    assert (refused.code, "no routers and no floating addresses" in refused.err) == (1, True)
    nothing = minova("network", "set", "green")
    assert (nothing.code, "--reachable" in nothing.err) == (2, True)


def test_a_subnet_is_changed_piece_by_piece(minova: Cli) -> None:
    succeed(minova("network", "create", "blue"))
    words = ("--network", "blue", "--subnet-range", "10.1.0.0/24", "--dns-nameserver", "9.9.9.9")
    first = ("--host-route", "destination=192.0.2.0/24,gateway=10.1.0.9")
    succeed(minova("subnet", "create", "front", *words, *first))
    more = (
        *("--name", "back", "--description", "d", "--no-dhcp", "--gateway", "none", "--dns-nameserver", "192.0.2.53"),
        *("--host-route", "destination=198.51.100.0/24,gateway=10.1.0.8"),
        *("--no-allocation-pool", "--allocation-pool", "start=10.1.0.50,end=10.1.0.60"),
    )
    succeed(minova("subnet", "set", "front", *more))
    shown = json_output(minova("subnet", "show", "back", *JSON))
    assert (shown["description"], shown["enable_dhcp"], shown["gateway_ip"]) == ("d", False, None)
    assert shown["dns_nameservers"] == ["9.9.9.9", "192.0.2.53"]
    assert shown["host_routes"] == ["192.0.2.0/24 via 10.1.0.9", "198.51.100.0/24 via 10.1.0.8"]
    assert shown["allocation_pools"] == ["10.1.0.50-10.1.0.60"]
    succeed(
        minova("subnet", "set", "back", "--dhcp", "--gateway", "10.1.0.1", "--no-dns-nameserver", "--no-host-route")
    )
    shown = json_output(minova("subnet", "show", "back", *JSON))
    assert (shown["enable_dhcp"], shown["gateway_ip"]) == (True, "10.1.0.1")
    assert (shown["dns_nameservers"], shown["host_routes"]) == ([], [])
    nothing = minova("subnet", "set", "back")
    assert (nothing.code, "--no-dhcp" in nothing.err) == (2, True)
    wrong = minova("subnet", "set", "back", "--host-route", "192.0.2.0/24")
    assert (wrong.code, "destination=CIDR,gateway=ADDRESS" in wrong.err) == (2, True)
    modes = ("--ipv6-ra-mode", "slaac", "--ipv6-address-mode", "slaac")
    six = minova("subnet", "create", "six", "--network", "blue", "--subnet-range", "fd00::/64", *modes, *JSON)
    assert json_output(six)["ipv6_ra_mode"] == "slaac"


def test_a_port_is_changed_piece_by_piece(minova: Cli) -> None:
    succeed(minova("network", "create", "blue"))
    succeed(minova("subnet", "create", "front", "--network", "blue", "--subnet-range", "10.1.0.0/24"))
    succeed(minova("port", "create", "one", "--network", "blue"))
    succeed(minova("security", "group", "create", "web"))

    def shown() -> dict[str, object]:
        port = json_output(minova("port", "show", "one", *JSON))
        return {
            "ips": [text.split("'")[1] for text in port["fixed_ips"]],
            "groups": len(port["security_groups"]),
            "pairs": len(port["allowed_address_pairs"]),
            "up": port["admin_state_up"],
            "description": port["description"],
        }

    words = ("--fixed-ip", "ip-address=10.1.0.9", "--security-group", "web", "--description", "d", "--disable")
    succeed(minova("port", "set", "one", *words, "--allowed-address", "ip-address=10.1.0.200"))
    expected = {"ips": ["10.1.0.2", "10.1.0.9"], "groups": 2, "pairs": 1, "up": False, "description": "d"}
    assert shown() == expected
    gone = (
        "--fixed-ip",
        "ip-address=10.1.0.2",
        "--security-group",
        "web",
        "--allowed-address",
        "ip-address=10.1.0.200",
    )
    succeed(minova("port", "unset", "one", *gone))
    assert shown() == {**expected, "ips": ["10.1.0.9"], "groups": 1, "pairs": 0}
    succeed(minova("port", "set", "one", "--no-fixed-ip", "--no-security-group", "--disable-port-security", "--enable"))
    assert shown() == {**expected, "ips": [], "groups": 0, "pairs": 0, "up": True}
    assert json_output(minova("port", "show", "one", *JSON))["port_security_enabled"] is False
    for wrong, code, said in (
        (("set", "one"), 2, "Say what is to be set"),
        (("unset", "one"), 2, "Say what is to go"),
        (("unset", "one", "--fixed-ip", "ip-address=10.1.0.77"), 1, "no such fixed ips"),
        (("set", "two", "--name", "n"), 1, "There is no port"),
    ):
        refused = minova("port", *wrong)
        assert (refused.code, said in refused.err) == (code, True), refused.err


def test_words_that_cannot_be_are_refused_with_what_is_valid(minova: Cli) -> None:
    succeed(minova("network", "create", "blue"))
    wrong = minova("subnet", "create", "s", "--network", "blue", "--subnet-range", "10.1.0.0/33")
    assert (wrong.code, "cidr" in wrong.err) == (1, True)
    wrong = minova("port", "create", "p", "--network", "blue", "--fixed-ip", "10.1.0.9")
    assert (wrong.code, "subnet=NAME,ip-address=192.0.2.10" in wrong.err) == (2, True)
    pool = ("--allocation-pool", "10.1.0.1-10.1.0.9")
    wrong = minova("subnet", "create", "s", "--network", "blue", "--subnet-range", "10.1.0.0/24", *pool)
    assert (wrong.code, "start=192.0.2.10,end=192.0.2.20" in wrong.err) == (2, True)


def test_full_subnet_is_told(minova: Cli) -> None:
    succeed(minova("network", "create", "blue"))
    succeed(minova("subnet", "create", "s", "--network", "blue", "--subnet-range", "10.1.0.0/30"))
    succeed(minova("port", "create", "p", "--network", "blue"))
    full = minova("port", "create", "q", "--network", "blue")
    assert (full.code, "No more IP addresses available on network" in full.err) == (1, True)


def test_bug_rules_of_protocols_of_ipv6_were_rules_of_ipv4(minova: Cli) -> None:
    create = ("security", "group", "rule", "create", "default", *JSON)
    for protocol in ("icmpv6", "IPv6-Route", "44"):
        assert json_output(minova(*create, "--protocol", protocol))["ethertype"] == "IPv6"
    assert json_output(minova(*create, "--protocol", "icmp"))["ethertype"] == "IPv4"
    assert minova(*create, "--ethertype", "IPv4", "--protocol", "icmpv6").code == 1


def test_security_groups_and_rules_from_their_creation_to_their_end(minova: Cli) -> None:
    web = json_output(minova("security", "group", "create", "web", "--description", "d", *JSON))
    assert (web["name"], web["description"], len(web["security_group_rules"])) == ("web", "d", 2)
    rows = json_output(minova("security", "group", "list", *JSON))
    assert sorted(row["Name"] for row in rows) == ["default", "web"]
    words = ("--protocol", "tcp", "--dst-port", "22", "--remote-ip", "10.0.0.0/8")
    opened = json_output(minova("security", "group", "rule", "create", "web", *words, *JSON))
    icmp = ("--protocol", "icmp", "--icmp-type", "8", "--remote-group", "default")
    succeed(minova("security", "group", "rule", "create", "web", *icmp))
    rows = json_output(minova("security", "group", "rule", "list", "web", *JSON))
    assert [(row["IP Protocol"], row["IP Range"], row["Port Range"], row["Direction"]) for row in rows] == [
        (None, "0.0.0.0/0", "", "egress"),
        (None, "::/0", "", "egress"),
        ("tcp", "10.0.0.0/8", "22:22", "ingress"),
        ("icmp", "0.0.0.0/0", "type=8", "ingress"),
    ]
    assert "Security Group" not in rows[0]
    listing = ("security", "group", "rule", "list")
    assert {row["Security Group"] for row in json_output(minova(*listing, *JSON))} >= {web["id"]}
    for filters, protocols in (
        (("--ingress",), ["tcp", "icmp"]),
        (("--egress",), [None, None]),
        (("--protocol", "tcp"), ["tcp"]),
        (("--egress", "--protocol", "tcp"), []),
    ):
        assert [row["IP Protocol"] for row in json_output(minova(*listing, "web", *filters, *JSON))] == protocols
    assert json_output(minova("security", "group", "rule", "show", opened["id"], *JSON))["port_range_max"] == 22
    succeed(minova("network", "create", "blue"))
    secured = ("--security-group", "web", "--allowed-address", "ip-address=10.1.0.0/28")
    new_port = json_output(minova("port", "create", "one", "--network", "blue", *secured, *JSON))
    assert (new_port["security_groups"], len(new_port["allowed_address_pairs"])) == ([web["id"]], 1)
    two = json_output(minova("port", "create", "two", "--network", "blue", "--disable-port-security", *JSON))
    assert (two["port_security_enabled"], two["security_groups"]) == (False, [])
    refused = minova("security", "group", "delete", "web")
    assert (refused.code, "in use" in refused.err) == (1, True)
    succeed(minova("port", "delete", "one"))
    succeed(minova("security", "group", "rule", "delete", opened["id"]))
    succeed(minova("security", "group", "set", "web", "--name", "front"))
    assert json_output(minova("security", "group", "show", "front", *JSON))["id"] == web["id"]
    succeed(minova("security", "group", "delete", "front"))
    assert minova("security", "group", "rule", "create", "default", "--protocol", "elephant").code == 1
