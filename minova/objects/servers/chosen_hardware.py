"""Hardware that is chosen once per server, so that a changed option or a new hypervisor changes no existing guest. The keys in
`system_metadata` are Nova's. A rebuild chooses anew. Pure.
"""

import re
from collections.abc import Container, Mapping
from typing import Annotated

import msgspec

from minova.objects.catalogue.guest_hardware import DISABLED, Q35, REQUIRED, GuestHardware

MACHINE_TYPE = "image_hw_machine_type"
FIRMWARE = "image_hw_firmware_type"
# Firmware with secure boot may be optional in the image; this is what the guest has got.
SECURE_BOOT = "image_os_secure_boot"
KEYS = (MACHINE_TYPE, FIRMWARE, SECURE_BOOT)
UEFI, BIOS = "uefi", "bios"
_VERSIONED = re.compile(r"(pc-i440fx|pc-q35|.+)-\d+\.\d+.*")
_ALIASES = {"pc-i440fx": "pc", "pc-q35": Q35}
# The machines that guests commonly have, by architecture.
_USUAL = {
    "i686": frozenset({"pc", Q35}),
    "x86_64": frozenset({"pc", Q35}),
    "aarch64": frozenset({"virt"}),
    "s390x": frozenset({"s390-ccw-virtio"}),
}


# What hosts may report: as much as an image may name.
MachineType = Annotated[str, msgspec.Meta(pattern=r"^[a-zA-Z0-9][a-zA-Z0-9._-]{0,63}\Z")]


class ChosenHardware(msgspec.Struct, frozen=True, kw_only=True):
    """`machine_type`: with its version, such as pc-q35-7.2."""

    machine_type: MachineType
    uefi: bool = False
    secure_boot: bool = False

    @property
    def recorded(self) -> dict[str, str]:
        """Its keys and values in `system_metadata`."""
        return {
            MACHINE_TYPE: self.machine_type,
            FIRMWARE: UEFI if self.uefi else BIOS,
            SECURE_BOOT: REQUIRED if self.secure_boot else DISABLED,
        }


def without_choice(system_metadata: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in system_metadata.items() if key not in KEYS}


def with_choice(hardware: GuestHardware, system_metadata: Mapping[str, str]) -> GuestHardware:
    """Returns the hardware with what was chosen for the server before."""
    firmware, secure = system_metadata.get(FIRMWARE), system_metadata.get(SECURE_BOOT)
    return msgspec.structs.replace(
        hardware,
        machine_type=system_metadata.get(MACHINE_TYPE) or hardware.machine_type,
        uefi=hardware.uefi if firmware is None else firmware == UEFI,
        secure_boot=hardware.secure_boot if secure is None else secure,
    )


def alias_of(machine_type: str) -> str:
    """Returns the name without a version: pc for pc-i440fx-7.2, q35 for pc-q35-7.2."""
    match = _VERSIONED.fullmatch(machine_type)
    return machine_type if match is None else _ALIASES.get(match[1], match[1])


def machine_here(recorded: str, arch: str, offered: Container[str]) -> str | None:
    """Returns the machine that a guest of this recorded machine type gets on a host that offers these: the type itself, or its
    name without a version. None: neither is offered, and the record is no usual one of this architecture, such as one that a
    host has invented. Then the choice of the image holds.
    """
    if recorded in offered:
        return recorded
    alias = alias_of(recorded)
    return alias if alias in offered or alias in _USUAL.get(arch, ()) else None
