"""The properties of an image that choose a guest's hardware. Each has a value from a closed list or of a closed form. Pure.

The API checks them when a server is asked for, and the driver again before they become part of a domain. Whether a host
offers the architecture and the machine type only its driver knows.
"""

import re
from collections.abc import Mapping

import msgspec

from minova.objects.image_properties import InvalidImageProperty, typed

# Those of Nova's list that QEMU has by the driver, and how a guest's first disk is named on each.
DISK_BUSES = {"virtio": "vd", "scsi": "sd", "sata": "sd", "ide": "hd", "usb": "sd"}
# QEMU's machine types, such as pc-q35-7.2 and s390-ccw-virtio.
_MACHINE_TYPE = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._-]{0,63}", re.ASCII)


class GuestHardware(msgspec.Struct, frozen=True, kw_only=True):
    """None: the host's own choice. `arch` is Nova's name."""

    arch: str | None = None
    machine_type: str | None = None
    disk_bus: str = "virtio"


def guest_hardware(properties: Mapping[str, str]) -> GuestHardware:
    """InvalidImageProperty: a value that no host could give a guest."""
    values = typed(properties)
    bus = values.get("hw_disk_bus") or "virtio"
    if bus not in DISK_BUSES:
        raise InvalidImageProperty(
            f"Image property hw_disk_bus: {bus!r} is not valid: known are {', '.join(sorted(DISK_BUSES))}"
        )
    machine = values.get("hw_machine_type") or None
    if machine is not None and not _MACHINE_TYPE.fullmatch(machine):
        raise InvalidImageProperty(
            f"Image property hw_machine_type: {machine[:64]!r} is not valid: it must be the name of a machine, such as q35"
        )
    return GuestHardware(arch=values.get("hw_architecture"), machine_type=machine, disk_bus=bus)
