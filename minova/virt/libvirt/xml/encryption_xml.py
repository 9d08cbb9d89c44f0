"""Encrypts the memory of a guest by AMD's SEV: <launchSecurity>. Pure. Elements and values are those of Nova's libvirt driver."""

from xml.etree import ElementTree as ET

from minova.virt.libvirt.inventory.memory_encryption import MemoryEncryption

# No debugging, no key shared with other guests, no migration to hosts without SEV, as in Nova.
_POLICY = "0x0033"
_VIRTIO_DEVICES = (
    "disk/target[@bus='virtio']/..",
    "controller[@type='virtio-serial']",
    "controller[@model='virtio-scsi']",
    "input[@bus='virtio']",
    "memballoon[@model='virtio']",
    "rng[@model='virtio']",
    "video/model[@type='virtio']/..",
)


def encrypt_memory(domain: ET.Element, encryption: MemoryEncryption) -> None:
    """Call this when the domain has all its devices. The host reaches their queues by a buffer that is not encrypted (iommu), and cannot
    swap out memory that it cannot read.
    """
    security = ET.SubElement(domain, "launchSecurity", type="sev")
    for name, value in (
        ("cbitpos", str(encryption.cbitpos)),
        ("reducedPhysBits", str(encryption.reduced_bits)),
        ("policy", _POLICY),
    ):
        ET.SubElement(security, name).text = value
    backing = domain.find("memoryBacking")
    if backing is None:
        backing = ET.SubElement(domain, "memoryBacking")
    if backing.find("locked") is None:
        ET.SubElement(backing, "locked")
    devices = domain.find("devices")
    if devices is not None and devices.find("channel/target[@type='virtio']") is not None:
        # libvirt would add it without a driver.
        ET.SubElement(devices, "controller", type="virtio-serial", index="0")
    for path in _VIRTIO_DEVICES:
        for device in domain.findall(f"devices/{path}"):
            driver = device.find("driver")
            if driver is None:
                driver = ET.SubElement(device, "driver")
            driver.set("iommu", "on")
