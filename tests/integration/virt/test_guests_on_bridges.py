"""A real guest on a bridge of its host gets its address from its host, by the driver on real QEMU, with libvirt's filters."""

import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from minova.objects.network.network import FLAT
from minova.objects.network.vif import Vif, VifAddress, VifRule, VifSubnet
from minova.virt.driver import ComputeDriver
from minova.virt.namespaces.host_networks import of_this_host
from tests.integration.virt.test_guest import instance, load, remove_all
from tests.servers.libvirtd import Libvirtd
from tests.waiting import wait_for

pytestmark = pytest.mark.timeout(300)
NETWORK = str(uuid.uuid4())
SUBNETS = (
    VifSubnet(id="4", cidr="192.0.2.0/24", gateway_ip="192.0.2.1"),
    VifSubnet(id="6", cidr="2001:db8:1::/64", gateway_ip="2001:db8:1::1", ipv6_mode="slaac"),
)


@pytest.fixture
def server() -> Iterator[Libvirtd]:
    with Libvirtd(networks=True) as started:
        pid = (started.directory / "server.pid").read_text().strip()
        for words in (("add", "brlan", "type", "bridge", "forward_delay", "0"), ("set", "brlan", "up")):
            subprocess.run(["nsenter", "-t", pid, "-n", "ip", "link", *words], check=True)
        yield started


@pytest.fixture
def driver(tmp_path: Path, server: Libvirtd) -> Iterator[ComputeDriver]:
    driver = load(tmp_path, server.uri, proc_net=server.proc_net, networks__bridge_mappings={"lan": "brlan"})
    yield driver
    remove_all(driver)
    driver.close()


def vif(number: int) -> Vif:
    """Its groups let nothing in and nothing out."""
    mac = f"fa:16:3e:00:00:{number:02x}"
    addresses = {"4": f"192.0.2.{number}", "6": f"2001:db8:1:0:f816:3eff:fe00:{number:x}"}
    return Vif(
        port_id=str(uuid.uuid4()),
        mac_address=mac,
        network_id=NETWORK,
        network_type=FLAT,
        physical_network="lan",
        mtu=1400,
        subnets=SUBNETS,
        addresses=tuple(VifAddress(subnet_id=each, ip_address=address) for each, address in addresses.items()),
        rules=(VifRule(direction="ingress", ip_version=4, protocol="tcp", port_min=1, port_max=1),),
    )


def test_guest_on_a_flat_network_has_its_address_from_its_host(
    driver: ComputeDriver, server: Libvirtd, guest_image: Path
) -> None:
    first, other = (
        instance(display_name=name, hostname=name, network_info=(vif(number),))
        for name, number in (("web", 50), ("db", 51))
    )
    networks = of_this_host("", server.uri, server.proc_net, {"brlan"})
    driver.prepare(first, driver.available_nodes()[0], 1, guest_image)
    driver.power_on(first)
    wait_for("its address", lambda: "MINOVA-GUEST DHCP eth0 192.0.2.50" in driver.console_output(first.uuid, None))
    driver.prepare(other, driver.available_nodes()[0], 1, guest_image)
    assert [host.address for host in networks.records()[NETWORK].hosts] == ["192.0.2.50", "192.0.2.51"]
    # A subnet that hosts no longer serve, and serve again.
    assert first.network_info
    (of_one,), (of_other,) = first.network_info, other.network_info
    for serves in (False, True):
        subnets = tuple(msgspec.structs.replace(each, enable_dhcp=serves) for each in SUBNETS)
        now = {
            guest.uuid: (msgspec.structs.replace(each, subnets=subnets),)
            for guest, each in ((first, of_one), (other, of_other))
        }
        driver.refresh_interfaces(now)
        assert (NETWORK in networks.records()) is serves
    driver.destroy(first.uuid)
    assert [host.address for host in networks.records()[NETWORK].hosts] == ["192.0.2.51"]
    driver.destroy(other.uuid)
    assert NETWORK not in networks.records()
