"""A guest whose ports Neutron has bound as `bridge` and as `tap`, on real Linux bridges: no agent of Neutron 29 does that any more, so the test
stands for one.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from minova.objects.network.vif import NEUTRON, Vif, VifAddress, VifSubnet, tap_name
from minova.virt.driver import ComputeDriver
from tests.integration.virt.guest_console import GuestConsole
from tests.integration.virt.test_guest import instance, load, remove_all
from tests.servers.libvirtd import Libvirtd
from tests.servers.namespace import Namespace
from tests.waiting import wait_for

NETWORK = "7d1f0c52-0000-4000-8000-000000000001"
BRIDGE, WIRES = f"brq{NETWORK[:11]}", "br-wires"


def vif(number: int, vif_type: str) -> Vif:
    return Vif(
        port_id=f"9e1f0c5{number}-0000-4000-8000-000000000001",
        mac_address=f"fa:16:3e:00:00:0{number}",
        network_id=NETWORK,
        network_type=NEUTRON,
        mtu=1400,
        addresses=(VifAddress(subnet_id="s", ip_address=f"10.77.{number}.2"),),
        subnets=(VifSubnet(id="s", cidr=f"10.77.{number}.0/24"),),
        vif_type=vif_type,
        active=True,
    )


@pytest.fixture(scope="module")
def namespace() -> Iterator[tuple[Namespace, str]]:
    """A host with two bridges, and the URI of its libvirtd."""
    with Libvirtd(networks=True) as server:
        assert server.pid is not None
        namespace = Namespace(server.pid)
        for number, bridge in ((1, BRIDGE), (2, WIRES)):
            namespace.run("ip", "link", "add", bridge, "type", "bridge")
            namespace.run("ip", "address", "add", f"10.77.{number}.1/24", "dev", bridge)
            namespace.run("ip", "link", "set", bridge, "up")
        yield namespace, server.uri


@pytest.fixture
def driver(tmp_path: Path, namespace: tuple[Namespace, str]) -> Iterator[ComputeDriver]:
    driver = load(tmp_path, namespace[1])
    yield driver
    remove_all(driver)
    driver.close()


@pytest.mark.nightly("half a minute; tests/integration/neutron has the ports of servers each day")
def test_frames_pass_bridges_and_taps(
    driver: ComputeDriver, namespace: tuple[Namespace, str], guest_image: Path
) -> None:
    host, uri = namespace
    bridged, tapped = vif(1, "bridge"), vif(2, "tap")
    new_instance = instance(network_info=(bridged, tapped))
    driver.prepare(new_instance, driver.available_nodes()[0], 1, guest_image)
    driver.power_on(new_instance)
    host.run("ip", "link", "set", tap_name(tapped.port_id), "master", WIRES, "up")  # as Neutron's agent does
    wait_for("READY", lambda: "MINOVA-GUEST READY" in driver.console_output(new_instance.uuid, None), 180)
    assert f"master {BRIDGE}" in host.run("ip", "link", "show", tap_name(bridged.port_id))
    inside = GuestConsole(uri, new_instance.uuid, lambda: driver.console_output(new_instance.uuid, None))
    for number, device in ((1, "eth0"), (2, "eth1")):
        assert inside.ask(f"cat /sys/class/net/{device}/address") == f"fa:16:3e:00:00:0{number}"
        inside.ask(f"ip link set {device} up; ip address add 10.77.{number}.2/24 dev {device}; echo done")
        assert inside.ask(f"ping -c 1 -w 30 10.77.{number}.1 >/dev/null && echo yes") == "yes"
    driver.destroy(new_instance.uuid)
    assert host.run("ip", "-o", "link", "show", "type", "tun") == "", "no tap is left"
