"""What libvirt's domain capabilities offer to guests."""

from typing import Any

import libvirt
import pytest

from minova.virt.libvirt.inventory.domain_capabilities import GuestOffer, parse, read
from minova.virt.libvirt.inventory.memory_encryption import MemoryEncryption
from tests.fakes.libvirt_errors import libvirt_error


def enum(name: str, *values: str) -> str:
    return f"<enum name='{name}'>{''.join(f'<value>{value}</value>' for value in values)}</enum>"


PC = f"""<domainCapabilities><os supported='yes'>{enum("firmware", "efi")}<loader supported='yes'>{enum("secure", "no")}</loader>
</os><devices><disk supported='yes'>{enum("bus", "ide", "fdc", "virtio")}{enum("model", "virtio")}</disk>
<video supported='yes'>{enum("modelType", "vga", "none")}</video></devices></domainCapabilities>"""
Q35 = f"""<domainCapabilities><os supported='yes'><loader supported='yes'>{enum("secure", "yes", "no")}</loader></os>
<devices><disk supported='yes'>{enum("bus", "sata", "virtio")}</disk><video supported='no'>{enum("modelType", "qxl")}</video>
</devices></domainCapabilities>"""


class Machines:
    """A connection that knows these machines."""

    def __init__(self, known: dict[str | None, str], code: int = libvirt.VIR_ERR_INVALID_ARG) -> None:
        self.known, self.code = known, code

    def getDomainCapabilities(self, *arguments: Any) -> str:  # noqa: N802  - libvirt's own name
        machine = arguments[2]
        if machine in self.known:
            return self.known[machine]
        raise libvirt_error("no", self.code)


def test_all_that_one_of_the_machines_offers() -> None:
    assert parse([PC, Q35]) == GuestOffer(
        disk_buses=frozenset({"ide", "virtio", "sata"}),
        video_models=frozenset({"vga", "none"}),
        uefi=True,
        secure_boot=True,
    )


def test_firmware_without_secure_boot() -> None:
    text = "<domainCapabilities><os supported='yes'><loader supported='yes'>{}</loader></os></domainCapabilities>"
    names = ("OVMF_CODE_4M.ms.fd", "OVMF_CODE_4M.secboot.fd", "OVMF_CODE_4M.snakeoil.fd", "OVMF_CODE_4M.fd", "OVMF.fd")
    parsed = parse([text.format("".join(f"<value>/usr/share/OVMF/{name}</value>" for name in names))])
    assert parsed.loader == "/usr/share/OVMF/OVMF_CODE_4M.fd"
    assert parse([text.format("<value>/usr/share/OVMF/OVMF_CODE.secboot.fd</value>")]).loader is None


def test_encryption_of_memory() -> None:
    sev = "<cbitpos>47</cbitpos><reducedPhysBits>1</reducedPhysBits>"
    text = "<domainCapabilities><features><sev supported='{}'>{}</sev></features></domainCapabilities>"
    with_sev = text.format("yes", f"{sev}<maxGuests>15</maxGuests><maxESGuests>100</maxESGuests>")
    assert parse([PC, with_sev]).encryption == MemoryEncryption(cbitpos=47, reduced_bits=1, contexts=15)
    assert parse([text.format("yes", sev)]).encryption == MemoryEncryption(cbitpos=47, reduced_bits=1)
    assert parse([text.format("no", sev)]).encryption is None
    assert parse([text.format("yes", "")]).encryption is None


def test_host_without_q35_has_no_secure_boot() -> None:
    offer = read(Machines({None: PC}), "x86_64", "qemu", None)
    assert (offer.uefi, offer.secure_boot, offer.disk_buses) == (True, False, frozenset({"ide", "virtio"}))


def test_hypervisor_that_does_not_tell_has_every_bus_and_no_firmware() -> None:
    assert read(Machines({}, libvirt.VIR_ERR_NO_SUPPORT), "i686", "test", None) == GuestOffer()


def test_broken_connection_is_no_answer() -> None:
    with pytest.raises(libvirt.libvirtError):
        read(Machines({}, libvirt.VIR_ERR_RPC), "x86_64", "qemu", None)
