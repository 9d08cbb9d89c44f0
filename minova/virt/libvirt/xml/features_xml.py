"""Writes CPU, features, clock and input devices of a domain. Pure. Elements and values are those of Nova's libvirt driver."""

from collections.abc import Sequence
from typing import NamedTuple
from xml.etree import ElementTree as ET

from minova.hardware.guest.cpu_topology import CpuTopology
from minova.hardware.guest.features import GuestFeatures

X86 = frozenset({"x86_64", "i686"})
# What QEMU can do for Windows without KVM, and with it. Nova's list, and its number of retries, which is Microsoft's advice.
_HYPERV = ("relaxed", "vapic")
_HYPERV_OF_KVM = ("vpindex", "runtime", "synic", "reset", "frequencies", "tlbflush", "ipi")
_SPINLOCK_RETRIES = "8191"
# Hides Hyper-V from drivers that refuse to run in guests.
_VENDOR = "1234567890ab"
_TABLET, _USB_TABLET = "tablet", "usbtablet"
_USB, _VIRTIO, _NO_USB = "usb", "virtio", "none"
_INTEL, _AUTO = "intel", "auto"


class Cpu(NamedTuple):
    """`flags`: features that guests get (+) or do not (-), in addition to those of the model."""

    mode: str
    model: str | None
    flags: Sequence[str]


def add_features(domain: ET.Element, features: GuestFeatures, arch: str, *, kvm: bool, secure_boot: bool) -> None:
    element = ET.SubElement(domain, "features")
    ET.SubElement(element, "acpi")
    if arch in X86:
        ET.SubElement(element, "apic")
    if features.windows and arch in X86:
        _hyperv(element, kvm=kvm, hidden=features.hidden)
    if features.hidden:
        ET.SubElement(ET.SubElement(element, "kvm"), "hidden", state="on")
    if features.pmu is not None:
        ET.SubElement(element, "pmu", state="on" if features.pmu else "off")
    if features.iommu_model == _INTEL:
        ET.SubElement(element, "ioapic", driver="qemu")
    if arch in X86 or arch == "aarch64":
        ET.SubElement(element, "vmcoreinfo")
    if secure_boot:
        ET.SubElement(element, "smm", state="on")


def _hyperv(features: ET.Element, *, kvm: bool, hidden: bool) -> None:
    hyperv = ET.SubElement(features, "hyperv")
    for name in (*_HYPERV, *(_HYPERV_OF_KVM if kvm else ())):
        ET.SubElement(hyperv, name, state="on")
    ET.SubElement(hyperv, "spinlocks", state="on", retries=_SPINLOCK_RETRIES)
    if hidden:
        ET.SubElement(hyperv, "vendor_id", state="on", value=_VENDOR)


def add_cpu(domain: ET.Element, cpu: Cpu, topology: CpuTopology, features: GuestFeatures) -> ET.Element:
    element = ET.SubElement(domain, "cpu")
    if cpu.model is not None:
        element.set("match", "exact")
        ET.SubElement(element, "model").text = cpu.model
    if cpu.mode != "none":
        element.set("mode", cpu.mode)
    numbers = {part: str(number) for part, number in topology._asdict().items()}
    ET.SubElement(element, "topology", numbers)
    if features.address_mode is not None:
        bits = {} if features.address_bits is None else {"bits": str(features.address_bits)}
        ET.SubElement(element, "maxphysaddr", {"mode": features.address_mode, **bits})
    for flag in cpu.flags:
        policy = "disable" if flag.startswith("-") else "require"
        ET.SubElement(element, "feature", policy=policy, name=flag.lstrip("+-"))
    return element


def add_clock(domain: ET.Element, features: GuestFeatures, arch: str, *, emulated: bool) -> None:
    """Windows keeps its hardware clock in local time. A guest that has lost ticks of its timers catches up with them."""
    clock = ET.SubElement(domain, "clock", offset="localtime" if features.windows else "utc")
    if not emulated or arch not in X86:
        return
    ET.SubElement(clock, "timer", name="pit", tickpolicy="delay")
    ET.SubElement(clock, "timer", name="rtc", tickpolicy="catchup")
    ET.SubElement(clock, "timer", name="hpet", present="yes" if features.hpet else "no")
    if features.windows:
        ET.SubElement(clock, "timer", name="hypervclock", present="yes")


def add_inputs(
    devices: ET.Element, features: GuestFeatures, arch: str, *, has_screen: bool, pointer_model: str | None
) -> None:
    """A tablet tells the guest where the pointer is. A mouse tells how far it moved, so that the pointer in a browser is beside the
    guest's.
    """
    bus = features.input_bus or _USB
    is_requested = features.input_bus is not None or features.pointer_model == _USB_TABLET
    usual = has_screen and pointer_model == _USB_TABLET and features.usb_model != _NO_USB
    if is_requested or usual:
        ET.SubElement(devices, "input", type=_TABLET, bus=bus)
    # Other machines than those have a PS/2 keyboard.
    if features.input_bus is not None or (has_screen and arch == "aarch64" and features.usb_model != _NO_USB):
        ET.SubElement(devices, "input", type="keyboard", bus=bus)


def add_optional_devices(devices: ET.Element, features: GuestFeatures, *, kvm: bool) -> None:
    """The models that flavor or image name: USB controller, sound card, IOMMU."""
    if features.usb_model is not None:
        ET.SubElement(devices, "controller", type="usb", index="0", model=features.usb_model)
    if features.sound_model is not None:
        ET.SubElement(devices, "sound", model=features.sound_model)
    if features.iommu_model is not None:
        model = _VIRTIO if features.iommu_model == _AUTO else features.iommu_model
        iommu = ET.SubElement(devices, "iommu", model=model)
        if model == _INTEL:
            # QEMU can extend interrupts (eim) only with KVM.
            extended = {"eim": "on"} if kvm else {}
            ET.SubElement(iommu, "driver", {"intremap": "on", "caching_mode": "on", **extended, "iotlb": "on"})
