"""The domain of an instance, and that no name can break out of it."""

import uuid
from typing import Any
from xml.etree import ElementTree as ET

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minova.errors import BadRequest, HardwareNotOffered, ImageUnacceptable
from minova.objects.flavor import Flavor
from minova.objects.guest_hardware import DISK_BUSES
from minova.objects.image import Image
from minova.objects.image_properties import FIELDS
from minova.objects.instance import Instance
from minova.virt.libvirt.guest_xml import Disk, HostSettings, domain_name, guest_xml, mark_of

UUID = "0b8a5c5e-58a3-4a52-9e56-3a9a4f0f2f11"
FLAVOR = Flavor(flavorid="1", name="m1", vcpus=2, memory_mb=256, root_gb=1)
MACHINES = {"x86_64": frozenset({"pc", "q35", "pc-q35-7.2"}), "i686": frozenset({"pc"}), "aarch64": frozenset({"virt"})}
QEMU = HostSettings(host="hv1", arch="x86_64", virt_type="qemu", machines=MACHINES)


def xml_of(settings: HostSettings = QEMU, properties: dict[str, str] | None = None, **more: Any) -> ET.Element:
    image = Image(id="i", properties=properties or {})
    known: dict[str, Any] = {"uuid": UUID, "display_name": "web", "flavor": FLAVOR, "image": image}
    instance = Instance(**known | more)
    disks = (Disk(path="/d/disk", driver_format="qcow2"), Disk(path="/d/disk.swap", driver_format="raw"))
    return ET.fromstring(guest_xml(instance, settings, node="n1", attempt=3, disks=disks, console_log="/d/console.log"))


def attribute(domain: ET.Element, path: str, name: str) -> str | None:
    found = domain.find(path)
    return None if found is None else found.get(name)


def test_size_name_and_identity_of_a_guest() -> None:
    domain = xml_of()
    assert domain.get("type") == "qemu"
    assert domain.findtext("name") == f"instance-{UUID}"
    assert domain.findtext("uuid") == UUID
    assert domain.findtext("memory") == str(256 * 1024)
    assert domain.findtext("vcpu") == "2"
    entries = {entry.get("name"): entry.text for entry in domain.findall("sysinfo/system/entry")}
    assert entries["serial"] == entries["uuid"] == UUID
    assert attribute(domain, "os/smbios", "mode") == "sysinfo"


def test_a_serial_console_into_a_log_and_no_screen() -> None:
    domain = xml_of()
    assert attribute(domain, "devices/serial/log", "file") == "/d/console.log"
    assert domain.find("devices/graphics") is None
    assert domain.find("devices/interface") is None


def test_a_vnc_screen_where_it_was_asked_for() -> None:
    domain = xml_of(msgspec.structs.replace(QEMU, vnc_listen="127.0.0.1"))
    assert attribute(domain, "devices/graphics", "type") == "vnc"
    assert attribute(domain, "devices/graphics/listen", "address") == "127.0.0.1"


def test_disks_name_their_format_so_that_qemu_need_not_guess() -> None:
    disks = xml_of().findall("devices/disk")
    assert [attribute(disk, "driver", "type") for disk in disks] == ["qcow2", "raw"]
    assert [attribute(disk, "target", "dev") for disk in disks] == ["vda", "vdb"]


@pytest.mark.parametrize(
    ("settings", "mode", "model"),
    [
        ({"virt_type": "kvm"}, "host-model", None),
        ({"virt_type": "qemu"}, "host-model", None),
        ({"cpu_mode": "none"}, None, None),
        ({"cpu_mode": "host-passthrough", "virt_type": "kvm"}, "host-passthrough", None),
        ({"cpu_mode": "custom", "cpu_models": ("Nehalem",)}, "custom", "Nehalem"),
    ],
)
def test_the_cpu_of_a_guest(settings: dict[str, Any], mode: str | None, model: str | None) -> None:
    domain = xml_of(msgspec.structs.replace(QEMU, **settings))
    assert attribute(domain, "cpu", "mode") == mode
    assert domain.findtext("cpu/model") == model
    assert attribute(domain, "cpu/topology", "sockets") == "2"


@pytest.mark.parametrize(
    ("machine_types", "properties", "machine"),
    [
        ({}, {}, None),
        ({"x86_64": "q35"}, {}, "q35"),
        ({"aarch64": "virt"}, {}, None),
        ({"x86_64": "q35"}, {"hw_machine_type": "pc"}, "pc"),
        ({"aarch64": "virt"}, {"hw_architecture": "aarch64"}, "virt"),
        ({}, {"architecture": "amd64", "hw_machine_type": "pc-q35-7.2"}, "pc-q35-7.2"),
    ],
)
def test_the_machine_type(machine_types: dict[str, str], properties: dict[str, str], machine: str | None) -> None:
    domain = xml_of(msgspec.structs.replace(QEMU, machine_types=machine_types), properties)
    assert attribute(domain, "os/type", "machine") == machine


def test_guests_keep_to_the_pinned_cpus() -> None:
    domain = xml_of(msgspec.structs.replace(QEMU, pinned=frozenset({0, 1, 2, 8})))
    assert attribute(domain, "vcpu", "cpuset") == "0-2,8"


def test_the_disk_bus() -> None:
    assert attribute(xml_of(properties={"hw_disk_bus": "ide"}), "devices/disk/target", "bus") == "ide"


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"hw_disk_bus": "floppy"}, "hw_disk_bus: 'floppy'"),
        ({"hw_disk_bus": "xen"}, "hw_disk_bus: 'xen'"),
        ({"hw_architecture": "x86_64'/>"}, "hw_architecture: "),
        ({"hw_machine_type": "q35' evil='1"}, "hw_machine_type: "),
        ({"hw_machine_type": "x" * 65}, "hw_machine_type: "),
        ({"hw_locked_memory": "yes", "hw_serial_port_count": "many"}, "hw_serial_port_count: 'many'"),
    ],
)
def test_a_property_that_cannot_be_is_the_images_fault(properties: dict[str, str], words: str) -> None:
    with pytest.raises(ImageUnacceptable, match=words):
        xml_of(properties=properties)


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"hw_machine_type": "pc-q35-99.0"}, "hw_machine_type pc-q35-99.0 of the image: this host has no such machine"),
        ({"hw_machine_type": "virt"}, "no such machine for x86_64"),
        ({"hw_architecture": "i686", "hw_machine_type": "q35"}, "no such machine for i686"),
        ({"hw_architecture": "s390x"}, "hw_architecture s390x of the image: this host runs no such guests"),
    ],
)
def test_what_this_host_does_not_offer_another_may(properties: dict[str, str], words: str) -> None:
    with pytest.raises(HardwareNotOffered, match=words):
        xml_of(properties=properties)


VALUES = st.one_of(
    st.sampled_from(["q35", "pc", "ide", "virtio", "x86_64", "i686", "yes", "usb", "1"]), st.text(max_size=20)
)


@given(st.dictionaries(st.sampled_from(sorted(FIELDS)), VALUES, max_size=4))
def test_no_property_brings_a_word_of_its_own_into_the_domain(properties: dict[str, str]) -> None:
    try:
        domain = xml_of(properties=properties)
    except (ImageUnacceptable, HardwareNotOffered, BadRequest):
        return
    kind = domain.find("os/type")
    assert kind is not None
    assert kind.get("arch") in MACHINES
    assert kind.get("machine") in {None, *MACHINES[kind.attrib["arch"]]}
    assert {attribute(disk, "target", "bus") for disk in domain.findall("devices/disk")} <= {*DISK_BUSES}
    # Beyond these, the domain is the same as without any property.
    kind.attrib.pop("machine", None)
    plain = xml_of()
    for element in (domain, plain):
        for tag in ("os", "sysinfo", "devices", "memoryBacking", "features", "metadata"):
            for child in element.findall(tag):
                element.remove(child)
    assert ET.tostring(domain).split() == ET.tostring(plain).split()


def test_the_test_hypervisor_has_no_devices_that_it_does_not_know() -> None:
    domain = xml_of(HostSettings(host="h", arch="i686", virt_type="test"))
    assert domain.find("cpu") is None
    assert domain.find("devices/serial") is None


@pytest.mark.parametrize(
    "name",
    [
        "x" * 300,
        "</name><devices/>",
        "]]>&amp;<!-- --><?x?>",
        "\x00\x01\x1f\r\n\t",
        "\ud800\uffff",
        "\U0001f600 ünïcode",
        "' or \" or both",
    ],
)
def test_a_hostile_name_stands_in_the_metadata_alone(name: str) -> None:
    domain = xml_of(display_name=name, metadata={name: name}, properties={})
    plain = xml_of()
    for element in (domain, plain):
        metadata = element.find("metadata")
        assert metadata is not None
        element.remove(metadata)
    assert ET.tostring(domain) == ET.tostring(plain)


TEXT = st.text(st.characters(exclude_categories=()), max_size=40)


@given(TEXT, st.dictionaries(TEXT, TEXT, max_size=3), TEXT, TEXT, st.integers(0, 10**6))
def test_any_name_and_metadata_come_back_as_they_were(
    name: str, metadata: dict[str, str], project: str, flavor: str, attempt: int
) -> None:
    instance = Instance(
        uuid=str(uuid.UUID(int=attempt)),
        display_name=name,
        metadata=metadata,
        project_id=project,
        flavor=msgspec.structs.replace(FLAVOR, name=flavor),
    )
    mark = mark_of(guest_xml(instance, QEMU, node="n", attempt=attempt, disks=(), console_log=None))
    assert mark is not None
    assert (mark.uuid, mark.attempt, mark.host, mark.node) == (instance.uuid, attempt, "hv1", "n")
    assert (mark.display_name, mark.metadata, mark.project_id, mark.flavor) == (name, metadata, project, flavor)


@pytest.mark.parametrize(
    "xml",
    [
        "<domain><name>x</name></domain>",
        "<domain><metadata><other xmlns='urn:x'/></metadata></domain>",
        "<instance><attempt>one</attempt></instance>",
        '<instance><attempt>"1"</attempt></instance>',
        "<instance/>",
    ],
)
def test_a_domain_of_somebody_else_has_no_mark(xml: str) -> None:
    assert mark_of(xml) is None


def test_the_name_of_a_domain_is_nothing_that_a_user_chose() -> None:
    assert domain_name(UUID) == f"instance-{UUID}"
