"""The PCI addresses of a real guest's interfaces and disks stay over hard reboots, rescues, rebuilds and cold moves."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from minova.objects.catalogue.image import Image
from minova.objects.network.network import VLAN
from minova.objects.network.vif import Vif, VifAddress, VifSubnet
from minova.objects.servers.instance import Instance
from minova.virt.driver import ComputeDriver
from tests.integration.virt.guest_console import GuestConsole
from tests.integration.virt.test_guest import instance, load, remove_all
from tests.servers.libvirtd import Libvirtd
from tests.waiting import wait_for

pytestmark = pytest.mark.timeout(900)
BRIDGE = "brvlan"
# Each interface by its MAC address, with its PCI address.
ADDRESSES = "for d in /sys/class/net/eth*; do echo $(cat $d/address) $(readlink -f $d/device | grep -o 'pci.*'); done | sort | tr '\\n' ' '"
SECOND = "fa:16:3e:00:00:04"


@pytest.fixture
def server() -> Iterator[Libvirtd]:
    with Libvirtd(networks=True) as started:
        yield started


@pytest.fixture
def driver(tmp_path: Path, server: Libvirtd) -> Iterator[ComputeDriver]:
    pid = (server.directory / "server.pid").read_text().strip()
    for words in (("add", BRIDGE, "type", "bridge", "forward_delay", "0"), ("set", BRIDGE, "up")):
        subprocess.run(["nsenter", "-t", pid, "-n", "ip", "link", *words], check=True)
    driver = load(tmp_path, server.uri, proc_net=server.proc_net, networks__bridge_mappings={"dc1.100": BRIDGE})
    yield driver
    remove_all(driver)
    driver.close()


def vif(number: int) -> Vif:
    return Vif(
        port_id=f"{number:08x}-0000-4000-8000-000000000001",
        mac_address=f"fa:16:3e:00:00:{number:02x}",
        network_id="7d1f0c52-0000-4000-8000-000000000001",
        network_type=VLAN,
        physical_network="dc1",
        segmentation_id=100,
        mtu=1400,
        addresses=(VifAddress(subnet_id="s", ip_address=f"192.0.2.{number}"),),
        subnets=(VifSubnet(id="s", cidr="192.0.2.0/24", gateway_ip="192.0.2.1"),),
    )


@pytest.mark.nightly("it needs five boots; tests/unit/virt/libvirt/xml/test_addresses_xml.py compares the XML")
def test_bug_an_interface_attached_to_a_running_guest_moved_at_the_next_hard_reboot(
    tmp_path: Path, server: Libvirtd, driver: ComputeDriver, guest_image: Path
) -> None:
    image = Image(id="i", disk_format="qcow2", properties={"hw_machine_type": "q35", "hw_rng_model": "virtio"})
    new_instance = instance(image=image, network_info=(vif(5),))
    log = tmp_path / "instances" / new_instance.uuid / "console.log"
    console = GuestConsole(server.uri, new_instance.uuid, lambda: log.read_text(errors="replace").replace("\r", ""))

    def addresses(boots: int) -> str:
        wait_for(f"boot {boots}", lambda: log.read_text(errors="replace").count("GUEST READY") == boots, 240)
        return console.ask(ADDRESSES)

    driver.prepare(new_instance, driver.available_nodes()[0], 1, guest_image)
    driver.power_on(new_instance)
    alone = addresses(1)
    # In front of the one that the guest has: by their order a new definition would exchange them.
    both: Instance = msgspec.structs.replace(new_instance, network_info=(vif(4), vif(5)))
    driver.attach_interface(both, vif(4))
    wait_for("the second interface", lambda: SECOND in console.ask(ADDRESSES))
    before = console.ask(ADDRESSES)
    assert alone in before
    driver.hard_reboot(both)
    assert addresses(2) == before
    driver.power_off(both.uuid)
    driver.start(both)
    assert addresses(3) == before
    driver.rebuild(both, guest_image)
    driver.power_on(both)
    assert addresses(4) == before
