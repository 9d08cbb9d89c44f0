"""Guests on a local network, by the libvirt driver on real QEMU: a bridge of libvirt, and a namespace of the network."""

import os
import signal
import subprocess
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import libvirt
import msgspec
import psutil
import pytest

from minova.errors import HardwareNotOffered
from minova.objects.network.vif import Vif, VifAddress, VifSubnet, bridge_name, network_name, tap_name
from minova.objects.servers.instance import Instance
from minova.virt.driver import ComputeDriver
from minova.virt.libvirt.networking.repair import Repair
from minova.virt.namespaces.host_networks import of_this_host
from minova.virt.namespaces.network import network_of
from tests.integration.virt.guest_console import GuestConsole
from tests.integration.virt.test_guest import instance, load, remove_all
from tests.servers.libvirtd import Libvirtd
from tests.waiting import wait_for

NETWORK = "7d1f0c52-0000-4000-8000-000000000001"
SUBNET = VifSubnet(id="s", cidr="10.77.1.0/24", gateway_ip="10.77.1.1")
# Seconds between two pings of a guest, and of its outage while its network moves over: by far less than what applications wait for.
PAUSE, LONGEST_OUTAGE = 0.2, 5.0

# As release 0.1.0 made it.
FORMER = f"""
<network>
  <name>{network_name(NETWORK)}</name>
  <uuid>{NETWORK}</uuid>
  <forward mode="nat"/>
  <bridge name="{bridge_name(NETWORK)}" stp="off" delay="0"/>
  <mtu size="1400"/>
  <ip address="10.77.1.1" prefix="24"><dhcp><host mac="fa:16:3e:00:00:0f" ip="10.77.1.15" name="front"/></dhcp></ip>
</network>
"""
# Of a later commit, which had the same network, and this one beside it: its bridge had the address of the metadata service.
FORMER_METADATA = """
<network>
  <name>minova-metadata</name>
  <bridge name="mnmetadata" stp="off" delay="0"/>
  <dns enable="no"/>
  <ip address="169.254.169.254" prefix="32"/>
</network>
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Libvirtd]:
    """In a network namespace of its own."""
    with Libvirtd(networks=True) as started:
        yield started


@pytest.fixture
def driver(tmp_path: Path, server: Libvirtd) -> Iterator[ComputeDriver]:
    driver = load(tmp_path, server.uri, proc_net=server.proc_net)
    yield driver
    remove_all(driver)
    driver.close()


def vif(number: int, **more: Any) -> Vif:
    return Vif(
        port_id=str(uuid.uuid4()),
        mac_address=f"fa:16:3e:00:00:{number:02x}",
        network_id=NETWORK,
        mtu=1400,
        addresses=(VifAddress(subnet_id="s", ip_address=f"10.77.1.{number}"),),
        subnets=(SUBNET,),
        **more,
    )


def guest(number: int, name: str) -> Instance:
    return instance(display_name=name, hostname=name, network_info=(vif(number),))


def networks(server: Libvirtd) -> dict[str, list[tuple[str, ...]]]:
    """The interfaces of each network: MAC address, address, name. Without a gateway there are none."""
    records = of_this_host("", server.uri, server.proc_net).records()
    connection = libvirt.open(server.uri)
    try:
        return {
            network.name(): [
                (host.mac, host.address, host.name)
                for host in (records[network.UUIDString()].hosts if network.UUIDString() in records else ())
            ]
            for network in connection.listAllNetworks()
            if network.isActive()
        }
    finally:
        connection.close()


def on_host(server: Libvirtd, *command: str) -> str:
    """What a command prints in the namespace of the host."""
    pid = (server.directory / "server.pid").read_text().strip()
    done = subprocess.run(["nsenter", "-t", pid, "-n", *command], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def boot(driver: ComputeDriver, server: Libvirtd, image: Path, one: Instance) -> GuestConsole:
    driver.prepare(one, driver.available_nodes()[0], 1, image)
    driver.power_on(one)
    return GuestConsole(server.uri, one.uuid, lambda: driver.console_output(one.uuid, None))


def is_ready(driver: ComputeDriver, one: Instance) -> bool:
    return "MINOVA-GUEST READY" in driver.console_output(one.uuid, None)


def ports_on_host(server: Libvirtd, bridge: str) -> list[str]:
    lines = on_host(server, "ip", "-o", "link", "show", "type", "tun").splitlines()
    return [line.split(": ")[1].partition("@")[0] for line in lines if f"master {bridge} " in line]


def number_of(server: Libvirtd) -> int:
    """The number of the host's network namespace, which is in the names of what belongs to it."""
    return (server.proc_net.parent / "ns" / "net").stat().st_ino


def dnsmasq_of(server: Libvirtd, network_id: str) -> list[int]:
    return [
        process.pid
        for process in psutil.process_iter(["cmdline"])
        if any(f"{network_name(network_id)}@{number_of(server)}/" in word for word in process.info["cmdline"] or ())
    ]


@contextmanager
def pinging(inside: GuestConsole, *addresses: str) -> Iterator[None]:
    """The guest sends pings to these addresses all the while. The longest time without an answer of one of them is some seconds at most."""
    every = " ".join(addresses)
    start = f"for a in {every}; do ping -i {PAUSE} $a >/tmp/ping-$a 2>&1 & done; sleep 2; echo yes"
    assert inside.ask(start) == "yes"
    yield
    assert inside.ask("sleep 3; kill -INT $(pidof ping); sleep 1; echo yes") == "yes"
    for address in addresses:
        answers = inside.ask(f"sed -n 's/.* seq=\\([0-9]*\\) .*/\\1/p' /tmp/ping-{address} | tr '\\n' ' '")
        sent = inside.ask(f"sed -n 's/ packets transmitted.*//p' /tmp/ping-{address}")
        answered = [-1, *map(int, answers.split()), int(sent)]
        longest = max(later - earlier - 1 for earlier, later in pairwise(answered)) * PAUSE
        print(
            f"{address}: {int(sent) - len(answered) + 2} of {sent} pings lost, at most {longest:.1f} s without an answer"
        )
        assert len(answered) > 10
        assert longest < LONGEST_OUTAGE


def make_former(server: Libvirtd, lost: Repair, *, with_metadata: bool) -> str:
    """Puts the running guests of the network on one of an earlier form. Returns the MAC address of its gateway, which they
    know.
    """
    of_this_host("", server.uri, server.proc_net).remove(NETWORK)
    connection = libvirt.open(server.uri)
    network = connection.networkLookupByName(network_name(NETWORK))
    network.destroy()
    network.undefine()
    for xml in (FORMER, FORMER_METADATA)[: 1 + with_metadata]:
        network_define_xml = connection.networkDefineXML(xml)
        network_define_xml.setAutostart(1)
        network_define_xml.create()
    former = connection.networkLookupByName(network_name(NETWORK))
    for domain in connection.listAllDomains():
        lost.plug_all(connection, domain, NETWORK)
    mac = str(former.XMLDesc()).partition("<mac address='")[2][:17]
    connection.close()
    return mac


def test_guests_get_their_addresses_and_reach_each_other_and_their_host(
    driver: ComputeDriver, server: Libvirtd, guest_image: Path, caplog: pytest.LogCaptureFixture
) -> None:
    front, back = guest(15, "front"), guest(16, "back")
    consoles = {each_guest.uuid: boot(driver, server, guest_image, each_guest) for each_guest in (front, back)}
    for each_guest, address in ((front, "10.77.1.15/24"), (back, "10.77.1.16/24")):
        wait_for("READY", partial(is_ready, driver, each_guest), 90)
        assert f"MINOVA-GUEST DHCP eth0 {address}" in driver.console_output(each_guest.uuid, None)
    entries = [("fa:16:3e:00:00:0f", "10.77.1.15", "front"), ("fa:16:3e:00:00:10", "10.77.1.16", "back")]
    assert networks(server) == {network_name(NETWORK): entries}
    inside = consoles[front.uuid]
    assert inside.ask("ping -c 1 -w 20 10.77.1.16 >/dev/null && echo yes") == "yes"
    assert inside.ask("ping -c 1 -w 20 10.77.1.1 >/dev/null && echo yes") == "yes"
    assert inside.ask("cat /sys/class/net/eth0/address /sys/class/net/eth0/mtu | tr '\\n' ' '") == (
        "fa:16:3e:00:00:0f 1400"
    )
    assert inside.ask("nslookup back 10.77.1.1 | grep -c 10.77.1.16") == "1"
    # The host has a way to the network, and no address or route in it.
    assert "10.77.1." not in on_host(server, "ip", "address") + on_host(server, "ip", "route")

    # What is lost while guests run comes back with the next audit.
    local = driver._networks  # type: ignore[attr-defined]
    local.lost = Repair(partial(ports_on_host, server))
    vifs = {
        each_guest.uuid: tuple(
            msgspec.structs.replace(each, hostname=each_guest.hostname) for each in each_guest.network_info
        )
        for each_guest in (front, back)
    }

    def audit() -> None:
        driver._next_repair = 0.0  # type: ignore[attr-defined]
        driver.refresh_interfaces(vifs)

    ping, name = "ping -c 1 -w 20 10.77.1.16 >/dev/null && echo yes", "nslookup back 10.77.1.1 | grep -c 10.77.1.16"
    renew = "udhcpc -n -q -t 10 -T 2 -i eth0 -s /dhcp-event >/dev/null 2>&1 && echo yes"
    audit()
    assert "is lost" not in caplog.text
    assert "again" not in caplog.text
    (dnsmasq,) = dnsmasq_of(server, NETWORK)
    os.kill(dnsmasq, signal.SIGKILL)
    wait_for("dnsmasq to end", lambda: not dnsmasq_of(server, NETWORK))
    audit()
    assert f"Network {network_name(NETWORK)} has lost dnsmasq: it is made again" in caplog.text
    assert consoles[back.uuid].ask(renew) == "yes"
    assert inside.ask(name) == "1"
    own = network_of(vif(15), metadata=True)
    for remove in (
        ["link", "delete", own.port],
        ["link", "delete", own.uplink],
        ["link", "set", own.port, "nomaster"],
    ):
        on_host(server, "ip", *remove)
        caplog.clear()
        audit()
        assert "has lost its way to its bridge or to the host: it is made again" in caplog.text
        assert inside.ask("ping -c 1 -w 20 10.77.1.1 >/dev/null && echo yes") == "yes"
    namespace = f"minova-{NETWORK}@{number_of(server)}"
    subprocess.run(["ip", "netns", "delete", namespace], check=True)
    caplog.clear()
    audit()
    assert "has lost its namespace: it is made again" in caplog.text
    assert consoles[back.uuid].ask(renew) == "yes"
    for step in ("destroy", "undefine"):
        connection = libvirt.open(server.uri)
        network = connection.networkLookupByName(network_name(NETWORK))
        network.destroy()
        if step == "undefine":
            network.undefine()
        connection.close()
        caplog.clear()
        audit()
        assert f"Network {network_name(NETWORK)} is lost, and guests are on it: it is made again" in caplog.text
        assert f"{tap_name(front.network_info[0].port_id)} of instance {front.uuid} is not on its bridge" in caplog.text
        assert networks(server) == {network_name(NETWORK): entries}
        assert inside.ask(ping) == "yes"
        assert consoles[back.uuid].ask(renew) == "yes"
    assert "mntransit" not in on_host(server, "ls", "/proc/sys/net/ipv4/conf")
    caplog.clear()
    audit()
    assert "again" not in caplog.text

    for with_metadata in (False, True):
        former_mac = make_former(server, local.lost, with_metadata=with_metadata)
        gateway = (
            "ping -c 1 -w 20 10.77.1.1 >/dev/null && grep '^10.77.1.1 ' /proc/net/arp | tr -s ' ' | cut -d ' ' -f 4"
        )
        assert inside.ask("ip neigh flush dev eth0 >/dev/null 2>&1; " + gateway) == former_mac
        assert ("169.254.169.254" in on_host(server, "ip", "address")) == with_metadata
        with pinging(inside, "10.77.1.1", "10.77.1.16"):
            audit()
        assert inside.ask(gateway) == former_mac
        assert inside.ask(ping) == "yes"
        assert consoles[back.uuid].ask(renew) == "yes"
        addresses = on_host(server, "ip", "address")
        assert "10.77.1." not in addresses
        assert "169.254.169.254" not in addresses
        assert networks(server) == {network_name(NETWORK): entries}
        caplog.clear()
        audit()
        assert "again" not in caplog.text

    # What is lost comes back with the next start: the whole network, as after a reboot of the host.
    driver.power_off(back.uuid)
    driver.destroy(front.uuid)
    assert networks(server) == {network_name(NETWORK): entries[1:]}
    connection = libvirt.open(server.uri)
    connection.networkLookupByName(network_name(NETWORK)).destroy()
    connection.close()
    driver.power_on(back)
    assert networks(server) == {network_name(NETWORK): entries[1:]}

    driver.destroy(back.uuid)
    assert networks(server) == {}
    assert bridge_name(NETWORK) not in on_host(server, "ls", "/proc/sys/net/ipv4/conf")


def test_bug_address_of_the_metadata_service_stays_on_the_host(driver: ComputeDriver, server: Libvirtd) -> None:
    """The network with it went only with the move of another one: never on a host where all had moved or gone before."""
    connection = libvirt.open(server.uri)
    for active in (True, False):
        former = connection.networkDefineXML(FORMER_METADATA)
        former.setAutostart(1)  # libvirtd would start it again
        if active:
            former.create()
        assert ("169.254.169.254" in on_host(server, "ip", "address")) == active
        driver._next_repair = 0.0  # type: ignore[attr-defined]
        driver.refresh_interfaces({})
        assert "169.254.169.254" not in on_host(server, "ip", "address")
        assert connection.listAllNetworks() == []
    connection.close()


def test_networks_are_kept_while_a_guest_is_on_them(driver: ComputeDriver, server: Libvirtd, guest_image: Path) -> None:
    """Without a boot: two of the same name, one whose address changes, and one on a network without DHCP."""
    (node,) = driver.available_nodes()
    new_guest, twin = guest(15, "front"), guest(16, "front")
    other = Vif(port_id=str(uuid.uuid4()), mac_address="fa:16:3e:00:01:01", network_id=str(uuid.uuid4()))
    both = instance(hostname="both", network_info=(vif(17), other))
    for each in (new_guest, twin, both):
        driver.prepare(each, node, 1, guest_image)
    entries = [
        ("fa:16:3e:00:00:0f", "10.77.1.15", "front"),
        ("fa:16:3e:00:00:10", "10.77.1.16", "front"),
        ("fa:16:3e:00:00:11", "10.77.1.17", "both"),
    ]
    assert networks(server) == {network_name(NETWORK): entries, network_name(other.network_id): []}
    driver.prepare(new_guest, node, 2, guest_image)
    assert sorted(networks(server)[network_name(NETWORK)], key=str) == sorted(entries, key=str)
    driver.destroy(both.uuid)
    assert network_name(other.network_id) not in networks(server)
    driver.destroy(new_guest.uuid)
    driver.destroy(twin.uuid)
    assert networks(server) == {}


def test_networks_go_with_their_last_guests(driver: ComputeDriver, server: Libvirtd, guest_image: Path) -> None:
    """Also when two go at the same time, and when a guest has two interfaces on its network."""
    (node,) = driver.available_nodes()
    twice = instance(hostname="twice", network_info=(vif(15), vif(16)))
    driver.prepare(twice, node, 1, guest_image)
    driver.destroy(twice.uuid)
    assert networks(server) == {}
    for _ in range(3):
        pair = [guest(15, "front"), guest(16, "back")]
        for each in pair:
            driver.prepare(each, node, 1, guest_image)
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda each: driver.destroy(each.uuid), pair))
        assert networks(server) == {}


def test_changes_of_subnets_reach_a_network_with_guests(
    driver: ComputeDriver, server: Libvirtd, guest_image: Path
) -> None:
    (node,) = driver.available_nodes()
    reachable = partial(msgspec.structs.replace, reachable=True)
    first = instance(network_info=(reachable(vif(15)),))
    driver.prepare(first, node, 1, guest_image)
    routes = partial(on_host, server, "ip", "route")
    assert "10.77.1.0/24 via 169.254." in routes()
    wider = (SUBNET, VifSubnet(id="t", cidr="10.77.2.0/24", gateway_ip="10.77.2.1"))

    def audit(**changed: Any) -> str:
        driver.refresh_interfaces({first.uuid: (msgspec.structs.replace(vif(15), **changed),)})
        inside = f"minova-{NETWORK}@{number_of(server)}"
        return on_host(server, "ip", "-netns", inside, "address", "show", "guests")

    assert "10.77.2.1/24" in audit(subnets=wider, reachable=True)
    assert "10.77.2.0/24 via 169.254." in routes()
    assert "10.77.2.1/24" not in audit(reachable=True)
    assert "10.77.2.0/24" not in routes()
    assert "10.77.1.1/24" in audit()
    assert "10.77.1.0/24" not in routes()
    driver.destroy(first.uuid)


def test_host_makes_no_network_in_its_own_routes(tmp_path: Path, server: Libvirtd, guest_image: Path) -> None:
    """The loopback is a route, too."""
    driver = load(tmp_path, server.uri, proc_net=server.proc_net)
    own = VifSubnet(id="s", cidr="127.0.0.0/24", gateway_ip="127.0.0.7")
    new_instance = instance(network_info=(msgspec.structs.replace(vif(15), subnets=(own,), reachable=True),))
    with pytest.raises(HardwareNotOffered, match=r"127\.0\.0\.0/24 overlaps the address 127\.0\.0\.1"):
        driver.prepare(new_instance, driver.available_nodes()[0], 1, guest_image)
    driver.destroy(new_instance.uuid)
    assert networks(server) == {}
    driver.close()


def test_host_without_the_bridge_refuses_and_another_one_may_have_it(
    driver: ComputeDriver, server: Libvirtd, guest_image: Path
) -> None:
    (node,) = driver.available_nodes()
    tagged = vif(15, network_type="vlan", physical_network="dc1", segmentation_id=7)
    new_instance = instance(network_info=(tagged,))
    with pytest.raises(HardwareNotOffered, match=r"no bridge for dc1\.7 in \[networks\] bridge_mappings"):
        driver.prepare(new_instance, node, 1, guest_image)
    assert driver.power_state(new_instance.uuid) is None
