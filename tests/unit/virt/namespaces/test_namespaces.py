"""Values of the namespaces of local networks, which a process with root's rights takes from one without them."""

import re
import uuid
from pathlib import Path

import pytest

from minova.virt.namespaces import dnsmasq, rules, shares
from minova.virt.namespaces.namespaces import NetworkNamespaces
from minova.virt.namespaces.network import (
    GuestInterface,
    HostSubnet,
    LocalNetwork,
    NetworkRecord,
    Option,
    require_interface,
)
from minova.virt.namespaces.records import write_record

ID = "0a1b2c3d-4e5f-4a6b-8c7d-0123456789ab"


@pytest.mark.parametrize("name", ["", "\0", "a/b", "..", "x" * 16, "eth0\n", "-o x"])
def test_bug_a_name_that_is_none_breaks_every_later_call(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="is no name of an interface"):
        NetworkNamespaces(tmp_path).track([name])
    assert list(tmp_path.iterdir()) == []


def test_names_of_interfaces() -> None:
    for name in ("br0", "br-ex", "vlan.100", "a:1", "x" * 15):
        require_interface(name)


def test_bug_guests_read_names_and_queries_of_others_at_the_resolver_of_the_host(tmp_path: Path) -> None:
    (text,) = dnsmasq.of_host(tmp_path).values()
    assert {"no-hosts", "cache-size=0"} <= {*text.splitlines()}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        f"{ID}@4026531840",
        f"x/../{ID}",
        ID.upper(),
        ID.replace("-", ""),
        f"{{{ID}}}",
        f"urn:uuid:{ID}",
        f"{ID}\n",
    ],
)
def test_bug_id_with_more_than_a_network_reaches_names_of_another_host(tmp_path: Path, text: str) -> None:
    networks = NetworkNamespaces(tmp_path, host=tmp_path / "no-namespace")
    for call in (
        lambda: networks.enter(text, GuestInterface(mac="fa:16:3e:00:00:01")),
        lambda: networks.forget(text, []),
        lambda: networks.listener(text),
        lambda: networks.connect(text, "10.0.0.2", 22, 1.0),
        lambda: networks.ensure(LocalNetwork(network_id=text)),
        lambda: networks.remove(text),
    ):
        with pytest.raises(ValueError, match="is no id of a network"):
            call()


def test_record_with_another_id_than_a_network_is_none(tmp_path: Path) -> None:
    folder = tmp_path / "networks" / f"minova-{ID}@1"
    write_record(folder, NetworkRecord(network=LocalNetwork(network_id=f"{ID}@1"), index=0, mac="fa:16:3e:00:00:01"))
    assert NetworkNamespaces(tmp_path).all_records() == {}
    assert NetworkNamespaces(tmp_path, suffix="@1").all_records() == {}


def test_bug_rules_for_guests_of_a_network_are_for_requests_to_another() -> None:
    """Whoever enters an interface without its device would let each guest of the host ask for DHCP in its name."""
    four, six = HostSubnet(cidr="10.0.0.0/24", gateway="10.0.0.1"), HostSubnet(cidr="fd00::/64", mode="dhcpv6-stateful")
    network = LocalNetwork(network_id=ID, subnets=(four, six))
    hosts = tuple(GuestInterface(mac=f"fa:16:3e:00:00:0{number}", tap=tap) for number, tap in enumerate(("", "tap1")))
    text = rules.of_bridges([NetworkRecord(network=network, index=0, mac=network.mac, hosts=hosts)])
    for number in range(2):
        digits = f"fa163e00000{number}"
        (line,) = (line for line in text.splitlines() if f"0x{digits}" in line)
        assert line.startswith(f'oifname "{network.port}" ')
    of_devices = [line for line in text.splitlines() if 'iifname "tap1"' in line]
    assert len(of_devices) == 3
    assert all(line.startswith(f'oifname "{network.port}" ') for line in of_devices)


def test_bug_many_subnets_make_a_line_that_dnsmasq_does_not_read(tmp_path: Path) -> None:
    ranges = [f"fd00:1111:2222:3333:4444:5555:{number:x}:0/112" for number in range(1, 65)]
    subnets = tuple(
        HostSubnet(cidr=each, gateway=each.replace(":0/112", ":1"), mode="slaac", resolvers=(f"2001:db8::{number:x}",))
        for number, each in enumerate(ranges, 1)
    )
    for over in ("", "br0"):
        network = LocalNetwork(network_id=str(uuid.uuid4()), subnets=subnets, over=over)
        files = dnsmasq.of_network(NetworkRecord(network=network, index=0, mac=network.mac), tmp_path)
        lines = files[dnsmasq.CONFIGURATION].splitlines()
        assert max(map(len, lines)) <= 1024
        (servers,) = (line for line in lines if "option6:dns-server" in line)
        assert servers.count("[") == 3


def test_a_line_that_dnsmasq_does_not_read_is_refused(tmp_path: Path) -> None:
    long = GuestInterface(mac="fa:16:3e:00:00:01", options=(Option(name="66", value="x" * 1000),))
    with pytest.raises(ValueError, match="for dnsmasq"):
        dnsmasq.entries([long])


def test_only_bridges_of_the_configuration_are_tracked(tmp_path: Path) -> None:
    for name in ("eth0", "docker0", "mn0123456789ab"):
        with pytest.raises(ValueError, match="bridge_mappings"):
            NetworkNamespaces(tmp_path, bridges=lambda: {"br0"}).track([name])
    assert list(tmp_path.iterdir()) == []


def test_bug_a_set_in_each_namespace_took_two_megabytes_of_the_kernel() -> None:
    """The kernel makes a table for as many elements as the set may have, before it has any."""
    subnet = HostSubnet(cidr="10.0.0.0/24", gateway="10.0.0.1")
    network = LocalNetwork(network_id=str(uuid.uuid4()), subnets=(subnet,))
    text = rules.of_network(NetworkRecord(network=network, index=0, mac=network.mac))
    assert 0 < sum(map(int, re.findall(r"size (\d+)", text))) <= 1100
    of_host = shares.of_host(1 << 18)
    assert 0 < sum(map(int, re.findall(r"size (\d+)", of_host))) <= 1 << 17
