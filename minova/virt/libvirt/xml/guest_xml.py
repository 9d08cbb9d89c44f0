"""Converts an instance to libvirt's domain XML. Pure."""

from collections.abc import Sequence
from xml.etree import ElementTree as ET

import msgspec
from oslo_utils import units

from minova.hardware import cpu_spec
from minova.hardware.cpu_policy import realtime_cpus
from minova.hardware.locked_memory import wants_locked_memory
from minova.hardware.pci_spec import PARTS, split_address
from minova.objects.catalogue.guest_hardware import (
    DISK_BUSES,
    Q35,
)
from minova.objects.catalogue.image_properties import typed
from minova.objects.catalogue.kernel_boot import command_line
from minova.objects.hosts.pci import PciDevice
from minova.objects.network.vif import Vif
from minova.objects.servers.instance import Instance
from minova.virt.libvirt.inventory.cpu_traits import traits_of_features
from minova.virt.libvirt.xml import device_xml, encryption_xml, features_xml, numa_xml, secrets_xml
from minova.virt.libvirt.xml.disk_xml import Disk, add_disks
from minova.virt.libvirt.xml.guest import Guest, guest_of, properties_of, require_offered
from minova.virt.libvirt.xml.host_settings import HostSettings
from minova.virt.libvirt.xml.interface_xml import interface
from minova.virt.libvirt.xml.mark import DomainMark, domain_name, mark_element
from minova.virt.libvirt.xml.system_xml import BootFiles, add_sysinfo, add_system

# Seconds between the guest's reports of its memory.
BALLOON_PERIOD = 10
# The drives of each, by the names that libvirt connects there.
_IDE_CHANNELS = ({"hda", "hdb"}, {"hdc", "hdd"})
# The architectures whose firmware tables identify a guest.
_SMBIOS_ARCHES = {"x86_64", "i686", "aarch64"}


def guest_xml(
    instance: Instance,
    settings: HostSettings,
    *,
    node: str,
    attempt: int,
    disks: Sequence[Disk],
    console_log: str | None,
    serial_port: int | None = None,
    boot_files: BootFiles | None = None,
    lacks: tuple[str, ...] = (),
) -> str:
    """Returns the domain's XML. `lacks`: keys that the instance has, and the guest is built without.

    Raises ImageUnacceptable if a property of the image or an extra spec of the flavor has an invalid value, HardwareNotOffered if
    the value is valid but this host does not offer it.
    """
    guest = guest_of(instance, settings)
    require_offered(guest)
    domain = ET.Element("domain", type=settings.virt_type)
    _text(domain, "name", domain_name(instance.uuid))
    _text(domain, "uuid", instance.uuid)
    mark = msgspec.structs.replace(_mark_of(instance, settings.host, node, attempt), lacks=lacks)
    ET.SubElement(domain, "metadata").append(mark_element(mark))
    _text(domain, "memory", str(instance.flavor.memory_mb * units.Ki), unit="KiB")
    numa = instance.numa_topology
    _text(domain, "vcpu", str(instance.flavor.vcpus), **({} if numa else _cpuset(settings)))
    if numa is not None:
        numa_xml.add_tuning(
            domain,
            numa,
            settings.cells,
            realtime=realtime_cpus(instance.flavor, properties_of(instance)),
            locked=wants_locked_memory(instance.flavor, typed(properties_of(instance))),
        )
    device_xml.limit_cpus(domain, guest.limits)
    smbios = guest.emulated and guest.arch in _SMBIOS_ARCHES
    command = command_line(properties_of(instance), f"/dev/{DISK_BUSES[guest.hardware.disk_bus]}a")
    add_system(domain, guest, smbios=smbios, boot_files=boot_files, command=command)
    if smbios:
        add_sysinfo(domain, instance, settings)
    if guest.emulated:
        features_xml.add_features(domain, guest.features, guest.arch, kvm=guest.by_kvm, secure_boot=guest.secure_boot)
        cpu = features_xml.add_cpu(domain, _cpu(instance, settings), guest.topology, guest.features)
        if numa is not None:
            numa_xml.add_cells(cpu, numa)
    elif numa is not None:
        # <numatune> refers to cells that the guest must have, also on libvirt's test hypervisor.
        numa_xml.add_cells(ET.SubElement(domain, "cpu"), numa)
    features_xml.add_clock(domain, guest.features, guest.arch, emulated=guest.emulated)
    _text(domain, "on_poweroff", "destroy")
    _text(domain, "on_reboot", "restart")
    _text(domain, "on_crash", "destroy")
    devices = ET.SubElement(domain, "devices")
    add_disks(devices, guest, disks, instance.uuid)
    _order_boot(domain, devices, guest)
    if guest.emulated:
        _add_consoles(devices, guest, console_log, serial_port)
        features_xml.add_inputs(
            devices,
            guest.features,
            guest.arch,
            has_screen=bool(settings.vnc_listen),
            pointer_model=settings.pointer_model,
        )
        features_xml.add_optional_devices(devices, guest.features, kvm=guest.by_kvm)
        secrets_xml.add_tpm(devices, guest.features, instance.uuid)
        device_xml.add_devices(
            devices, guest.hardware, guest.arch, settings.rng_device, has_screen=bool(settings.vnc_listen)
        )
        devices.extend([interface(vif, guest) for vif in instance.network_info])
    devices.extend(_hostdev(device) for device in instance.pci_devices)
    if guest.emulated and has_pcie_ports(guest):
        device_xml.add_pcie_ports(devices, settings.pcie_ports)
    numa_xml.share_memory(domain)
    if guest.features.encrypted_memory and settings.encryption is not None:
        encryption_xml.encrypt_memory(domain, settings.encryption)
    ET.indent(domain)
    return ET.tostring(domain, encoding="unicode")


def interface_xml(instance: Instance, settings: HostSettings, vif: Vif) -> str:
    """Returns the XML of one interface of a domain. Raises as `guest_xml`."""
    return ET.tostring(interface(vif, guest_of(instance, settings)), encoding="unicode")


def _text(parent: ET.Element, tag: str, text: str, **attributes: str) -> None:
    ET.SubElement(parent, tag, attributes).text = text


def _cpuset(settings: HostSettings) -> dict[str, str]:
    return {"cpuset": cpu_spec.write(settings.pinned)} if settings.pinned else {}


def _order_boot(domain: ET.Element, devices: ET.Element, guest: Guest) -> None:
    """UEFI firmware turns on only the channels of IDE from which it may boot, and Linux takes one that is off for one without drives: the
    guest would not find its config drive there. So a drive of each channel comes after the disk from which the guest boots.
    """
    disks = devices.findall("disk")
    first = next((disk for disk in disks if disk.find("boot") is not None), disks[0] if disks else None)
    channels = [[disk for disk in disks if _target(disk) in names] for names in _IDE_CHANNELS]
    others = [drives[0] for drives in channels if drives and first not in drives]
    if guest.hardware.uefi and first is not None and others:
        if first.find("boot") is None:
            ET.SubElement(first, "boot", order="1")
        for order, drive in enumerate(others, 2):
            ET.SubElement(drive, "boot", order=str(order))
    if devices.find("disk/boot") is not None:
        # libvirt takes one of them: an order of devices, or a kind of device.
        system = domain.find("os")
        assert system is not None
        system.remove(next(system.iter("boot")))


def _target(disk: ET.Element) -> str:
    target = disk.find("target")
    return "" if target is None else target.get("dev", "")


def _mark_of(instance: Instance, host: str, node: str, attempt: int) -> DomainMark:
    return DomainMark(
        uuid=instance.uuid,
        host=host,
        node=node,
        attempt=attempt,
        display_name=instance.display_name,
        project_id=instance.project_id,
        user_id=instance.user_id,
        flavor=instance.flavor.name,
        image=instance.image_ref,
        metadata=instance.metadata,
    )


def _cpu(instance: Instance, settings: HostSettings) -> features_xml.Cpu:
    """Returns the first of several models that has all features which flavor and image
    require by trait. If none has them, returns the first model with these features added.
    """
    # Nova's default with kvm and qemu.
    mode = settings.cpu_mode or "host-model"
    if mode != "custom":
        return features_xml.Cpu(mode, None, settings.cpu_flags)
    required = _required_traits(instance)
    missing = {
        model: required - traits_of_features(settings.arch, settings.cpu_model_features.get(model, ()))
        for model in settings.cpu_models
    }
    model = min(settings.cpu_models, key=lambda cpu_model: bool(missing[cpu_model]))
    return features_xml.Cpu(mode, model, settings.cpu_flags)


def _required_traits(instance: Instance) -> frozenset[str]:
    """Returns the traits of CPUs that flavor and image require."""
    pairs = {**properties_of(instance), **instance.flavor.extra_specs}
    return frozenset(
        key.removeprefix("trait:")
        for key, value in pairs.items()
        if key.startswith("trait:HW_CPU_") and value == "required"
    )


def has_pcie_ports(guest: Guest) -> bool:
    """Whether each device of the machine needs its own PCIe port, of which libvirt leaves only one free."""
    machine = guest.machine or ""
    if guest.arch == "aarch64":
        return not machine or machine.startswith("virt")
    return guest.arch == "x86_64" and Q35 in machine


def _add_consoles(devices: ET.Element, guest: Guest, console_log: str | None, serial_port: int | None) -> None:
    """Further serial ports are for the host's own tools: they are not logged, so that a guest cannot fill the host's disk."""
    settings = guest.settings
    serial = _serial(devices, settings, serial_port)
    if console_log:
        ET.SubElement(serial, "log", file=console_log, append="on")
    ET.SubElement(serial, "target", port="0")
    for number in range(1, guest.features.serial_ports):
        ET.SubElement(ET.SubElement(devices, "serial", type="pty"), "target", port=str(number))
    if settings.vnc_listen:
        graphics = ET.SubElement(devices, "graphics", type="vnc", autoport="yes", listen=settings.vnc_listen)
        ET.SubElement(graphics, "listen", type="address", address=settings.vnc_listen)
    balloon = ET.SubElement(devices, "memballoon", model="virtio")
    ET.SubElement(balloon, "stats", period=str(BALLOON_PERIOD))


def _serial(devices: ET.Element, settings: HostSettings, port: int | None) -> ET.Element:
    """Adds the guest's serial port: a TCP port of the host if serial consoles are served, else a pty that is only
    logged.
    """
    if settings.serial is None or port is None:
        return ET.SubElement(devices, "serial", type="pty")
    serial = ET.SubElement(devices, "serial", type="tcp")
    ET.SubElement(serial, "source", mode="bind", host=settings.serial.listen, service=str(port))
    ET.SubElement(serial, "protocol", type="raw")
    return serial


def _hostdev(device: PciDevice) -> ET.Element:
    """libvirt detaches the device from its driver and gives it back, unless its tag `managed` says that the operator
    does so.
    """
    managed = "no" if dict(device.tags).get("managed", "").lower() in {"false", "no"} else "yes"
    element = ET.Element("hostdev", mode="subsystem", type="pci", managed=managed)
    source = ET.SubElement(element, "source")
    numbers = zip(PARTS, split_address(device.address), strict=True)
    ET.SubElement(source, "address", {part: f"0x{number}" for part, number in numbers})
    return element
