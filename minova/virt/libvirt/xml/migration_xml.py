"""Makes the domain of a guest that moves with its memory, running or saved, for its new host. Pure.

The domain begins as the destination itself would define it. From the source's domain it takes only what the guest sees: its CPU,
features and clock, the models and addresses of its devices. A source may be in the hands of an attacker, and a domain may name any
program and file of its host. So each element and attribute that is taken is listed here. A disk, an interface or another device
that the destination would not define, and an element that is not listed, are refused.
"""

import copy
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree as ET

from minova.errors import HypervisorError

# The destination's own, whatever the source has: resources of the host, and what libvirt adds by itself.
_OWN = frozenset(
    {
        *("name", "uuid", "metadata", "memory", "memoryBacking", "vcpu", "cputune", "numatune"),
        *("on_poweroff", "on_reboot", "on_crash", "launchSecurity"),
        *("seclabel", "resource", "memtune", "blkiotune", "perf"),
    }
)
_OWN_DEVICES = frozenset({"emulator", "graphics", "audio", "console"})
_FEATURES = frozenset(
    {
        *("acpi", "apic", "pae", "hap", "hyperv", "kvm", "pvspinlock", "pmu", "vmport", "ioapic", "vmcoreinfo", "smm"),
        *("gic", "hpt", "htm", "nested-hv", "ccf-assist", "cfpc", "sbbc", "ibs", "ras", "ps2"),
    }
)
# The children that are taken, as {tag: its own children}.
Tree = Mapping[str, "Tree"]
_CPU: Tree = {
    **{tag: {} for tag in ("model", "vendor", "topology", "cache", "maxphysaddr", "feature")},
    "numa": {"cell": {"distances": {"sibling": {}}, "cache": {}}},
}
_CLOCK: Tree = {"timer": {"catchup": {}}}
_POWER: Tree = {"suspend-to-mem": {}, "suspend-to-disk": {}}
_ENTRIES: Tree = {"entry": {}}
_SMBIOS: Tree = dict.fromkeys(("bios", "system", "baseBoard", "chassis", "oemStrings"), _ENTRIES)
# The destination takes its own kernel, ramdisk and command line.
_OWN_BOOT = ("kernel", "initrd", "cmdline")
_SYSTEM: Tree = {
    **{tag: {} for tag in ("type", "loader", "nvram", "boot", "bootmenu", "smbios", "bios", *_OWN_BOOT)},
    "firmware": {"feature": {}},
}
# Firmware, and the templates of its variables, that distributions have packed for every guest.
_PACKAGED = Path("/usr/share")
_VARIABLES = "/var/lib/libvirt/qemu/nvram/{name}_VARS.fd"

_VIRTIO = frozenset(
    {
        *(
            "iommu",
            "ats",
            "packed",
            "page_per_vq",
            "event_idx",
            "ioeventfd",
            "queues",
            "rx_queue_size",
            "tx_queue_size",
        ),
        *("cmd_per_lun", "max_sectors", "intremap", "caching_mode", "eim", "iotlb", "aw_bits", "dma_translation"),
    }
)
_INPUTS = frozenset({"mouse", "tablet", "keyboard"})
# The action dump would write the guest's memory to the host's disk.
_ACTIONS = frozenset({"none", "pause", "poweroff", "reset", "shutdown", "inject-nmi"})


class _DeviceForm(NamedTuple):
    """What a guest sees of one kind of device: `attributes` of the element, and of its `children`. Address and the attributes of
    virtio come with each. `key`: which of the destination's devices is the same one; None: devices that use nothing of the host.
    """

    attributes: frozenset[str] = frozenset()
    children: Mapping[str, frozenset[str]] = {}
    key: Callable[[ET.Element], str] | None = None


def _first(_: ET.Element) -> str:
    return ""


def _file_name(disk: ET.Element) -> str:
    source = disk.find("source")
    return "" if source is None else Path(source.get("file", "")).name


def _mac(interface: ET.Element) -> str:
    element = interface.find("mac")
    return "" if element is None else element.get("address", "").lower()


def _channel(channel: ET.Element) -> str:
    target = channel.find("target")
    return "" if target is None else target.get("name", "")


def _emulated(tpm: ET.Element) -> str:
    """The destination's own TPM has its own secret. Another kind would be a device of the host."""
    backend = tpm.find("backend")
    return "" if backend is None else f"{backend.get('type')} {backend.get('version')}"


_MODEL, _TYPE = frozenset({"model"}), frozenset({"type"})
_DEVICES = {
    "disk": _DeviceForm(children={"target": frozenset({"dev", "bus"}), "boot": frozenset({"order"})}, key=_file_name),
    "interface": _DeviceForm(children={"model": _TYPE}, key=_mac),
    "hostdev": _DeviceForm(key=_first),
    "serial": _DeviceForm(children={"target": frozenset({"type", "port"})}, key=_first),
    "channel": _DeviceForm(key=_channel),
    "rng": _DeviceForm(_MODEL, key=_first),
    "memballoon": _DeviceForm(frozenset({"model", "autodeflate", "freePageReporting"}), key=_first),
    "controller": _DeviceForm(
        frozenset({"type", "index", "model", "ports", "vectors"}),
        {
            "model": frozenset({"name"}),
            "target": frozenset({"chassis", "chassisNr", "port", "busNr", "index", "hotplug"}),
            "master": frozenset({"startport"}),
            "pcihole64": frozenset({"unit"}),
        },
    ),
    "input": _DeviceForm(frozenset({"type", "bus", "model"})),
    "sound": _DeviceForm(_MODEL, {"codec": _TYPE}),
    "video": _DeviceForm(
        children={"model": frozenset({"type", "ram", "vram", "vram64", "vgamem", "heads", "primary", "blob"})}
    ),
    "watchdog": _DeviceForm(frozenset({"model", "action"})),
    "iommu": _DeviceForm(_MODEL),
    "tpm": _DeviceForm(_MODEL, key=_emulated),
    "hub": _DeviceForm(_TYPE),
    "panic": _DeviceForm(_MODEL),
}


def migrated_xml(source_xml: str, own_xml: str) -> str:
    """`source_xml`: the domain at its source. `own_xml`: the domain as the destination would define it.

    Raises HypervisorError if the source's domain has something that is not this guest's.
    """
    source, domain = ET.fromstring(source_xml), ET.fromstring(own_xml)
    own_numa, own_system = domain.find("cpu/numa"), domain.find("os")
    for element in source:
        if element.tag not in _OWN | _TAKEN.keys() | {"os", "devices"}:
            raise _refused(element.tag)
    for tag, take in _TAKEN.items():
        _replace(domain, tag, take(source.find(tag)))
    cpu = domain.find("cpu")
    if cpu is not None:
        # Cells decide how much memory the guest has.
        _replace(cpu, "numa", own_numa)
    _replace(domain, "os", _system(source.find("os"), own_system, domain.findtext("name", "")))
    own_devices = domain.find("devices")
    if own_devices is not None:
        devices = _devices(source.find("devices"), own_devices)
        _replace(domain, "devices", devices)
    return ET.tostring(domain, encoding="unicode")


def cpu_of(xml: str) -> str | None:
    """Returns the guest's CPU; None if the domain names none."""
    cpu = ET.fromstring(xml).find("cpu")
    if cpu is None or cpu.find("model") is None:
        return None
    return ET.tostring(cpu, encoding="unicode")


def targets_of(xml: str) -> dict[str, str]:
    """Returns {file: the disk's name in the guest} of disks that the guest can write."""
    targets = {}
    for disk in ET.fromstring(xml).findall("devices/disk"):
        source, target = disk.find("source"), disk.find("target")
        if source is not None and target is not None and disk.find("readonly") is None:
            targets[source.get("file", "")] = target.get("dev", "")
    return targets


def _replace(domain: ET.Element, tag: str, own: ET.Element | None) -> None:
    existing = domain.find(tag)
    if existing is not None:
        domain.remove(existing)
    if own is not None:
        domain.append(copy.deepcopy(own))


def _refused(what: str) -> HypervisorError:
    return HypervisorError(
        f"The source describes a guest with {what}, which this guest does not have: it does not move"
    )


def _copy_with_children(element: ET.Element | None, children: Tree) -> ET.Element | None:
    """Returns a copy. Raises HypervisorError if it has other children."""
    if element is None:
        return None
    clone = ET.Element(element.tag, element.attrib)
    clone.text = element.text
    for child in element:
        if child.tag not in children:
            raise _refused(f"{child.tag} in {element.tag}")
        copied = _copy_with_children(child, children[child.tag])
        if copied is not None:
            clone.append(copied)
    return clone


def _features(element: ET.Element | None) -> ET.Element | None:
    """Features are numbers and switches, whatever is below them."""
    for child in () if element is None else element:
        if child.tag not in _FEATURES:
            raise _refused(f"feature {child.tag}")
    return copy.deepcopy(element)


def _sysinfo(element: ET.Element | None) -> ET.Element | None:
    """Another type than smbios reads files of the host."""
    if element is not None and element.get("type") != "smbios":
        raise _refused(f"sysinfo {element.get('type')}")
    return _copy_with_children(element, _SMBIOS)


_TAKEN: dict[str, Callable[[ET.Element | None], ET.Element | None]] = {
    "currentMemory": lambda element: _copy_with_children(element, {}),
    "cpu": lambda element: _copy_with_children(element, _CPU),
    "features": _features,
    "clock": lambda element: _copy_with_children(element, _CLOCK),
    "pm": lambda element: _copy_with_children(element, _POWER),
    "sysinfo": _sysinfo,
}


def _system(element: ET.Element | None, own: ET.Element | None, name: str) -> ET.Element | None:
    """libvirt has written into the source's domain which firmware it has chosen, and where the variables are."""
    system = _copy_with_children(element, _SYSTEM)
    if system is None:
        return None
    for tag in _OWN_BOOT:
        boot_file = None if own is None else own.find(tag)
        if system.find(tag) is not None and boot_file is None:
            raise _refused(tag)
        _replace(system, tag, boot_file)
    for loader in system.findall("loader"):
        if loader.text and not _is_packaged(loader.text) and loader.text != _text_of(own, "loader"):
            raise _refused(f"firmware {loader.text}")
        if loader.text:
            loader.set("readonly", "yes")
    for variables in system.findall("nvram"):
        variables.attrib.pop("type", None)
        if variables.get("format", "raw") != "raw":
            # Their content comes from the source, too: a header could name files of this host.
            raise _refused(f"variables of firmware in format {variables.get('format')}")
        template = variables.get("template")
        if (variables.text or "") not in {"", _VARIABLES.format(name=name)} or not _is_packaged(
            template or str(_PACKAGED / "x")
        ):
            raise _refused(f"variables of firmware in {variables.text}, from {template}")
    return system


def _text_of(element: ET.Element | None, tag: str) -> str | None:
    return None if element is None else element.findtext(tag)


def _is_packaged(path: str) -> bool:
    return Path(path).is_relative_to(_PACKAGED) and ".." not in Path(path).parts


# -- devices -----------------------------------------------------------------------------------------------------------


def _devices(source: ET.Element | None, own: ET.Element) -> ET.Element:
    devices = ET.Element("devices")
    unmatched = list(own)
    for element in () if source is None else source:
        if element.tag in _OWN_DEVICES:
            _require_serial(element)
            continue
        form = _DEVICES.get(element.tag)
        if form is None:
            raise _refused(f"device {element.tag}")
        _require_harmless(element)
        device = ET.Element(element.tag) if form.key is None else _counterpart(element, form.key, unmatched)
        # The order in which the guest boots is that of its source.
        _replace(device, "boot", None)
        _show(device, element, form)
        devices.append(device)
    devices.extend(own.findall("graphics"))
    return devices


def _require_serial(element: ET.Element) -> None:
    """libvirt shows the first serial port as a console, too."""
    if element.tag == "console" and element.find("target") is not None:
        kind = element.find("target[@type]")
        if kind is not None and kind.get("type") != "serial":
            raise _refused(f"console {kind.get('type')}")


def _require_harmless(element: ET.Element) -> None:
    """Raises HypervisorError for inputs that are those of the host, and for a watchdog that writes to it."""
    if element.tag == "input" and element.get("type") not in _INPUTS:
        raise _refused(f"input {element.get('type')}")
    if element.tag == "watchdog" and element.get("action", "reset") not in _ACTIONS:
        raise _refused(f"watchdog {element.get('action')}")


def _counterpart(element: ET.Element, key: Callable[[ET.Element], str], left: list[ET.Element]) -> ET.Element:
    """Returns the destination's device, and takes it from those that are left."""
    for own in left:
        if own.tag == element.tag and key(own) == key(element):
            left.remove(own)
            return copy.deepcopy(own)
    raise _refused(f"{element.tag} {key(element)}".rstrip())


def _show(device: ET.Element, source: ET.Element, seen: _DeviceForm) -> None:
    """Make the device look to the guest as that of the source."""
    device.attrib.update({name: value for name, value in source.attrib.items() if name in seen.attributes})
    for tag, attributes in seen.children.items():
        original = source.find(tag)
        if original is not None:
            child = ET.Element(tag, {name: value for name, value in original.attrib.items() if name in attributes})
            child.text = original.text if tag == "pcihole64" else None
            _add_model(child, original)
            _replace(device, tag, child)
    _show_virtio(device, source.find("driver"))
    _replace(device, "address", _copy_with_children(source.find("address"), {"zpci": {}}))


def _add_model(target: ET.Element, source: ET.Element) -> None:
    """The model of a serial port is below its target."""
    model = source.find("model")
    if target.tag == "target" and model is not None:
        ET.SubElement(target, "model", name=model.get("name", ""))


def _show_virtio(device: ET.Element, source: ET.Element | None) -> None:
    driver = device.find("driver")
    virtio_attributes = (
        {} if source is None else {name: value for name, value in source.attrib.items() if name in _VIRTIO}
    )
    if driver is None and not virtio_attributes:
        return
    if driver is None:
        driver = ET.SubElement(device, "driver")
    for name in _VIRTIO & driver.attrib.keys():
        del driver.attrib[name]
    driver.attrib.update(virtio_attributes)
