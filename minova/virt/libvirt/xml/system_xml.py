"""Machine, firmware and SMBIOS tables of a domain, and what a domain says of them. Pure."""

from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree as ET

from minova.objects.servers.chosen_hardware import ChosenHardware
from minova.objects.servers.instance import Instance
from minova.virt.libvirt.xml.guest import Guest
from minova.virt.libvirt.xml.host_settings import HostSettings


class BootFiles(NamedTuple):
    """The files that QEMU loads in place of a boot loader."""

    kernel: Path
    ramdisk: Path | None


def add_system(
    domain: ET.Element, guest: Guest, *, smbios: bool, boot_files: BootFiles | None = None, command: str = ""
) -> None:
    """`command`: the command line of the kernel in `boot_files`."""
    element = ET.SubElement(domain, "os")
    # Without these attributes libvirt takes the host's architecture and its own default machine.
    attributes = {"arch": guest.arch, "machine": guest.machine}
    kind = ET.SubElement(element, "type", {name: value for name, value in attributes.items() if value})
    kind.text = "hvm"
    if guest.hardware.uefi and guest.features.stateless_firmware:
        # libvirt chooses such firmware only where it is packed for that. Any UEFI firmware works without its variables.
        loader = ET.SubElement(element, "loader", type="pflash", readonly="yes", stateless="yes")
        loader.text = guest.settings.stateless_loader
    elif guest.hardware.uefi:
        _firmware(element, secure=guest.secure_boot)
    if boot_files is not None:
        ET.SubElement(element, "kernel").text = str(boot_files.kernel)
        if boot_files.ramdisk is not None:
            ET.SubElement(element, "initrd").text = str(boot_files.ramdisk)
        ET.SubElement(element, "cmdline").text = command
    ET.SubElement(element, "boot", dev="hd")
    if guest.hardware.boot_menu:
        ET.SubElement(element, "bootmenu", enable="yes")
    if smbios:
        ET.SubElement(element, "smbios", mode="sysinfo")


def _firmware(element: ET.Element, *, secure: bool) -> None:
    """Requests UEFI firmware. libvirt chooses the file, and makes the guest's variables from its template."""
    element.set("firmware", "efi")
    firmware = ET.SubElement(element, "firmware")
    for feature in ("secure-boot", "enrolled-keys"):
        ET.SubElement(firmware, "feature", enabled="yes" if secure else "no", name=feature)
    if secure:
        ET.SubElement(element, "loader", secure="yes")


def add_sysinfo(domain: ET.Element, instance: Instance, settings: HostSettings) -> None:
    system = ET.SubElement(ET.SubElement(domain, "sysinfo", type="smbios"), "system")
    # cloud-init recognises by this product name that the guest runs in an OpenStack cloud.
    entries = {
        "manufacturer": "minova",
        "product": "OpenStack Nova",
        "serial": instance.uuid if settings.serial_number is None else settings.serial_number,
        "uuid": instance.uuid,
        "family": "Virtual Machine",
    }
    for name, value in entries.items():
        if value:
            ET.SubElement(system, "entry", name=name).text = value


def has_variables(xml: str) -> bool:
    """Whether the domain has variables of UEFI firmware."""
    system = ET.fromstring(xml).find("os")
    return system is not None and (system.get("firmware") == "efi" or system.find("nvram") is not None)


def chosen_of(xml: str) -> ChosenHardware | None:
    """Returns what was chosen for the guest of the domain; None if the domain has no type of machine. libvirt writes the
    machine with its version.
    """
    root = ET.fromstring(xml)
    kind, loader = root.find("os/type"), root.find("os/loader")
    machine = None if kind is None else kind.get("machine")
    if not machine:
        return None
    secure = loader is not None and loader.get("secure") == "yes"
    stateless = loader is not None and loader.get("stateless") == "yes"
    return ChosenHardware(machine_type=machine, uefi=has_variables(xml) or stateless, secure_boot=secure)
