"""Converts an instance to libvirt's domain XML, and back. Pure.

Values that users chose appear only in the metadata, as JSON strings: XML cannot represent every character, JSON can.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from string import ascii_lowercase
from typing import NamedTuple
from xml.etree import ElementTree as ET

import msgspec
from oslo_utils import units

from minova.codecs import Decoder
from minova.errors import BadRequest, HardwareNotOffered, ImageUnacceptable, InterfaceNotOffered
from minova.hardware import cpu_spec
from minova.hardware.cpu_policy import realtime_cpus
from minova.hardware.guest.cpu_topology import CpuTopology, cpu_topology
from minova.hardware.guest.features import GuestFeatures, guest_features
from minova.hardware.locked_memory import wants_locked_memory
from minova.hardware.pci_spec import PARTS, split_address
from minova.objects.catalogue.guest_hardware import (
    DISK_BUSES,
    OPTIONAL,
    Q35,
    REQUIRED,
    GuestHardware,
    guest_hardware,
)
from minova.objects.catalogue.guest_limits import GuestLimits, guest_limits
from minova.objects.catalogue.image_properties import typed
from minova.objects.catalogue.vif_queues import queues_of
from minova.objects.guests.chosen_hardware import MACHINE_TYPE, ChosenHardware, alias_of, with_choice
from minova.objects.hosts.pci import PciDevice
from minova.objects.network.network import LOCAL
from minova.objects.network.vif import Vif, filter_name, network_name, tap_name
from minova.objects.servers.instance import Instance
from minova.virt.libvirt.consoles import SerialConsoles
from minova.virt.libvirt.inventory.capabilities import canonical_arch
from minova.virt.libvirt.inventory.cpu_traits import traits_of_features
from minova.virt.libvirt.inventory.memory_encryption import MemoryEncryption
from minova.virt.libvirt.xml import device_xml, encryption_xml, features_xml, numa_xml
from minova.virt.libvirt.xml.numa_xml import HostCells

NAMESPACE = "urn:minova:instance:1"
# Seconds between the guest's reports of its memory.
BALLOON_PERIOD = 10
# The architectures whose firmware tables identify a guest.
_SMBIOS_ARCHES = {"x86_64", "i686", "aarch64"}
_EMULATED = {"kvm", "qemu"}
# The cache modes with which libvirt permits native I/O.
_DIRECT = {"none", "directsync"}

ET.register_namespace("minova", NAMESPACE)


class Disk(msgspec.Struct, frozen=True, kw_only=True):
    """A disk of a guest. `bus` None: the bus of the guest's other disks. `boots`: the guest boots from it, wherever it is."""

    path: str
    driver_format: str
    is_cd: bool = False
    bus: str | None = None
    boots: bool = False


class HostSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the configuration and the host for every guest.

    - `pinned`: the CPUs on which guests may run.
    - `machines`: the machine types that the host offers, by architecture.
    - `bridges`: the bridges of flat networks and VLANs (see `Vif.segment`).
    - `lost_bridges`: those of `bridges` that do not exist now.
    - `max_queues`: the largest number of queues of an interface.
    - `pcie_ports`: the number of ports of a guest whose machine has them; 0: as many as it may need.
    - `rng_device`: the device from which guests' random number generators read.
    - `uefi`, `secure_boot`: whether there is such firmware for guests of `arch`.
    - `cpu_models`: of mode custom, the preferred first; `cpu_model_features`: {model: all its features}; `cpu_flags`: features that
      guests get (+) or do not (-).
    - `native_io`: whether QEMU reads and writes disks by the kernel's own asynchronous I/O; `discard`: what it does with discards.
    - `rx_queue_size`, `tx_queue_size`: packets in a queue of a virtio interface; 0: QEMU's own.
    - `serial_number`: of every guest; None: each guest's UUID; empty: none.
    - `pointer_model`: of guests with a screen; usbtablet or ps2mouse.
    - `stateless_loader`: the file of UEFI firmware for guests without variables; None: this host has none.
    - `encryption`: how the host encrypts the memory of guests, if it does.
    """

    host: str
    arch: str
    virt_type: str
    cpu_mode: str | None = None
    cpu_models: tuple[str, ...] = ()
    cpu_model_features: dict[str, frozenset[str]] = {}
    cpu_flags: tuple[str, ...] = ()
    machine_types: dict[str, str] = {}
    machines: dict[str, frozenset[str]] = {}
    disk_cache: str = "none"
    native_io: bool = False
    discard: str | None = None
    pinned: frozenset[int] | None = None
    cells: HostCells = HostCells()
    vnc_listen: str | None = None
    serial: SerialConsoles | None = None
    bridges: dict[str, str] = {}
    lost_bridges: frozenset[str] = frozenset()
    max_queues: int = 256
    rx_queue_size: int = 0
    tx_queue_size: int = 0
    pcie_ports: int = 0
    rng_device: str = "/dev/urandom"
    serial_number: str | None = None
    pointer_model: str = "usbtablet"
    uefi: bool = False
    secure_boot: bool = False
    stateless_loader: str | None = None
    encryption: MemoryEncryption | None = None


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """The metadata that marks a domain as minova's: its instance, its host and its build attempt."""

    uuid: str
    host: str
    node: str
    attempt: int
    display_name: str
    project_id: str = ""
    user_id: str = ""
    flavor: str = ""
    image: str = ""
    metadata: dict[str, str] = {}


_MARK = Decoder(Mark)


def domain_name(instance_uuid: str) -> str:
    """Returns the domain's name, which contains nothing that a user chose."""
    return f"instance-{instance_uuid}"


def guest_xml(
    instance: Instance,
    settings: HostSettings,
    *,
    node: str,
    attempt: int,
    disks: Sequence[Disk],
    console_log: str | None,
    serial_port: int | None = None,
) -> str:
    """Returns the domain's XML. Raises ImageUnacceptable if a property of the image or an extra spec of the flavor has
    an invalid value, HardwareNotOffered if the value is valid but this host does not offer it.
    """
    guest = _guest(instance, settings)
    _require_offered(guest)
    domain = ET.Element("domain", type=settings.virt_type)
    _text(domain, "name", domain_name(instance.uuid))
    _text(domain, "uuid", instance.uuid)
    mark = _mark_of(instance, settings.host, node, attempt)
    ET.SubElement(domain, "metadata").append(_mark_element(mark))
    _text(domain, "memory", str(instance.flavor.memory_mb * units.Ki), unit="KiB")
    numa = instance.numa_topology
    _text(domain, "vcpu", str(instance.flavor.vcpus), **({} if numa else _cpuset(settings)))
    if numa is not None:
        numa_xml.add_tuning(
            domain,
            numa,
            settings.cells,
            realtime=realtime_cpus(instance.flavor, _properties(instance)),
            locked=wants_locked_memory(instance.flavor, typed(_properties(instance))),
        )
    device_xml.limit_cpus(domain, guest.limits)
    smbios = guest.emulated and guest.arch in _SMBIOS_ARCHES
    _os(domain, guest, smbios=smbios)
    if smbios:
        _sysinfo(domain, instance, settings)
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
    _add_disks(devices, guest, disks)
    if devices.find("disk/boot") is not None:
        # libvirt takes one of them: an order of devices, or a kind of device.
        system = domain.find("os")
        assert system is not None
        system.remove(next(system.iter("boot")))
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
        device_xml.add_devices(
            devices, guest.hardware, guest.arch, settings.rng_device, has_screen=bool(settings.vnc_listen)
        )
        devices.extend([_interface(vif, guest) for vif in instance.network_info])
    devices.extend(_hostdev(device) for device in instance.pci_devices)
    if guest.emulated and _has_pcie_ports(guest):
        device_xml.add_pcie_ports(devices, settings.pcie_ports)
    numa_xml.share_memory(domain)
    if guest.features.encrypted_memory and settings.encryption is not None:
        encryption_xml.encrypt_memory(domain, settings.encryption)
    ET.indent(domain)
    return ET.tostring(domain, encoding="unicode")


def interface_xml(instance: Instance, settings: HostSettings, vif: Vif) -> str:
    """Returns the XML of one interface of a domain. Raises as `guest_xml`."""
    return ET.tostring(_interface(vif, _guest(instance, settings)), encoding="unicode")


def mark_of(xml: str) -> Mark | None:
    """Returns the mark in a domain's XML, or in the metadata element alone, from which libvirt drops the namespace.

    Returns None if there is no mark that minova wrote.
    """
    root = ET.fromstring(xml)
    tag = f"{{{NAMESPACE}}}instance"
    element = root if root.tag in {tag, "instance"} else root.find(f"metadata/{tag}")
    if element is None:
        return None
    try:
        values = {child.tag.rpartition("}")[2]: json.loads(child.text or "") for child in element}
        return _MARK.from_builtins(values)
    except (ValueError, msgspec.ValidationError):
        return None


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


def disk_formats_of(xml: str, instance_uuid: str) -> dict[str, str]:
    """Returns {file name: format} of the domain's disks in the instance's folder."""
    formats = {}
    for disk in ET.fromstring(xml).findall("devices/disk[@type='file']"):
        source, driver = disk.find("source"), disk.find("driver")
        path = Path("" if source is None else source.get("file", ""))
        written = None if driver is None else driver.get("type")
        if path.parent.name == instance_uuid and written:
            formats[path.name] = written
    return formats


# -- parts -------------------------------------------------------------------------------------------------------------


def _text(parent: ET.Element, tag: str, text: str, **attributes: str) -> None:
    ET.SubElement(parent, tag, attributes).text = text


def _properties(instance: Instance) -> dict[str, str]:
    return instance.image.properties if instance.image else {}


def _hardware(instance: Instance) -> GuestHardware:
    try:
        return guest_hardware(_properties(instance), instance.flavor.extra_specs)
    except BadRequest as error:
        raise ImageUnacceptable(str(error)) from error


def _limits(instance: Instance) -> GuestLimits:
    try:
        return guest_limits(instance.flavor.extra_specs)
    except BadRequest as error:
        raise ImageUnacceptable(str(error)) from error


def _queues(instance: Instance, hardware: GuestHardware, settings: HostSettings) -> int:
    try:
        return queues_of(instance.flavor, _properties(instance), hardware.vif_model, settings.max_queues)
    except BadRequest as error:
        raise ImageUnacceptable(str(error)) from error


def _features(instance: Instance) -> GuestFeatures:
    try:
        return guest_features(instance.flavor, _properties(instance))
    except BadRequest as error:
        raise ImageUnacceptable(str(error)) from error


def _topology(instance: Instance, settings: HostSettings) -> CpuTopology:
    """An impossible topology is refused when a server is requested. A server of an earlier release may have one: it keeps one socket for
    each CPU.
    """
    threads = numa_xml.pinned_threads(instance.numa_topology, settings.cells)
    try:
        return cpu_topology(instance.flavor, typed(_properties(instance)), pinned_threads=threads)
    except BadRequest:
        return CpuTopology(instance.flavor.vcpus, 1, 1)


class _Guest(NamedTuple):
    """Decisions about a guest before its XML is made. `machine` None: libvirt chooses. `queues`: the number for each
    interface.
    """

    hardware: GuestHardware
    features: GuestFeatures
    topology: CpuTopology
    limits: GuestLimits
    queues: int
    settings: HostSettings
    arch: str
    machine: str | None
    secure_boot: bool
    emulated: bool
    by_kvm: bool


def _guest(instance: Instance, settings: HostSettings) -> _Guest:
    hardware = with_choice(_hardware(instance), instance.system_metadata)
    arch = hardware.arch or canonical_arch(settings.arch)
    kept = instance.system_metadata.get(MACHINE_TYPE)
    if kept and kept not in settings.machines.get(arch, frozenset()):
        # Another version of QEMU may lack this version of the machine.
        hardware = msgspec.structs.replace(hardware, machine_type=alias_of(kept))
    machine = hardware.machine_type or settings.machine_types.get(arch)
    secure = hardware.secure_boot == REQUIRED
    if hardware.secure_boot == OPTIONAL:
        secure = hardware.uefi and settings.secure_boot and (machine is None or Q35 in machine)
    if secure and not hardware.machine_type and Q35 not in (machine or ""):
        machine = Q35  # the only machine with secure boot
    features = _features(instance)
    needs_q35 = features.encrypted_memory or (features.iommu_model is not None and arch == "x86_64")
    if needs_q35 and not hardware.machine_type and Q35 not in (machine or ""):
        machine = Q35  # the only machine with an IOMMU, or with encrypted memory
    return _Guest(
        hardware=hardware,
        features=features,
        topology=_topology(instance, settings),
        limits=_limits(instance),
        queues=_queues(instance, hardware, settings),
        settings=settings,
        arch=arch,
        machine=machine,
        secure_boot=secure,
        emulated=settings.virt_type in _EMULATED,
        by_kvm=settings.virt_type == "kvm",
    )


def _require_offered(guest: _Guest) -> None:
    hardware, arch, settings = guest.hardware, guest.arch, guest.settings
    if hardware.arch is not None and arch != canonical_arch(settings.arch) and arch not in settings.machines:
        raise HardwareNotOffered(f"hw_architecture {arch} of the image: this host runs no such guests")
    machine = hardware.machine_type
    if machine is not None and machine not in settings.machines.get(arch, frozenset()):
        raise HardwareNotOffered(f"hw_machine_type {machine} of the image: this host has no such machine for {arch}")
    if guest.features.encrypted_memory and settings.encryption is None:
        raise HardwareNotOffered("hw:mem_encryption of the flavor: this host cannot encrypt the memory of guests")
    if guest.features.stateless_firmware and settings.stateless_loader is None:
        raise HardwareNotOffered("hw_firmware_stateless of the image: this host has no such firmware")
    of_host = arch == canonical_arch(settings.arch)
    if hardware.uefi and not (settings.uefi and of_host):
        raise HardwareNotOffered(
            f"hw_firmware_type uefi of the image: this host has no UEFI firmware for {arch} (OVMF)"
        )
    if guest.secure_boot and not (settings.secure_boot and of_host):
        raise HardwareNotOffered(f"os_secure_boot: this host has no firmware with secure boot for {arch}")


def _cpuset(settings: HostSettings) -> dict[str, str]:
    return {"cpuset": cpu_spec.write(settings.pinned)} if settings.pinned else {}


def _mark_of(instance: Instance, host: str, node: str, attempt: int) -> Mark:
    return Mark(
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


def _mark_element(mark: Mark) -> ET.Element:
    element = ET.Element(f"{{{NAMESPACE}}}instance")
    for key, value in msgspec.structs.asdict(mark).items():
        _text(element, f"{{{NAMESPACE}}}{key}", json.dumps(value))
    return element


def _os(domain: ET.Element, guest: _Guest, *, smbios: bool) -> None:
    element = ET.SubElement(domain, "os")
    # Without these attributes libvirt takes the host's architecture and its own default machine.
    attributes = {"arch": guest.arch, "machine": guest.machine}
    _text(element, "type", "hvm", **{name: value for name, value in attributes.items() if value})
    if guest.hardware.uefi and guest.features.stateless_firmware:
        # libvirt chooses such firmware only where it is packed for that. Any UEFI firmware works without its variables.
        loader = ET.SubElement(element, "loader", type="pflash", readonly="yes", stateless="yes")
        loader.text = guest.settings.stateless_loader
    elif guest.hardware.uefi:
        _firmware(element, secure=guest.secure_boot)
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


def _sysinfo(domain: ET.Element, instance: Instance, settings: HostSettings) -> None:
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
            _text(system, "entry", value, name=name)


def _cpu(instance: Instance, settings: HostSettings) -> features_xml.Cpu:
    """With several models, the first that has all features that flavor and image require by trait; of none, the first with these
    features added.
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
    model = min(settings.cpu_models, key=lambda one: bool(missing[one]))
    return features_xml.Cpu(mode, model, settings.cpu_flags)


def _required_traits(instance: Instance) -> frozenset[str]:
    """Returns the traits of CPUs that flavor and image require."""
    pairs = {**_properties(instance), **instance.flavor.extra_specs}
    return frozenset(
        key.removeprefix("trait:")
        for key, value in pairs.items()
        if key.startswith("trait:HW_CPU_") and value == "required"
    )


def _has_pcie_ports(guest: _Guest) -> bool:
    """Whether each device of the machine needs its own PCIe port, of which libvirt leaves only one free."""
    machine = guest.machine or ""
    if guest.arch == "aarch64":
        return not machine or machine.startswith("virt")
    return guest.arch == "x86_64" and Q35 in machine


def _cd_bus(arch: str, machine: str | None) -> str:
    """Returns the bus of a CD drive that every guest of the machine supports, as Nova chooses it."""
    if arch not in {"x86_64", "i686"}:
        return "scsi"
    return "sata" if machine is not None and Q35 in machine else "ide"


def _add_disks(devices: ET.Element, guest: _Guest, disks: Sequence[Disk]) -> None:
    hardware, settings = guest.hardware, guest.settings
    cd_bus = hardware.cdrom_bus or _cd_bus(guest.arch, guest.machine)
    letters: dict[str, Iterator[str]] = {prefix: iter(ascii_lowercase) for prefix in DISK_BUSES.values()}
    for disk in disks:
        bus = disk.bus or (cd_bus if disk.is_cd else hardware.disk_bus)
        prefix = DISK_BUSES[bus]
        element = ET.SubElement(devices, "disk", type="file", device="cdrom" if disk.is_cd else "disk")
        driver = ET.SubElement(element, "driver", name="qemu", type=disk.driver_format, cache=settings.disk_cache)
        if guest.emulated and settings.native_io and settings.disk_cache in _DIRECT:
            driver.set("io", "native")
        if guest.emulated and settings.discard and not disk.is_cd:
            driver.set("discard", settings.discard)
        ET.SubElement(element, "source", file=disk.path)
        ET.SubElement(element, "target", dev=f"{prefix}{next(letters[prefix])}", bus=bus)
        if disk.boots:
            ET.SubElement(element, "boot", order="1")
        if disk.is_cd:
            ET.SubElement(element, "readonly")
        elif guest.emulated:
            device_xml.limit_disk(element, guest.limits)


def _add_consoles(devices: ET.Element, guest: _Guest, console_log: str | None, serial_port: int | None) -> None:
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


def _interface(vif: Vif, guest: _Guest) -> ET.Element:
    """Raises HardwareNotOffered if this host has no bridge of the interface's network."""
    settings = guest.settings
    if vif.from_neutron:
        return _neutron_interface(vif, guest)
    if vif.network_type == LOCAL:
        kind, source = "network", {"network": network_name(vif.network_id)}
    elif vif.segment in settings.lost_bridges:
        raise HardwareNotOffered(
            f"network {vif.network_id}: bridge {settings.bridges[vif.segment]} of [networks] bridge_mappings, which carries "
            f"{vif.segment}, is not there"
        )
    elif vif.segment in settings.bridges:
        kind, source = "bridge", {"bridge": settings.bridges[vif.segment]}
    else:
        raise HardwareNotOffered(
            f"network {vif.network_id}: this host has no bridge for {vif.segment} in [networks] bridge_mappings"
        )
    element = _link(vif, guest, kind, source)
    ET.SubElement(element, "filterref", filter=filter_name(vif.port_id))
    device_xml.limit_interface(element, guest.limits)
    return element


def _neutron_interface(vif: Vif, guest: _Guest) -> ET.Element:
    """Returns the interface as Neutron has bound its port. An agent of Neutron filters its traffic.

    Raises InterfaceNotOffered if the binding has a type that minova does not plug.
    """
    bridge = vif.vif_details.get("bridge_name")
    if vif.vif_details.get("ovs_hybrid_plug"):
        raise InterfaceNotOffered(
            f"port {vif.port_id}: Neutron asks for a hybrid plug (firewall_driver iptables_hybrid), which is not there: use openvswitch"
        )
    if vif.vif_type == "ovs":
        element = _link(vif, guest, "bridge", {"bridge": str(bridge)})
        port = ET.SubElement(element, "virtualport", type="openvswitch")
        ET.SubElement(port, "parameters", interfaceid=vif.port_id)
    elif vif.vif_type == "bridge":
        element = _link(vif, guest, "bridge", {"bridge": str(bridge or f"brq{vif.network_id[:11]}")})
    elif vif.vif_type == "tap":
        element = _link(vif, guest, "ethernet", None)
    else:
        raise InterfaceNotOffered(
            f"port {vif.port_id}: Neutron has bound it as {vif.vif_type}; ovs, bridge and tap are there"
        )
    device_xml.limit_interface(element, guest.limits)
    return element


def _link(vif: Vif, guest: _Guest, kind: str, source: dict[str, str] | None) -> ET.Element:
    element = ET.Element("interface", type=kind)
    ET.SubElement(element, "mac", address=vif.mac_address)
    if source is not None:
        ET.SubElement(element, "source", source)
    ET.SubElement(element, "target", dev=tap_name(vif.port_id))
    ET.SubElement(element, "model", type=guest.hardware.vif_model)
    driver = _interface_driver(guest)
    if driver:
        # QEMU serves the queues of an emulated guest; the kernel of the host serves those of a KVM guest.
        backend = {"name": "vhost"} if guest.by_kvm else {}
        ET.SubElement(element, "driver", {**backend, **driver})
    ET.SubElement(element, "mtu", size=str(vif.mtu))
    if not vif.admin_state_up:
        ET.SubElement(element, "link", state="down")
    return element


def _interface_driver(guest: _Guest) -> dict[str, str]:
    if guest.hardware.vif_model != "virtio":
        return {}
    chosen = {
        "queues": str(guest.queues) if guest.queues > 1 else "",
        "rx_queue_size": str(guest.settings.rx_queue_size or ""),
        "tx_queue_size": str(guest.settings.tx_queue_size or ""),
        "packed": "on" if guest.features.packed_ring else "",
        # Also of an interface that is attached while the guest runs.
        "iommu": "on" if guest.features.encrypted_memory else "",
    }
    return {name: value for name, value in chosen.items() if value}


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
