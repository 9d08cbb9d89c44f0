"""The devices and firmware that libvirt's hypervisor offers to guests (its domain capabilities)."""

import logging
import re
from collections.abc import Iterable, Iterator
from typing import Any
from xml.etree import ElementTree as ET

import libvirt
import msgspec

from minova.objects.catalogue.guest_hardware import DISK_BUSES, Q35
from minova.virt.libvirt.inventory.memory_encryption import MemoryEncryption

LOG = logging.getLogger(__name__)
# A hypervisor without such capabilities (test:///default), or without this machine.
_UNKNOWN = {libvirt.VIR_ERR_NO_SUPPORT, libvirt.VIR_ERR_INVALID_ARG, libvirt.VIR_ERR_CONFIG_UNSUPPORTED}


# Words in the names of firmware files with secure boot, or with keys of someone.
_SECURE = re.compile(r"secboot|secure|enrolled|snakeoil|\.ms\b|amdsev|inteltdx", re.IGNORECASE)


class GuestOffer(msgspec.Struct, frozen=True, kw_only=True):
    """What the host offers to guests of its architecture, with its usual machine or with q35.

    `loader`: the file of its UEFI firmware without secure boot. `tpms`: versions and models of emulated TPMs.
    """

    disk_buses: frozenset[str] = frozenset(DISK_BUSES)
    video_models: frozenset[str] = frozenset()
    uefi: bool = False
    secure_boot: bool = False
    loader: str | None = None
    encryption: MemoryEncryption | None = None
    tpms: frozenset[str] = frozenset()


def read(connection: Any, arch: str, virt_type: str, machine: str | None) -> GuestOffer:
    """Read the offer from libvirt. `machine` is the host's usual machine type; None: libvirt's own choice."""
    texts = []
    for name in dict.fromkeys((machine, Q35)):
        try:
            texts.append(connection.getDomainCapabilities(None, arch or None, name, virt_type, 0))
        except libvirt.libvirtError as error:
            if error.get_error_code() not in _UNKNOWN:
                raise
            LOG.debug("libvirt does not report what machine %s offers: %s", name, error)
    return parse(texts) if texts else GuestOffer()


def parse(texts: Iterable[str]) -> GuestOffer:
    """Returns everything that at least one of these documents offers. Pure."""
    roots = [ET.fromstring(text) for text in texts]
    offered = {
        (enum.get("name"), value.text)
        for root in roots
        for path in ("os", "os/loader", "devices/disk", "devices/video")
        for element in root.findall(f"{path}[@supported='yes']")
        for enum in element.findall("enum")
        for value in enum.findall("value")
    }
    return GuestOffer(
        disk_buses=frozenset(text for name, text in offered if name == "bus" and text in DISK_BUSES),
        video_models=frozenset(text for name, text in offered if name == "modelType" and text),
        uefi=("firmware", "efi") in offered,
        secure_boot=("secure", "yes") in offered,
        loader=next((path for root in roots for path in _loaders(root)), None),
        encryption=next((encryption for root in roots if (encryption := _encryption(root)) is not None), None),
        tpms=frozenset(tpm for root in roots for tpm in _tpms(root)),
    )


def _loaders(root: ET.Element) -> Iterator[str]:
    for value in root.findall("os/loader[@supported='yes']/value"):
        if value.text and not _SECURE.search(value.text.rpartition("/")[2]):
            yield value.text


def _tpms(root: ET.Element) -> Iterator[str]:
    """libvirt offers emulated TPMs where it has found swtpm and swtpm_setup."""
    for tpm in root.findall("devices/tpm[@supported='yes']"):
        values = {
            enum.get("name"): {value.text or "" for value in enum.findall("value")} for enum in tpm.findall("enum")
        }
        if "emulator" in values.get("backendModel", ()):
            yield from values.get("model", ())
            yield from values.get("backendVersion", ())


def _encryption(root: ET.Element) -> MemoryEncryption | None:
    sev = root.find("features/sev[@supported='yes']")
    if sev is None:
        return None
    numbers = {name: sev.findtext(name, "") for name in ("cbitpos", "reducedPhysBits", "maxGuests")}
    if not (numbers["cbitpos"].isdecimal() and numbers["reducedPhysBits"].isdecimal()):
        return None
    return MemoryEncryption(
        cbitpos=int(numbers["cbitpos"]),
        reduced_bits=int(numbers["reducedPhysBits"]),
        contexts=int(numbers["maxGuests"]) if numbers["maxGuests"].isdecimal() else None,
    )
