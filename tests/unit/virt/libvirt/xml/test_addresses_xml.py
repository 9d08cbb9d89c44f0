"""Interfaces and disks keep their PCI addresses when their domain is defined anew."""

import pytest

from minova.objects.servers.disk_export import PciAddresses
from minova.virt.libvirt.xml.addresses_xml import learnt, with_addresses

FIRST, SECOND = "fa:16:3e:00:00:01", "fa:16:3e:00:00:02"


def domain(devices: dict[str, int | None], machine: str = "pc-q35-7.2", bus: str = "virtio") -> str:
    """`devices`: buses of the addresses, by the names of files and by MAC addresses; None: no address."""
    elements = ""
    for name, number in devices.items():
        address = "" if number is None else f"<address type='pci' domain='0' bus='{number:#x}' slot='0' function='0'/>"
        if ":" in name:
            elements += f"<interface type='bridge'><mac address='{name}'/>{address}</interface>"
        else:
            elements += f"<disk><source file='/i/u/{name}'/><target dev='vda' bus='{bus}'/>{address}</disk>"
    return f"<domain><os><type machine='{machine}'>hvm</type></os><devices>{elements}</devices></domain>"


def known(machine: str = "q35", **numbers: int) -> PciAddresses:
    names = {"first": FIRST, "second": SECOND, "root": "disk", "swap": "disk.swap"}
    return PciAddresses(machine=machine, devices={names[name]: f"0000:{bus:02x}:00.0" for name, bus in numbers.items()})


def test_an_interface_that_was_attached_later_keeps_its_address() -> None:
    after = learnt(None, domain({"disk": 4, FIRST: 1, SECOND: 9}), runs=True)
    assert after == known(root=4, first=1, second=9)
    anew = with_addresses(domain({"disk": None, FIRST: None, SECOND: None}, "q35"), after)
    assert learnt(None, anew, runs=True) == after


@pytest.mark.parametrize(
    ("before", "devices", "runs", "after"),
    [
        # What the guest has now counts; what libvirt means to give it at the next start does not.
        (known(first=1), {FIRST: 2}, True, known(first=2)),
        (known(first=1), {FIRST: 2}, False, known(first=1)),
        # No address belongs to two devices.
        (known(first=1), {FIRST: None, SECOND: 1}, False, known(first=1)),
        (known(root=1, swap=3), {"disk": 3}, True, known(root=3)),
        # A detached interface is forgotten. The disks of a rescued guest stand elsewhere.
        (known(first=1, second=9), {FIRST: 1}, True, known(first=1)),
        (known(root=4, first=1), {"disk.rescue": 4, "disk": 5, FIRST: 1}, True, known(root=4, first=1)),
        # During a snapshot another file stands before the root disk.
        (known(root=4), {"snapshot.overlay": 4}, True, known(root=4)),
        (known("pc", first=1), {FIRST: 2}, False, known(first=2)),
        (None, {FIRST: None}, True, None),
    ],
)
def test_what_is_learnt_of_a_domain(
    before: PciAddresses | None, devices: dict[str, int | None], runs: bool, after: PciAddresses | None
) -> None:
    assert learnt(before, domain(devices), runs=runs) == after


@pytest.mark.parametrize(
    ("xml", "addresses"),
    [
        (domain({FIRST: None}), None),
        (domain({FIRST: None}, "pc-i440fx-7.2"), known(first=1)),
        (domain({FIRST: None}), known(second=1)),
        (domain({"disk": None}, bus="scsi"), known(root=1)),
        (domain({"disk.rescue": None, "disk": None}), known(root=1)),
        (domain({FIRST: 2}), known(first=1)),
    ],
)
def test_a_domain_that_cannot_have_the_addresses_is_left_as_it_is(xml: str, addresses: PciAddresses | None) -> None:
    assert with_addresses(xml, addresses) == xml


def test_a_rescue_disk_behind_the_others_changes_no_address() -> None:
    xml = with_addresses(domain({"disk": None, "disk.rescue": None}), known(root=4))
    assert learnt(None, xml.replace("disk.rescue", "cd"), runs=True) == known(root=4)
