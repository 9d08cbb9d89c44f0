"""The parts of a guest's hardware that an image and a flavor choose. Each value is from a closed list or has a closed
form. Pure.

The API checks the values when a server is requested, and the driver checks them again before they become part of a
domain. Only a host's driver knows what the host offers: it publishes that as traits, which the scheduler uses.
"""

import re
from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from minova import errors
from minova.objects.catalogue.image_properties import FIELDS, InvalidImageProperty, flag, typed

# The buses of Nova's list that QEMU supports with the driver, and the prefix of a guest's disk names on each.
DISK_BUSES = {"virtio": "vd", "scsi": "sd", "sata": "sd", "ide": "hd", "usb": "sd"}
CDROM_BUSES = frozenset(DISK_BUSES) - {"virtio"}
# The models of Nova's list that QEMU supports.
VIF_MODELS = ("virtio", "e1000", "e1000e", "igb", "ne2k_pci", "pcnet", "rtl8139", "vmxnet3")
# libvirt accepts these with QEMU. It has ibmvscsi for ppc64 alone.
SCSI_MODELS = ("lsilogic", "lsisas1068", "lsisas1078", "virtio-scsi", "vmpvscsi")
_PPC_SCSI_MODEL, _PPC = "ibmvscsi", ("ppc64", "ppc64le")
# Machines without PCI, to which no disk or interface can be attached, and those that only tests or Xen use.
_NO_MACHINES = re.compile(r"isapc|microvm.*|none|x-remote.*|xenfv.*|xenpv.*")
UEFI, SECURE_BOOT = "COMPUTE_FIRMWARE_UEFI", "COMPUTE_SECURITY_UEFI_SECURE_BOOT"
REQUIRED, OPTIONAL, DISABLED = "required", "optional", "disabled"
NO_VIDEO = "none"
Q35 = "q35"
# QEMU's machine types, such as pc-q35-7.2 and s390-ccw-virtio.
_MACHINE_TYPE = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._-]{0,63}", re.ASCII)


class InvalidExtraSpec(errors.BadRequest):
    """A value that a flavor's extra spec cannot have. The text names both."""


class Rng(msgspec.Struct, frozen=True, kw_only=True):
    """A random number generator. `rate_bytes` in each `rate_period` milliseconds (None: a second); 0: no limit."""

    rate_bytes: int = 0
    rate_period: int | None = None


class GuestHardware(msgspec.Struct, frozen=True, kw_only=True):
    """None: the host's own choice, or no such device. `arch`: Nova's name. `secure_boot`: required, optional or
    disabled.
    """

    arch: str | None = None
    machine_type: str | None = None
    disk_bus: str = "virtio"
    cdrom_bus: str | None = None
    scsi_model: str | None = None
    vif_model: str = "virtio"
    video_model: str | None = None
    video_ram_mb: int = 0
    rng: Rng | None = None
    uefi: bool = False
    secure_boot: str = DISABLED
    boot_menu: bool = False
    watchdog_action: str | None = None
    guest_agent: bool = False


def guest_hardware(properties: Mapping[str, str], extra_specs: Mapping[str, str] | None = None) -> GuestHardware:
    """Raises InvalidImageProperty or InvalidExtraSpec for a value that no host could give a guest, or for contradicting
    values.
    """
    values, specs = typed(properties), extra_specs or {}
    bus = values.get("hw_disk_bus") or "virtio"
    _check("hw_disk_bus", bus, DISK_BUSES.keys())
    cdrom_bus = values.get("hw_cdrom_bus") or None
    if cdrom_bus is not None:
        _check("hw_cdrom_bus", cdrom_bus, CDROM_BUSES)
    model = values.get("hw_vif_model") or "virtio"
    if model not in VIF_MODELS:
        raise _invalid("hw_vif_model", model, f"known are {', '.join(VIF_MODELS)}")
    _check_scsi_model(values)
    hardware = GuestHardware(
        arch=values.get("hw_architecture"),
        machine_type=_machine_type(values),
        disk_bus=bus,
        cdrom_bus=cdrom_bus,
        scsi_model=values.get("hw_scsi_model"),
        vif_model=model,
        video_model=values.get("hw_video_model"),
        video_ram_mb=_video_ram(values, specs),
        rng=_rng(values, specs),
        uefi=values.get("hw_firmware_type") == "uefi",
        secure_boot=_secure_boot(values, specs),
        boot_menu=bool(values.get("hw_boot_menu", flag(specs.get("hw:boot_menu", "")))),
        watchdog_action=_watchdog(values, specs),
        guest_agent=bool(values.get("hw_qemu_guest_agent")),
    )
    _require_fit(hardware)
    return hardware


def traits_needed(hardware: GuestHardware) -> frozenset[str]:
    """Returns the traits that a host of such a guest needs. Leaves out what every host supports, so that hosts of an
    older release can be chosen, too.
    """
    chosen = {
        "COMPUTE_STORAGE_BUS": [bus for bus in (hardware.disk_bus, hardware.cdrom_bus) if bus not in {None, "virtio"}],
        "COMPUTE_NET_VIF_MODEL": [hardware.vif_model] if hardware.vif_model != "virtio" else [],
        "COMPUTE_GRAPHICS_MODEL": [hardware.video_model] if hardware.video_model else [],
    }
    needed = {f"{prefix}_{model}".upper() for prefix, models in chosen.items() for model in models}
    if hardware.uefi:
        needed.add(UEFI)
    if hardware.secure_boot == REQUIRED:
        needed.add(SECURE_BOOT)
    return frozenset(needed)


# -- each of them ------------------------------------------------------------------------------------------------------


def _machine_type(values: Mapping[str, Any]) -> str | None:
    machine: str | None = values.get("hw_machine_type") or None
    if machine is not None and not _MACHINE_TYPE.fullmatch(machine):
        raise _invalid("hw_machine_type", machine[:64], "it must be the name of a machine, such as q35")
    if machine is not None and _NO_MACHINES.fullmatch(machine):
        raise _invalid("hw_machine_type", machine, "disks and interfaces need a machine with PCI")
    return machine


def _check_scsi_model(values: Mapping[str, Any]) -> None:
    model = values.get("hw_scsi_model")
    on_ppc = values.get("hw_architecture") in _PPC
    models = (*SCSI_MODELS, _PPC_SCSI_MODEL) if on_ppc else SCSI_MODELS
    if model is not None and model not in models:
        raise _invalid("hw_scsi_model", model, f"known are {', '.join(models)}")


def _rng(values: Mapping[str, Any], specs: Mapping[str, str]) -> Rng | None:
    """As in Nova: the image requests it, and the flavor may forbid or limit it."""
    rate, period = _number(specs, "hw_rng:rate_bytes"), _number(specs, "hw_rng:rate_period")
    if "hw_rng_model" not in values or not flag(specs.get("hw_rng:allowed", "true")):
        return None
    return Rng(rate_bytes=rate, rate_period=period or None)


def _watchdog(values: Mapping[str, Any], specs: Mapping[str, str]) -> str | None:
    """The image's choice takes precedence over the flavor's."""
    action = specs.get("hw:watchdog_action", DISABLED)
    try:
        FIELDS["hw_watchdog_action"](action)
    except ValueError as error:
        raise InvalidExtraSpec(
            f"Flavor extra spec hw:watchdog_action: {action[:255]!r} is not valid: {error}"
        ) from error
    action = values.get("hw_watchdog_action", action)
    return None if action == DISABLED else action


def _video_ram(values: Mapping[str, Any], specs: Mapping[str, str]) -> int:
    """In MB. As in Nova, the flavor sets the maximum for the image; a flavor without a maximum allows none."""
    size_mb: int = values.get("hw_video_ram", 0)
    most = _number(specs, "hw_video:ram_max_mb")
    if not 0 <= size_mb <= most:
        raise _invalid("hw_video_ram", str(size_mb), f"the flavor allows 0 to {most} MB (hw_video:ram_max_mb)")
    return size_mb


def _secure_boot(values: Mapping[str, Any], specs: Mapping[str, str]) -> str:
    """As in Nova, flavor and image must not contradict each other."""
    of_flavor, of_image = specs.get("os:secure_boot"), values.get("os_secure_boot")
    if of_flavor not in {None, REQUIRED, DISABLED}:
        raise InvalidExtraSpec(
            f"Flavor extra spec os:secure_boot: {str(of_flavor)[:255]!r} is not valid: known are {DISABLED}, {REQUIRED}"
        )
    if of_flavor and of_image and of_flavor != of_image:
        raise _invalid("os_secure_boot", of_image, f"the flavor says os:secure_boot={of_flavor}")
    return of_flavor or of_image or DISABLED


def _require_fit(hardware: GuestHardware) -> None:
    """Rejects combinations that no host can provide."""
    machine = hardware.machine_type or ""
    for name, bus in (("hw_disk_bus", hardware.disk_bus), ("hw_cdrom_bus", hardware.cdrom_bus)):
        if bus == "ide" and Q35 in machine:
            raise _invalid(name, bus, f"machine {machine} has no IDE")
        if bus == "ide" and not machine and hardware.secure_boot == REQUIRED:
            raise _invalid(name, bus, "secure boot is required, which only machine q35 has, and that has no IDE")
    if hardware.secure_boot == REQUIRED:
        if not hardware.uefi:
            raise errors.BadRequest("os_secure_boot is required: the image must have hw_firmware_type=uefi")
        if machine and Q35 not in machine:
            raise _invalid("hw_machine_type", machine, "secure boot is required, which only machine q35 has")


def _number(specs: Mapping[str, str], key: str) -> int:
    """Returns 0 if the key is missing."""
    text = specs.get(key, "0")
    if not (text.isascii() and text.isdecimal() and len(text) <= 10):
        raise InvalidExtraSpec(f"Flavor extra spec {key}: {text[:255]!r} is not valid: it must be a number from 0 up")
    return int(text)


def _invalid(name: str, value: str, why: str) -> InvalidImageProperty:
    return InvalidImageProperty(f"Image property {name}: {value!r} is not valid: {why}")


def _check(name: str, bus: str, buses: Collection[str]) -> None:
    if bus not in buses:
        raise _invalid(name, bus, f"known are {', '.join(sorted(buses))}")
