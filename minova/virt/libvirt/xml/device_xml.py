"""Devices and limits of a domain that images and flavors choose, other than disks and interfaces. Pure."""

from xml.etree import ElementTree as ET

from oslo_utils import units

from minova.objects.catalogue.guest_hardware import NO_VIDEO, GuestHardware
from minova.objects.catalogue.guest_limits import GuestLimits

AGENT_CHANNEL = "org.qemu.guest_agent.0"
# The watchdog models by architecture: s390x has its own; all others use a PCI model.
_WATCHDOGS = {"s390x": "diag288"}
# Each of these takes a PCIe port: a channel for the controller that libvirt adds, a watchdog for a bridge.
_ON_PCIE_PORTS = (
    "disk/target[@bus='virtio']",
    "interface",
    "hostdev",
    "rng",
    "memballoon",
    "controller",
    "channel",
    "watchdog",
    "input[@bus='virtio']",
)
# Ports for devices that are attached while the guest runs; and the maximum for one guest, as in Nova.
SPARE_PCIE_PORTS, MAX_PCIE_PORTS = 8, 28
# The video model if the image names none, as Nova's default.
_VIDEO = "virtio"


def add_devices(devices: ET.Element, hardware: GuestHardware, arch: str, rng_device: str, *, has_screen: bool) -> None:
    if hardware.scsi_model is not None and devices.find("disk/target[@bus='scsi']") is not None:
        ET.SubElement(devices, "controller", type="scsi", model=hardware.scsi_model)
    if has_screen or hardware.video_model not in {None, NO_VIDEO}:
        _video(devices, hardware)
    if hardware.guest_agent:
        # libvirt creates and removes the socket of the channel.
        channel = ET.SubElement(devices, "channel", type="unix")
        ET.SubElement(channel, "target", type="virtio", name=AGENT_CHANNEL)
    if hardware.rng is not None:
        rng = ET.SubElement(devices, "rng", model="virtio")
        if hardware.rng.rate_bytes:
            period = {"period": str(hardware.rng.rate_period)} if hardware.rng.rate_period else {}
            ET.SubElement(rng, "rate", {"bytes": str(hardware.rng.rate_bytes), **period})
        ET.SubElement(rng, "backend", model="random").text = rng_device
    if hardware.watchdog_action is not None:
        model = _WATCHDOGS.get(arch, "i6300esb")
        ET.SubElement(devices, "watchdog", model=model, action=hardware.watchdog_action)


def _video(devices: ET.Element, hardware: GuestHardware) -> None:
    model = ET.SubElement(ET.SubElement(devices, "video"), "model", type=hardware.video_model or _VIDEO)
    if hardware.video_ram_mb and hardware.video_model != NO_VIDEO:
        model.set("vram", str(hardware.video_ram_mb * units.Ki))


def add_pcie_ports(devices: ET.Element, count: int) -> None:
    """Call this when the domain has all its devices. `count` 0: as many ports as they take, and some for devices that
    are attached later. libvirt adds missing ports.
    """
    used_ports = sum(len(devices.findall(each)) for each in _ON_PCIE_PORTS)
    # One more for the USB controller, which libvirt adds.
    number = count or min(used_ports + 1 + SPARE_PCIE_PORTS, MAX_PCIE_PORTS)
    ET.SubElement(devices, "controller", type="pci", index="0", model="pcie-root")
    for _ in range(number):
        ET.SubElement(devices, "controller", type="pci", model="pcie-root-port")


def limit_cpus(domain: ET.Element, limits: GuestLimits) -> None:
    if not limits.cpu:
        return
    tuning = domain.find("cputune")
    if tuning is None:
        tuning = ET.SubElement(domain, "cputune")
    for name, amount in limits.cpu.items():
        ET.SubElement(tuning, name).text = str(amount)


def limit_disk(disk: ET.Element, limits: GuestLimits) -> None:
    if limits.disk:
        tuning = ET.SubElement(disk, "iotune")
        for name, amount in limits.disk.items():
            ET.SubElement(tuning, name).text = str(amount)


def limit_interface(interface: ET.Element, limits: GuestLimits) -> None:
    ways = {"inbound": limits.inbound, "outbound": limits.outbound}
    if any(ways.values()):
        bandwidth = ET.SubElement(interface, "bandwidth")
        for way, amounts in ways.items():
            if amounts:
                ET.SubElement(bandwidth, way, {name: str(amount) for name, amount in amounts.items()})
