"""Encrypted memory: what the host must have, and the domain."""

from xml.etree import ElementTree as ET

import msgspec
import pytest

from minova.errors import HardwareNotOffered
from minova.objects.catalogue.flavor import Flavor
from minova.objects.catalogue.image import Image
from minova.objects.network.vif import Vif
from minova.objects.servers.instance import Instance
from minova.virt.libvirt.inventory.memory_encryption import MemoryEncryption
from minova.virt.libvirt.xml.guest_xml import interface_xml
from tests.unit.virt.libvirt.xml.test_guest_xml import FLAVOR, QEMU, attribute, xml_of

SEV = MemoryEncryption(cbitpos=47, reduced_bits=1, contexts=15)
HOST = msgspec.structs.replace(QEMU, virt_type="kvm", uefi=True, encryption=SEV, vnc_listen="127.0.0.1")
UEFI = {"hw_firmware_type": "uefi"}
VIFS = (Vif(port_id="p1", mac_address="fa:16:3e:00:00:01", network_id="n1"),)


def encrypted(**specs: str) -> Flavor:
    return msgspec.structs.replace(FLAVOR, extra_specs={"hw:mem_encryption": "true", **specs})


def test_the_domain_of_a_guest_with_encrypted_memory() -> None:
    properties = UEFI | {"hw_rng_model": "virtio", "hw_qemu_guest_agent": "yes", "hw_input_bus": "virtio"}
    domain = xml_of(HOST, properties, flavor=encrypted(), network_info=VIFS)
    security = domain.find("launchSecurity")
    assert security is not None
    assert security.get("type") == "sev"
    assert {each.tag: each.text for each in security} == {"cbitpos": "47", "reducedPhysBits": "1", "policy": "0x0033"}
    assert attribute(domain, "os/type", "machine") == "q35"
    assert domain.find("memoryBacking/locked") is not None
    for path in ("disk", "interface", "memballoon", "rng", "input", "video", "controller[@type='virtio-serial']"):
        devices = domain.findall(f"devices/{path}")
        assert devices, path
        assert {attribute(device, "driver", "iommu") for device in devices} == {"on"}, path


def test_a_cd_and_another_model_have_no_queues() -> None:
    domain = xml_of(HOST, UEFI | {"hw_vif_model": "e1000"}, flavor=encrypted(), network_info=VIFS)
    assert attribute(domain, "devices/interface/driver", "iommu") is None


def test_plain_memory_needs_no_such_host() -> None:
    assert xml_of(HOST, UEFI).find("launchSecurity") is None


def test_a_host_that_cannot_encrypt_builds_no_such_guest() -> None:
    with pytest.raises(HardwareNotOffered, match="hw:mem_encryption of the flavor: this host cannot encrypt"):
        xml_of(msgspec.structs.replace(HOST, encryption=None), UEFI, flavor=encrypted())


def test_an_interface_that_is_attached_later() -> None:
    instance = Instance(
        uuid="u", display_name="web", flavor=encrypted(), image=Image(id="i", properties=UEFI), network_info=VIFS
    )
    assert attribute(ET.fromstring(interface_xml(instance, HOST, VIFS[0])), "driver", "iommu") == "on"
