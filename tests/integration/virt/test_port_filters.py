"""What leaves a real guest and what reaches it: forged addresses, security groups, and services of its host."""

import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import libvirt
import msgspec
import pytest

from minova.objects.catalogue.image import Image
from minova.objects.network.network import EGRESS, INGRESS, AddressPair
from minova.objects.network.vif import Vif, VifAddress, VifRule, VifSubnet, network_name, tap_name
from minova.objects.servers.instance import Instance
from minova.objects.servers.states import PowerState
from minova.virt.driver import ComputeDriver
from tests.integration.virt.guest_console import GuestConsole
from tests.integration.virt.host_socket import metadata_service
from tests.integration.virt.test_guest import instance, load, remove_all
from tests.servers.libvirtd import Libvirtd
from tests.waiting import wait_for

NETWORK = str(uuid.uuid4())
SUBNET = VifSubnet(id="s", cidr="10.77.3.0/24", gateway_ip="10.77.3.1")
OUT = VifRule(direction=EGRESS, ip_version=4)
PING = VifRule(direction=INGRESS, ip_version=4, protocol="icmp", port_min=8)
TCP = VifRule(direction=INGRESS, ip_version=4, protocol="tcp", port_min=2222, port_max=2222, remotes=("10.77.3.15/32",))
SERVICE = "import http.server as h; h.HTTPServer(('0.0.0.0', 8774), h.SimpleHTTPRequestHandler).serve_forever()"

# Prints who sends datagrams of IPv4 and UDP from port 67 to an interface.
SNIFFER = """
import ipaddress, socket, sys
with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) as packets:
    packets.bind((sys.argv[1], 0))
    print("listening", flush=True)
    while True:
        frame = packets.recv(2048)
        if frame[12:14] == b"\\x08\\x00" and frame[23] == 17 and frame[34:36] == b"\\x00\\x43":
            print(ipaddress.ip_address(frame[26:30]), flush=True)
"""


class Pair(NamedTuple):
    """Two guests that run, their consoles, and the namespace that is their host."""

    driver: ComputeDriver
    server: Libvirtd
    front: Instance
    back: Instance
    inside_front: GuestConsole
    inside_back: GuestConsole

    def on_host(self, *command: str) -> list[str]:
        pid = (self.server.directory / "server.pid").read_text().strip()
        return ["nsenter", "-t", pid, "-n", *command]

    def let_back(self, *rules: VifRule, **values: Any) -> float:
        """The other guest's rules from now on. Returns the seconds that libvirt took."""
        (vif,) = self.back.network_info
        begun = time.monotonic()
        self.driver.refresh_interfaces({self.back.uuid: (msgspec.structs.replace(vif, rules=rules, **values),)})
        return time.monotonic() - begun

    def let_front(self, **values: Any) -> None:
        (vif,) = self.front.network_info
        self.driver.refresh_interfaces({self.front.uuid: (msgspec.structs.replace(vif, **values),)})

    def pings(self, *options: str) -> bool:
        # Busybox waits for 10 s after the last one unless -W says otherwise.
        command = f"ping -c 2 -W 4 {' '.join(options)} >/dev/null 2>&1 && echo yes || echo no"
        return self.inside_front.ask(command) == "yes"


def vif(number: int, **more: Any) -> Vif:
    return Vif(
        port_id=str(uuid.uuid4()),
        mac_address=f"fa:16:3e:00:03:{number:02x}",
        network_id=NETWORK,
        addresses=(VifAddress(subnet_id="s", ip_address=f"10.77.3.{number}"),),
        subnets=(SUBNET,),
        rules=(OUT, PING),
        **more,
    )


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, guest_image: Path) -> Iterator[Pair]:
    with Libvirtd(networks=True) as server:
        driver = load(tmp_path_factory.mktemp("filters"), server.uri, proc_net=server.proc_net)
        names = {15: "front", 16: "back"}
        guests = [instance(hostname=name, network_info=(vif(number),)) for number, name in names.items()]
        consoles = []
        for guest in guests:
            driver.prepare(guest, driver.available_nodes()[0], 1, guest_image)
            driver.power_on(guest)
            consoles.append(GuestConsole(server.uri, guest.uuid, partial(driver.console_output, guest.uuid, None)))
        for guest in guests:
            text = partial(driver.console_output, guest.uuid, None)
            wait_for("READY", lambda text=text: "MINOVA-GUEST READY" in text(), 120)  # type: ignore[misc]
            assert "MINOVA-GUEST DHCP eth0 10.77.3." in text(), text()[-2000:]
        yield Pair(driver, server, guests[0], guests[1], consoles[0], consoles[1])
        remove_all(driver)
        connection = libvirt.open(server.uri)
        left = [each.name() for each in connection.listAllNWFilters() if each.name().startswith("minova-port-")]
        connection.close()
        driver.close()
    assert left == [], "filters go with their guests"


def test_ping_and_port_open_and_close_while_guests_run(pair: Pair) -> None:
    assert pair.pings("10.77.3.16")
    pair.let_back(OUT)
    assert not pair.pings("10.77.3.16")
    pair.let_back(OUT, PING)
    assert pair.pings("10.77.3.16")
    pair.inside_back.ask("{ while true; do echo hello | nc -l -p 2222; done; } </dev/null >/dev/null 2>&1 & echo begun")
    fetch = "nc -w 3 10.77.3.16 2222 </dev/null 2>/dev/null; echo done"
    assert pair.inside_front.ask(fetch) == "done"
    pair.let_back(OUT, TCP)
    assert pair.inside_front.ask(f"{{ {fetch}; }} | head -1") == "hello"
    pair.let_back(OUT, msgspec.structs.replace(TCP, remotes=("10.77.3.77/32",)))
    assert pair.inside_front.ask(f"{{ {fetch}; }} | head -1") == "done"
    # What goes out may be closed, too; a group without members lets nothing in.
    pair.let_back(OUT, PING)
    pair.let_front(rules=())
    assert not pair.pings("10.77.3.16")
    pair.let_front(rules=(OUT, PING))
    pair.let_back(OUT, msgspec.structs.replace(PING, remotes=()))
    assert not pair.pings("10.77.3.16")
    pair.let_back(OUT, PING)


def test_guests_read_their_own_metadata_alone(pair: Pair) -> None:
    """At 169.254.169.254 of their host, also where their groups let nothing out, and nothing else there."""

    def get(path: str, seconds: int = 20) -> str:
        request = f"GET {path} HTTP/1.0"
        # Its standard input stays open: the service takes the end of what a client sends for the end of the connection.
        send = f'{{ printf "{request}\\r\\n\\r\\n"; sleep 2; }}'
        return f"{send} | timeout {seconds} nc 169.254.169.254 80"

    # The guest's own wget is broken.
    fetch = f"{get('/latest/meta-data/hostname')} | tail -n 1"
    guests = {"10.77.3.15": pair.front, "10.77.3.16": pair.back}
    with metadata_service(pair.server, guests) as conductor:
        # Once again after an answer that came too late on a busy machine.
        wait_for("metadata of the first", lambda: pair.inside_front.ask(fetch) == "front.novalocal")
        wait_for("metadata of the second", lambda: pair.inside_back.ask(fetch) == "back.novalocal")
        pair.let_front(rules=())
        meta_data = f"{get('/openstack/latest/meta_data.json')} | tail -n 1 | cut -c 1-60"
        wait_for("OpenStack's metadata", lambda: pair.front.uuid in pair.inside_front.ask(meta_data))
        pair.let_front(rules=(OUT, PING))
        # Another service of the host, at all of its addresses.
        with subprocess.Popen(pair.on_host(sys.executable, "-c", SERVICE)) as other:
            try:
                wait_for(
                    "a service on the host",
                    lambda: not subprocess.run(pair.on_host("sh", "-c", "ss -lnt | grep -q 8774")).returncode,
                )
                answers = "nc -w 3 169.254.169.254 8774 </dev/null >/dev/null 2>&1 && echo open || echo closed"
                assert pair.inside_front.ask(answers) == "closed"
            finally:
                other.kill()
        # Its own metadata never come from another's address.
        assert set(conductor.asked) == set(guests)
        conductor.asked.clear()
        pair.inside_front.ask("ip addr add 10.77.3.16/24 dev eth0; echo done")
        pair.inside_front.ask("ip route add 169.254.169.254 via 10.77.3.1 src 10.77.3.16; echo done")
        # Both addresses are its own to it, and the route says which one it sends from.
        assert "src 10.77.3.16" in pair.inside_front.ask("ip route get 169.254.169.254 | tr '\\n' ' '")
        forged = f"{get('/latest/meta-data/hostname', 5)} 2>/dev/null | wc -c"
        assert pair.inside_front.ask(forged) == "0"
        assert conductor.asked == []
        again = (
            "ip addr flush dev eth0; ip addr add 10.77.3.15/24 dev eth0; ip route add default via 10.77.3.1; echo done"
        )
        pair.inside_front.ask(again)


def test_forged_addresses_do_not_get_through(pair: Pair) -> None:
    """The other guest neither answers nor learns of them."""
    inside, neighbours = pair.inside_front, "cat /proc/net/arp | tr '\\n' ' '"
    assert pair.pings("10.77.3.16")
    inside.ask("ip addr add 10.77.3.99/24 dev eth0; echo done")
    assert not pair.pings("-I 10.77.3.99", "10.77.3.16")
    inside.ask("arping -U -c 2 -I eth0 -s 10.77.3.99 10.77.3.16 >/dev/null 2>&1; echo done")
    assert "10.77.3.99" not in pair.inside_back.ask(neighbours)
    # A pair of the port allows the address; security that is switched off allows all.
    pair.let_front(allowed_address_pairs=(AddressPair(ip_address="10.77.3.96/29"),))
    assert pair.pings("-I 10.77.3.99", "10.77.3.16")
    pair.let_front()
    assert not pair.pings("-I 10.77.3.99", "10.77.3.16")
    pair.let_front(port_security_enabled=False)
    assert pair.pings("-I 10.77.3.99", "10.77.3.16")
    pair.let_front()
    inside.ask("ip addr del 10.77.3.99/24 dev eth0; ip link set eth0 address fa:16:3e:00:03:aa; echo done")
    assert not pair.pings("10.77.3.16")
    assert "fa:16:3e:00:03:aa" not in pair.inside_back.ask(neighbours)
    inside.ask("ip link set eth0 address fa:16:3e:00:03:0f; echo done")
    assert pair.pings("10.77.3.16")


@pytest.mark.nightly("a boot more; test_forged_addresses_do_not_get_through has frames of the same filter")
def test_guest_is_no_dhcp_server(pair: Pair) -> None:
    """It hears the question of the other guest; its answer goes no further."""
    everything = VifRule(direction=INGRESS, ip_version=4)
    pair.let_back(OUT, everything)
    settings = "start 10.77.3.200\\nend 10.77.3.210\\ninterface eth0\\nlease_file /tmp/leases\\n"
    pair.inside_front.ask(f"printf '{settings}' > /tmp/udhcpd; touch /tmp/leases; echo written")
    pair.inside_front.ask("udhcpd -f /tmp/udhcpd </dev/null >/dev/null 2>&1 & echo begun")
    assert servers_that_answer(pair, rules=(OUT, everything)) == {"10.77.3.1"}
    # The host serves the network: what its port lets out reaches no other guest.
    assert servers_that_answer(pair, port_security_enabled=False) == {"10.77.3.1"}
    pair.inside_front.ask("killall udhcpd; echo done")
    pair.let_front()
    pair.let_back(OUT, PING)


def servers_that_answer(pair: Pair, **front: Any) -> set[str]:
    """Senders of DHCP answers that reach the other guest, of a few that it asks for."""
    pair.let_front(**front)
    (vif,) = pair.back.network_info
    sniff = pair.on_host("python3", "-c", SNIFFER, tap_name(vif.port_id))
    with subprocess.Popen(sniff, stdout=subprocess.PIPE, text=True) as sniffer:
        assert sniffer.stdout is not None
        assert sniffer.stdout.readline() == "listening\n"
        ask = "udhcpc -i eth0 -n -q -t 3 -T 1 -s /bin/true >/dev/null 2>&1; echo asked"
        for _ in range(2):
            assert pair.inside_back.ask(ask) == "asked"
        sniffer.terminate()
        return set(sniffer.stdout.read().split())


@pytest.mark.nightly("tests/security/test_local_networks.py has datagrams from the namespace")
def test_guest_does_not_reach_its_host_by_broadcast_or_multicast(pair: Pair) -> None:
    """The host answers such a ping here, as a service on all addresses would."""
    answer = "open('/proc/sys/net/ipv4/icmp_echo_ignore_broadcasts', 'w').write('0')"
    subprocess.run(pair.on_host("python3", "-c", answer), check=True)
    for more in ({}, {"port_security_enabled": False}):
        pair.let_front(**more)
        assert pair.pings("10.77.3.1")
        for everyone in ("10.77.3.255", "224.0.0.1", "255.255.255.255"):
            assert not pair.pings("-I eth0", everyone), (everyone, more)
    pair.let_front()


def test_host_serves_its_guests_addresses_and_names_alone(pair: Pair) -> None:
    """Not its API, whatever address of it they ask."""
    with subprocess.Popen(pair.on_host("python3", "-c", SERVICE), cwd="/proc") as service:
        try:
            fetch = "import urllib.request as u; u.urlopen('http://127.0.0.1:8774/version', timeout=5)"
            subprocess.run(pair.on_host("ip", "address", "replace", "198.51.100.7/32", "dev", "lo"), check=True)
            wait_for(
                "the service",
                lambda: (
                    subprocess.run(pair.on_host("python3", "-c", fetch), check=False, capture_output=True).returncode
                    == 0
                ),
            )
            # Its gateway, an address of the host, and the host's end of the way to the network.
            for address in ("10.77.3.1", "198.51.100.7", "169.254.0.0"):
                ask = f"nc -w 3 {address} 8774 </dev/null >/dev/null 2>&1 && echo yes || echo no"
                assert pair.inside_front.ask(ask) == "no"
                pair.let_front(port_security_enabled=False)
                assert pair.inside_front.ask(ask) == "no"
                pair.let_front()
            pair.let_front()
            assert pair.inside_front.ask("nslookup back 10.77.3.1 | grep -c 10.77.3.16") == "1"
            assert pair.pings("10.77.3.1")
        finally:
            service.terminate()


@pytest.mark.nightly("a boot more; test_interfaces_come_and_go_while_guests_run has one port")
def test_a_guest_with_pcie_ports_takes_several_interfaces_while_it_runs(pair: Pair, guest_image: Path) -> None:
    """Of machine q35, to which libvirt leaves one free port."""
    image = Image(id="i", disk_format="qcow2", properties={"hw_machine_type": "q35"})
    new_instance = instance(hostname="q35", image=image, network_info=(vif(40),))
    pair.driver.prepare(new_instance, pair.driver.available_nodes()[0], 1, guest_image)
    pair.driver.power_on(new_instance)
    text = partial(pair.driver.console_output, new_instance.uuid, None)
    console = GuestConsole(pair.server.uri, new_instance.uuid, text)
    wait_for("READY", lambda: "MINOVA-GUEST READY" in text(), 180)
    more = [vif(number) for number in range(41, 49)]
    for each in more:
        assert pair.driver.attach_interface(new_instance, each) is PowerState.RUNNING
    count = "cat /sys/class/net/eth*/address | grep -c fa:16:3e"
    wait_for("the guest has them", lambda: console.ask(count) == "9", 60)
    for each in more:
        assert pair.driver.detach_interface(new_instance.uuid, each, lambda: None) is PowerState.RUNNING
    assert (console.ask(count), len(pair.driver.interfaces(new_instance.uuid))) == ("1", 1)
    pair.driver.destroy(new_instance.uuid)


@pytest.mark.nightly("half a minute; other tests of the file have each rule")
def test_interfaces_come_and_go_while_guests_run(pair: Pair) -> None:
    """On a network of their own, which is made for the first one and goes with the last one."""
    other = str(uuid.uuid4())
    subnet = VifSubnet(id="t", cidr="10.77.4.0/24", gateway_ip="10.77.4.1")

    def second(number: int, **more: Any) -> Vif:
        address = VifAddress(subnet_id="t", ip_address=f"10.77.4.{more.pop('address', number)}")
        port = f"{number:08x}-0000-4000-8000-000000000000"
        return msgspec.structs.replace(
            vif(number, **more), port_id=port, network_id=other, addresses=(address,), subnets=(subnet,)
        )

    def carrier() -> str:
        return pair.inside_front.ask("cat /sys/class/net/eth1/carrier 2>/dev/null || echo none")

    def networks() -> set[str]:
        connection = libvirt.open(pair.server.uri)
        names = {each.name() for each in connection.listAllNetworks()}
        connection.close()
        return names

    lease = "ip link set eth1 up; udhcpc -n -q -t 10 -T 2 -i eth1 -s /dhcp-event >/dev/null 2>&1; ip -o -4 addr show dev eth1"
    for guest, console, number in ((pair.front, pair.inside_front, 25), (pair.back, pair.inside_back, 26)):
        for _ in range(2):
            assert pair.driver.attach_interface(guest, second(number)) is PowerState.RUNNING
        console.ask("for n in $(seq 50); do [ -e /sys/class/net/eth1 ] && break; sleep 0.2; done; echo there")
        assert console.ask("cat /sys/class/net/eth1/address") == f"fa:16:3e:00:03:{number:02x}"
        assert f"10.77.4.{number}/24" in console.ask(lease)
        assert [each.mac_address for each in pair.driver.interfaces(guest.uuid)][1:] == [second(number).mac_address]
    assert pair.pings("-I", "eth1", "10.77.4.26")
    assert network_name(other) in networks()

    # What changes of the port reaches the guest.
    first = pair.front.network_info
    changed = second(25, address=99, admin_state_up=False)
    for port_state, link in ((changed, "0"), (msgspec.structs.replace(changed, admin_state_up=True), "1")):
        assert pair.driver.refresh_interfaces({pair.front.uuid: (*first, port_state)}) == (pair.back.uuid,)
        wait_for(f"carrier {link}", lambda link=link: carrier() == link, 30)  # type: ignore[misc]
    assert "10.77.4.99/24" in pair.inside_front.ask(lease)
    assert pair.pings("-I", "eth1", "10.77.4.26")

    for guest, console, number in ((pair.front, pair.inside_front, 25), (pair.back, pair.inside_back, 26)):
        for _ in range(2):
            assert pair.driver.detach_interface(guest.uuid, second(number), lambda: None) is PowerState.RUNNING
        assert console.ask("[ -e /sys/class/net/eth1 ] && echo there || echo gone") == "gone"
        assert len(pair.driver.interfaces(guest.uuid)) == 1
    assert network_name(other) not in networks()
    assert pair.pings("10.77.3.16"), "the first ones are as before"
