"""A real guest on a real Open vSwitch, wired by a real neutron-openvswitch-agent. All of them in a network namespace that goes with them."""

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import msgspec
import pytest

from tests.cluster import Cluster
from tests.integration.neutron.conftest import HOST, OPTIONS, Cloud, flavor, image
from tests.integration.virt.guest_console import GuestConsole
from tests.servers.namespace import Namespace, frames
from tests.servers.neutron import Neutron
from tests.servers.neutron_agent import NeutronAgent
from tests.servers.openvswitch import OpenVSwitch, SwitchedLibvirtd
from tests.servers.private_server import free_ports
from tests.waiting import wait_for

PEER = "peer0"


class Host(msgspec.Struct, frozen=True, kw_only=True):
    """A hypervisor, and what is plugged there."""

    cloud: Cloud
    namespace: Namespace
    switch: OpenVSwitch
    uri: str

    def taps(self) -> set[str]:
        """Of guests. Those of the switch itself have no name like this."""
        lines = self.namespace.run("ip", "-o", "link", "show", "type", "tun").splitlines()
        return {name for line in lines if (name := line.split(": ")[1]).startswith("tap")}

    def plugged(self) -> set[str]:
        return {name for name in self.switch.vsctl("list-ports", "br-int") if name.startswith("tap")}

    def console(self, server: str) -> GuestConsole:
        def text() -> str:
            action: dict[str, Any] = {"os-getConsoleOutput": {}}
            return str(self.cloud.ask("POST", f"/v2.1/servers/{server}/action", action)["output"])

        wait_for("the guest is ready", lambda: "MINOVA-GUEST READY" in text(), 180)
        return GuestConsole(self.uri, server, text)


@pytest.fixture(scope="module")
def host(
    tmp_path_factory: pytest.TempPathFactory, fresh_rabbit_url: Callable[[], str], guest_image: Any
) -> Iterator[Host]:
    folder = tmp_path_factory.mktemp("neutron")
    transport = fresh_rabbit_url()
    (port,) = free_ports(1)
    with ExitStack() as stack:
        neutron = stack.enter_context(Neutron(f"http://127.0.0.1:{port}/v2.1", transport))
        switch_folder = neutron.directory / "ovs"
        switch_folder.mkdir()
        libvirtd = stack.enter_context(SwitchedLibvirtd(switch_folder))
        assert libvirtd.pid is not None
        namespace = Namespace(libvirtd.pid)
        switch = stack.enter_context(OpenVSwitch(namespace, switch_folder))
        stack.enter_context(NeutronAgent(namespace, switch, HOST, transport))
        file = folder / "neutron.conf"
        file.write_text(OPTIONS.format(url=neutron.url))
        options: dict[str, Any] = {
            "api__osapi_compute_listen_port": port,
            "compute_driver": "libvirt.LibvirtDriver",
            "libvirt__connection_uri": libvirtd.uri,
            "libvirt__virt_type": "qemu",
        }
        cluster = stack.enter_context(Cluster(folder / "cloud", [HOST], files=[str(file)], **options))
        cloud = Cloud(
            cluster=cluster,
            neutron=neutron,
            image=image(cluster, guest_image.read_bytes(), "qcow2"),
            flavor=flavor(cluster),
            network=neutron.network("blue", "10.9.0.0/24"),
        )
        yield Host(cloud=cloud, namespace=namespace, switch=switch, uri=libvirtd.uri)


@pytest.fixture(scope="module")
def peer(host: Host) -> str:
    """The address of another port on the network, which is a device of the host."""
    port = host.cloud.neutron.port(host.cloud.network["id"], **{"binding:host_id": HOST, "device_owner": "test:peer"})
    ids = [f"external_ids:iface-id={port['id']}", f"external_ids:attached-mac={port['mac_address']}"]
    own = ["type=internal", f'mac="{port["mac_address"]}"', "external_ids:iface-status=active"]
    host.switch.vsctl("add-port", "br-int", PEER, "--", "set", "Interface", PEER, *own, *ids)
    address = str(port["fixed_ips"][0]["ip_address"])
    host.namespace.run("ip", "address", "add", f"{address}/24", "dev", PEER)
    host.namespace.run("ip", "link", "set", PEER, "up")
    wait_for("the peer is wired", lambda: host.cloud.neutron.port_now(port["id"])["status"] == "ACTIVE")
    return address


@pytest.mark.nightly("a minute; test_servers.py has the same wiring with answers of Neutron alone")
def test_a_guest_is_wired_from_its_build_to_its_deletion(host: Host, peer: str) -> None:
    cloud = host.cloud
    server = cloud.boot("real", [{"uuid": cloud.network["id"]}])
    shown = cloud.until(server, "ACTIVE")
    (port,) = cloud.ports(server)
    assert (port["binding:vif_type"], port["status"]) == ("ovs", "ACTIVE")
    assert [shown_address["addr"] for shown_address in shown["addresses"]["blue"]] == [
        port["fixed_ips"][0]["ip_address"]
    ]
    assert host.taps() == host.plugged()
    assert len(host.taps()) == 1

    with frames(host.namespace, PEER) as wire:
        inside = host.console(server)
        address = port["fixed_ips"][0]["ip_address"]
        inside.ask(f"ip link set eth0 up; ip address add {address}/24 dev eth0; echo done")
        assert inside.ask(f"ping -c 1 -w 30 {peer} >/dev/null && echo yes") == "yes"
        assert came_from(wire, port["mac_address"])

    path = f"/v2.1/servers/{server}/os-interface"
    second = cloud.ask("POST", path, {"interfaceAttachment": {"net_id": cloud.network["id"]}})["interfaceAttachment"]
    wait_for("the second one is wired", lambda: {port["status"] for port in cloud.ports(server)} == {"ACTIVE"})
    look = "cat /sys/class/net/eth1/address 2>/dev/null"
    wait_for("the guest has found it", lambda: inside.ask(look) == second["mac_addr"])
    assert len(host.plugged()) == 2
    cloud.ask("DELETE", f"{path}/{second['port_id']}")
    wait_for("it is unplugged", lambda: len(host.plugged()) == 1)
    # The host has not said so yet: a reboot would end the detachment, and the server would have both again.
    wait_for("the server has lost it", lambda: len(cloud.ports(server)) == 1)

    cloud.ask("POST", f"/v2.1/servers/{server}/action", {"reboot": {"type": "HARD"}})
    wait_for("it runs again", lambda: cloud.show(server)["status"] == "ACTIVE", 180)
    wait_for("it is wired again", lambda: [port["status"] for port in cloud.ports(server)] == ["ACTIVE"])
    assert len(host.plugged()) == 1

    cloud.delete(server)
    wait_for("its ports are deleted", lambda: not cloud.ports(server))
    assert (host.taps(), host.plugged()) == (set(), set())


def came_from(wire: socket.socket, mac_address: str) -> bool:
    """Whether a frame that this address has sent is among those that have passed."""
    wire.settimeout(10)
    source, until = bytes.fromhex(mac_address.replace(":", "")), time.monotonic() + 10
    while time.monotonic() < until:
        if wire.recv(65536)[6:12] == source:
            return True
    return False
