"""The domain of a running guest, rewritten for another host: what the guest sees stays, what belongs to the host changes."""

from typing import Any
from xml.etree import ElementTree as ET

import msgspec
import pytest

from minova.errors import HypervisorError
from minova.objects.catalogue.flavor import Flavor
from minova.objects.catalogue.image import Image
from minova.objects.network.vif import Vif
from minova.objects.servers.instance import Instance
from minova.virt.libvirt.consoles import SerialConsoles
from minova.virt.libvirt.xml.disk_xml import Disk
from minova.virt.libvirt.xml.guest_xml import guest_xml
from minova.virt.libvirt.xml.host_settings import HostSettings
from minova.virt.libvirt.xml.mark import mark_of
from minova.virt.libvirt.xml.migration_xml import cpu_of, migrated_xml, targets_of

UUID = "0b8a5c5e-58a3-4a52-9e56-3a9a4f0f2f11"
NETWORK, PORT = "7b1a5c5e-58a3-4a52-9e56-3a9a4f0f2f12", "9c1a5c5e-58a3-4a52-9e56-3a9a4f0f2f13"
VIF = Vif(
    port_id=PORT,
    network_id=NETWORK,
    mac_address="fa:16:3e:00:00:01",
    network_type="flat",
    physical_network="physnet1",
)
GUEST = Instance(
    uuid=UUID,
    display_name="web",
    flavor=Flavor(flavorid="1", name="m1", vcpus=2, memory_mb=256, root_gb=1),
    image=Image(id="i"),
    config_drive=True,
    network_info=(VIF,),
)


def settings(host: str, number: int) -> HostSettings:
    return HostSettings(
        host=host,
        arch="x86_64",
        virt_type="qemu",
        uefi=True,
        pinned=frozenset({number}),
        vnc_listen=f"10.0.0.{number}",
        serial=SerialConsoles(listen=f"10.0.0.{number}", ports=(10000, 10010)),
        bridges={VIF.segment: f"br-{host}"},
    )


def domain(host: str, number: int, attempt: int, **more: Any) -> str:
    folder = f"/{host}/instances/{UUID}"
    disks = (
        Disk(path=f"{folder}/disk", driver_format="qcow2"),
        Disk(path=f"{folder}/disk.config", driver_format="raw", is_cd=True),
    )
    guest = msgspec.structs.replace(GUEST, **more)
    return guest_xml(
        guest,
        settings(host, number),
        node=host,
        attempt=attempt,
        disks=disks,
        console_log=f"{folder}/console.log",
        serial_port=10000 + number,
    )


def running(xml: str) -> str:
    """As libvirt describes it while it runs: with addresses, chains of backing files and a console beside the serial port."""
    root = ET.fromstring(xml)
    for number, device in enumerate([*root.findall("devices/disk"), *root.findall("devices/interface")]):
        ET.SubElement(device, "address", type="pci", slot=f"0x{number:02x}")
    disk = root.find("devices/disk")
    assert disk is not None
    ET.SubElement(ET.SubElement(disk, "backingStore", type="file"), "source", file="/hv1/_base/abc")
    devices = root.find("devices")
    assert devices is not None
    console = ET.SubElement(devices, "console", type="tcp")
    ET.SubElement(console, "source", mode="bind", host="10.0.0.1", service="10001")
    ET.SubElement(console, "log", file=f"/hv1/instances/{UUID}/console.log", append="on")
    return ET.tostring(root, encoding="unicode")


def migrated(**more: Any) -> tuple[str, str, ET.Element]:
    source, own = running(domain("hv1", 1, 1)), domain("hv2", 2, 2, **more)
    new_xml = migrated_xml(source, own)
    return source, new_xml, ET.fromstring(new_xml)


def test_nothing_of_the_source_is_left() -> None:
    _, new_xml, _ = migrated()
    for word in ("hv1", "10.0.0.1", "10001", 'cpuset="1"'):
        assert word not in new_xml, word


def test_the_mark_is_that_of_the_destination() -> None:
    _, new_xml, _ = migrated(display_name="renamed")
    mark = mark_of(new_xml)
    assert mark is not None
    assert (mark.host, mark.node, mark.attempt, mark.display_name) == ("hv2", "hv2", 2, "renamed")


def test_what_the_guest_sees_stays() -> None:
    source, _, new_domain = migrated()
    before = ET.fromstring(source)
    for path in ("devices/disk/address", "devices/interface/address", "devices/interface/mac", "devices/disk/target"):
        assert [element.attrib for element in new_domain.findall(path)] == [
            element.attrib for element in before.findall(path)
        ]
    for tag in ("memory", "uuid", "name"):
        assert new_domain.findtext(tag) == before.findtext(tag)


def test_files_consoles_networks_and_pins_are_those_of_the_destination() -> None:
    _, _, new_domain = migrated()
    names_by_path = {
        path: [element.get(name) for element in new_domain.findall(path)]
        for path, name in {
            "devices/disk/source": "file",
            "devices/serial/log": "file",
            "devices/serial/source": "service",
            "devices/graphics/listen": "address",
            "devices/interface/source": "bridge",
            "vcpu": "cpuset",
        }.items()
    }
    folder = f"/hv2/instances/{UUID}"
    assert names_by_path == {
        "devices/disk/source": [f"{folder}/disk", f"{folder}/disk.config"],
        "devices/serial/log": [f"{folder}/console.log"],
        "devices/serial/source": ["10002"],
        "devices/graphics/listen": ["10.0.0.2"],
        "devices/interface/source": ["br-hv2"],
        "vcpu": ["2"],
    }
    assert new_domain.find("devices/disk/backingStore") is None
    # libvirt adds the console for the serial port by itself.
    assert new_domain.find("devices/console") is None


@pytest.mark.parametrize(("at_source", "at_destination"), [("uefi", "bios"), ("bios", "uefi"), ("uefi", "uefi")])
def test_order_in_which_a_guest_boots_is_that_of_its_source(at_source: str, at_destination: str) -> None:
    """A host of another release may order disks as the other one does not: libvirt takes no order of devices beside one of kinds."""
    images = {name: Image(id="i", properties={"hw_firmware_type": name}) for name in ("uefi", "bios")}
    source = running(domain("hv1", 1, 1, image=images[at_source]))
    new_domain = ET.fromstring(migrated_xml(source, domain("hv2", 2, 2, image=images[at_destination])))
    for path in ("os/boot", "devices/disk/boot"):
        assert [element.attrib for element in new_domain.findall(path)] == [
            element.attrib for element in ET.fromstring(source).findall(path)
        ]


def test_disks_that_are_copied_are_those_that_the_guest_writes() -> None:
    assert targets_of(domain("hv1", 1, 1)) == {f"/hv1/instances/{UUID}/disk": "vda"}


def test_a_cpu_without_a_model_is_not_compared() -> None:
    assert cpu_of("<domain><cpu mode='custom' match='exact'><model>qemu64</model></cpu></domain>") is not None
    assert cpu_of("<domain><cpu><topology sockets='1' cores='1' threads='1'/></cpu></domain>") is None
    assert cpu_of("<domain/>") is None


def test_the_kernel_is_the_destinations_own() -> None:
    """A source in the hands of an attacker names any file of the destination."""
    kernel = "<kernel>{0}</kernel><initrd>{0}</initrd><cmdline>{0}</cmdline></os>"
    source, own = (domain(host, number, 1) for host, number in (("hv1", 1), ("hv2", 2)))
    theirs, ours = (xml.replace("</os>", kernel.format(text)) for xml, text in ((source, "/etc/shadow"), (own, "/k")))
    new_domain = ET.fromstring(migrated_xml(theirs, ours))
    assert [new_domain.findtext(f"os/{tag}") for tag in ("kernel", "initrd", "cmdline")] == ["/k"] * 3
    with pytest.raises(HypervisorError, match="kernel"):
        migrated_xml(theirs, own)
