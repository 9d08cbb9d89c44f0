"""The domain of an instance, and that no name can break out of it."""

import uuid
from typing import Any
from xml.etree import ElementTree as ET

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minova.errors import BadRequest, HardwareNotOffered, ImageUnacceptable
from minova.objects.catalogue.flavor import Flavor
from minova.objects.catalogue.guest_hardware import DISK_BUSES
from minova.objects.catalogue.image import Image
from minova.objects.catalogue.image_properties import FIELDS
from minova.objects.network.vif import NEUTRON, Vif, tap_name
from minova.objects.servers.chosen_hardware import ChosenHardware
from minova.objects.servers.instance import Instance
from minova.virt.libvirt.xml.disk_xml import Disk
from minova.virt.libvirt.xml.guest_xml import guest_xml
from minova.virt.libvirt.xml.host_settings import HostSettings
from minova.virt.libvirt.xml.mark import domain_name, mark_of
from minova.virt.libvirt.xml.system_xml import chosen_of

UUID = "0b8a5c5e-58a3-4a52-9e56-3a9a4f0f2f11"
FLAVOR = Flavor(flavorid="1", name="m1", vcpus=2, memory_mb=256, root_gb=1)
MACHINES = {"x86_64": frozenset({"pc", "q35", "pc-q35-7.2"}), "i686": frozenset({"pc"}), "aarch64": frozenset({"virt"})}
QEMU = HostSettings(host="hv1", arch="x86_64", virt_type="qemu", machines=MACHINES)


def xml_of(settings: HostSettings = QEMU, properties: dict[str, str] | None = None, **more: Any) -> ET.Element:
    image = Image(id="i", properties=properties or {})
    instance_fields: dict[str, Any] = {"uuid": UUID, "display_name": "web", "flavor": FLAVOR, "image": image}
    instance = Instance(**instance_fields | more)
    disks = (Disk(path="/d/disk", driver_format="qcow2"), Disk(path="/d/disk.swap", driver_format="raw"))
    return ET.fromstring(guest_xml(instance, settings, node="n1", attempt=3, disks=disks, console_log="/d/console.log"))


def attribute(domain: ET.Element, path: str, name: str) -> str | None:
    element = domain.find(path)
    return None if element is None else element.get(name)


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
    ("properties", "arch", "bus", "target"),
    [
        ({}, "x86_64", "ide", "hda"),
        ({"hw_machine_type": "pc-q35-7.2"}, "x86_64", "sata", "sda"),
        ({"hw_disk_bus": "ide"}, "x86_64", "ide", "hdb"),
        ({"hw_machine_type": "q35", "hw_disk_bus": "scsi"}, "x86_64", "sata", "sdb"),
        ({"hw_cdrom_bus": "scsi"}, "x86_64", "scsi", "sda"),
        ({}, "aarch64", "scsi", "sda"),
    ],
)
def test_a_config_drive_is_a_cd_that_the_machine_knows(
    properties: dict[str, str], arch: str, bus: str, target: str
) -> None:
    image = Image(id="i", properties=properties)
    instance = Instance(uuid=UUID, display_name="web", flavor=FLAVOR, image=image)
    disks = (
        Disk(path="/d/disk", driver_format="qcow2"),
        Disk(path="/d/disk.config", driver_format="raw", is_cd=True),
    )
    settings = msgspec.structs.replace(QEMU, arch=arch)
    domain = ET.fromstring(guest_xml(instance, settings, node="n1", attempt=3, disks=disks, console_log=None))
    _, drive = domain.findall("devices/disk")
    assert (drive.get("device"), attribute(drive, "driver", "type")) == ("cdrom", "raw")
    assert (attribute(drive, "target", "bus"), attribute(drive, "target", "dev")) == (bus, target)
    assert drive.find("readonly") is not None


@pytest.mark.parametrize(
    ("properties", "bus", "model"),
    [
        ({}, "scsi", "virtio-scsi"),
        ({"hw_scsi_model": "lsilogic"}, "scsi", "lsilogic"),
        ({"hw_disk_bus": "scsi"}, "scsi", None),
        ({"hw_cdrom_bus": "sata"}, "sata", None),
    ],
)
def test_the_host_chooses_the_bus_of_a_config_drive_if_the_image_does_not(
    properties: dict[str, str], bus: str, model: str | None
) -> None:
    image = Image(id="i", properties={"hw_machine_type": "q35", **properties})
    instance = Instance(uuid=UUID, display_name="web", flavor=FLAVOR, image=image)
    drive = Disk(path="/d/disk.config", driver_format="raw", is_cd=True)
    settings = msgspec.structs.replace(QEMU, cdrom_bus="scsi")
    domain = ET.fromstring(guest_xml(instance, settings, node="n1", attempt=3, disks=(drive,), console_log=None))
    assert attribute(domain, "devices/disk/target", "bus") == bus
    assert attribute(domain, "devices/controller[@type='scsi']", "model") == model


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


@pytest.mark.parametrize(
    ("settings", "properties", "ports"),
    [
        ({}, {}, None),
        ({"pcie_ports": 20}, {"hw_machine_type": "pc"}, None),
        # Two disks, the balloon, USB, and 8 more.
        ({}, {"hw_machine_type": "q35"}, 12),
        ({}, {"hw_machine_type": "pc-q35-7.2", "hw_disk_bus": "sata", "hw_qemu_guest_agent": "yes"}, 11),
        ({"pcie_ports": 3}, {"hw_machine_type": "q35"}, 3),
        ({}, {"hw_architecture": "aarch64"}, 12),
    ],
)
def test_ports_for_devices_that_are_attached_later(
    settings: dict[str, Any], properties: dict[str, str], ports: int | None
) -> None:
    domain = xml_of(msgspec.structs.replace(QEMU, **settings), properties)
    models = [each.get("model") for each in domain.findall("devices/controller[@type='pci']")]
    assert models == ([] if ports is None else ["pcie-root", *["pcie-root-port"] * ports])


CHOSEN = {"image_hw_machine_type": "pc-q35-7.2", "image_hw_firmware_type": "bios", "image_os_secure_boot": "disabled"}


@pytest.mark.parametrize(
    ("machines", "machine", "bus"),
    [
        (MACHINES, "pc-q35-7.2", "sata"),
        # Another version of QEMU has another version of the machine.
        ({"x86_64": frozenset({"pc", "q35", "pc-q35-9.0"})}, "q35", "sata"),
    ],
)
def test_bug_changed_option_gives_an_existing_guest_another_machine(
    machines: dict[str, frozenset[str]], machine: str, bus: str
) -> None:
    settings = msgspec.structs.replace(
        QEMU, machines=machines, machine_types={"x86_64": "pc"}, uefi=True, secure_boot=True
    )
    image = Image(id="i", properties={"os_secure_boot": "optional", "hw_firmware_type": "uefi"})
    instance = Instance(uuid=UUID, display_name="web", flavor=FLAVOR, image=image, system_metadata=CHOSEN)
    drive = Disk(path="/d/disk.config", driver_format="raw", is_cd=True)
    xml = guest_xml(instance, settings, node="n1", attempt=3, disks=(drive,), console_log=None)
    domain = ET.fromstring(xml)
    assert attribute(domain, "os/type", "machine") == machine
    assert attribute(domain, "devices/disk/target", "bus") == bus
    assert attribute(domain, "os", "firmware") is None
    assert attribute(domain, "os/loader", "secure") is None
    assert chosen_of(xml) == ChosenHardware(machine_type=machine)


@pytest.mark.parametrize(("properties", "machine"), [({}, "pc"), ({"hw_machine_type": "q35"}, "q35")])
@pytest.mark.parametrize("recorded", ["x", "s390-ccw-virtio-7.2", "pc' evil='1"])
def test_bug_recorded_machine_that_no_host_has(
    recorded: str, properties: dict[str, str], machine: str, caplog: pytest.LogCaptureFixture
) -> None:
    """As a stolen host reports it of its guests, so that no other host could take them."""
    settings = msgspec.structs.replace(QEMU, machine_types={"x86_64": "pc"})
    domain = xml_of(settings, properties, system_metadata=CHOSEN | {"image_hw_machine_type": recorded})
    assert attribute(domain, "os/type", "machine") == machine
    assert "that of its image is used" in caplog.text


def test_a_usual_machine_that_a_host_lacks_is_not_replaced() -> None:
    settings = msgspec.structs.replace(QEMU, machines={"x86_64": frozenset({"pc"})}, machine_types={"x86_64": "pc"})
    with pytest.raises(HardwareNotOffered):
        xml_of(settings, {}, system_metadata=CHOSEN)


@pytest.mark.parametrize("machine", ["", "x" * 65, "pc\n", "pc-q35-7.2\n", "pc' evil='1", ".."])
def test_bug_report_of_a_machine_type_that_is_any_line(machine: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"machine_type": machine}, ChosenHardware)
    assert msgspec.convert({"machine_type": "pc-q35-rhel9.4.0"}, ChosenHardware).recorded


def test_a_machine_that_an_image_names_and_the_host_lacks_is_not_replaced() -> None:
    with pytest.raises(HardwareNotOffered):
        xml_of(QEMU, {"hw_machine_type": "pc-q35-9.0"})


def test_a_guest_has_no_more_ports_than_its_machine_takes() -> None:
    vifs = tuple(
        Vif(port_id=f"{number:08x}", mac_address=f"fa:16:3e:00:00:{number:02x}", network_id="n") for number in range(28)
    )
    domain = xml_of(QEMU, {"hw_machine_type": "q35"}, network_info=vifs)
    assert len(domain.findall("devices/controller[@model='pcie-root-port']")) == 28


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
        for tag in ("os", "sysinfo", "devices", "memoryBacking", "features", "metadata", "clock"):
            for child in element.findall(tag):
                element.remove(child)
        for topology in element.findall("cpu/topology"):
            assert all(topology.attrib.pop(name).isdecimal() for name in ("sockets", "cores", "threads"))
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
def test_a_domain_that_is_not_minovas_has_no_mark(xml: str) -> None:
    assert mark_of(xml) is None


def test_the_name_of_a_domain_is_nothing_that_a_user_chose() -> None:
    assert domain_name(UUID) == f"instance-{UUID}"


def vif(**more: Any) -> Vif:
    return Vif(port_id="7d1f0c52-1111-4222", mac_address="fa:16:3e:00:00:01", network_id="n", mtu=1400, **more)


def test_an_interface_on_a_local_network_and_on_bridges() -> None:
    bridges = {"dc1": "br0", "dc1.7": "br7"}
    vifs = (
        vif(),
        vif(network_type="flat", physical_network="dc1", admin_state_up=False),
        vif(network_type="vlan", physical_network="dc1", segmentation_id=7),
    )
    domain = xml_of(msgspec.structs.replace(QEMU, bridges=bridges), {"hw_vif_model": "e1000"}, network_info=vifs)
    local, flat, vlan = domain.findall("devices/interface")
    assert ET.tostring(local, encoding="unicode").split() == [
        "<interface",
        'type="network">',
        "<mac",
        'address="fa:16:3e:00:00:01"',
        "/>",
        "<source",
        'network="minova-n"',
        "/>",
        "<target",
        'dev="tap7d1f0c52-11"',
        "/>",
        "<model",
        'type="e1000"',
        "/>",
        "<mtu",
        'size="1400"',
        "/>",
        "<filterref",
        'filter="minova-port-7d1f0c52-1111-4222"',
        "/>",
        "</interface>",
    ]
    assert [(each.get("type"), attribute(each, "source", "bridge")) for each in (flat, vlan)] == [
        ("bridge", "br0"),
        ("bridge", "br7"),
    ]
    assert (attribute(flat, "link", "state"), vlan.find("link")) == ("down", None)


@pytest.mark.parametrize(
    ("vcpus", "properties", "virt_type", "driver"),
    [
        (4, {}, "kvm", None),
        (4, {"hw_vif_multiqueue_enabled": "true"}, "kvm", {"name": "vhost", "queues": "4"}),
        (4, {"hw_vif_multiqueue_enabled": "true"}, "qemu", {"queues": "4"}),
        (12, {"hw_vif_multiqueue_enabled": "true"}, "kvm", {"name": "vhost", "queues": "8"}),
        (1, {"hw_vif_multiqueue_enabled": "true"}, "kvm", None),
        (4, {"hw_vif_multiqueue_enabled": "true", "hw_vif_model": "e1000"}, "kvm", None),
    ],
)
def test_queues(vcpus: int, properties: dict[str, str], virt_type: str, driver: dict[str, str] | None) -> None:
    settings = msgspec.structs.replace(QEMU, virt_type=virt_type, max_queues=8)
    of_guest = msgspec.structs.replace(flavor(), vcpus=vcpus)
    drivers = xml_of(settings, properties, flavor=of_guest, network_info=(vif(), vif())).findall(
        "devices/interface/driver"
    )
    assert [each.attrib for each in drivers] == ([] if driver is None else [driver] * 2)


def test_a_host_without_the_bridge_of_a_network_says_which() -> None:
    tagged = vif(network_type="vlan", physical_network="dc1", segmentation_id=7)
    with pytest.raises(HardwareNotOffered, match=r"no bridge for dc1\.7"):
        xml_of(msgspec.structs.replace(QEMU, bridges={"dc1": "br0"}), network_info=(tagged,))
    lost = msgspec.structs.replace(QEMU, bridges={"dc1.7": "br7"}, lost_bridges=frozenset({"dc1.7"}))
    with pytest.raises(HardwareNotOffered, match=r"bridge br7 of .* which carries dc1\.7, is not there"):
        xml_of(lost, network_info=(tagged,))


def test_the_test_hypervisor_has_no_interfaces() -> None:
    assert xml_of(msgspec.structs.replace(QEMU, virt_type="test"), network_info=(vif(),)).find(".//interface") is None


UEFI = msgspec.structs.replace(QEMU, uefi=True, secure_boot=True)
SCREEN = msgspec.structs.replace(QEMU, vnc_listen="127.0.0.1")


def flavor(**extra_specs: str) -> Flavor:
    """`__` in a name stands for the `:` behind its scope."""
    return msgspec.structs.replace(
        FLAVOR, extra_specs={key.replace("__", ":"): text for key, text in extra_specs.items()}
    )


def test_guest_without_properties_has_none_of_the_devices_that_images_choose() -> None:
    domain = xml_of()
    for path in (
        "devices/rng",
        "devices/watchdog",
        "devices/channel",
        "devices/video",
        "os/bootmenu",
        "os/firmware",
        "cputune",
    ):
        assert domain.find(path) is None, path
    assert domain.find(".//iotune") is None


def test_guest_agent_has_a_channel() -> None:
    channel = xml_of(properties={"hw_qemu_guest_agent": "yes"}).find("devices/channel")
    assert channel is not None
    assert (channel.get("type"), attribute(channel, "target", "type")) == ("unix", "virtio")
    assert attribute(channel, "target", "name") == "org.qemu.guest_agent.0"
    assert xml_of(properties={"hw_qemu_guest_agent": "no"}).find("devices/channel") is None


@pytest.mark.parametrize(
    ("extra_specs", "rate"),
    [
        ({}, None),
        ({"hw_rng__rate_bytes": "2048"}, {"bytes": "2048"}),
        ({"hw_rng__rate_bytes": "2048", "hw_rng__rate_period": "500"}, {"bytes": "2048", "period": "500"}),
    ],
)
def test_random_number_generator(extra_specs: dict[str, str], rate: dict[str, str] | None) -> None:
    settings = msgspec.structs.replace(QEMU, rng_device="/dev/hwrng")
    rng = xml_of(settings, {"hw_rng_model": "virtio"}, flavor=flavor(**extra_specs)).find("devices/rng")
    assert rng is not None
    assert (rng.get("model"), rng.findtext("backend")) == ("virtio", "/dev/hwrng")
    rate_element = rng.find("rate")
    assert (None if rate_element is None else rate_element.attrib) == rate


def test_flavor_may_forbid_the_random_number_generator() -> None:
    domain = xml_of(properties={"hw_rng_model": "virtio"}, flavor=flavor(hw_rng__allowed="false"))
    assert domain.find("devices/rng") is None


@pytest.mark.parametrize(
    ("of_image", "of_flavor", "action"),
    [
        (None, None, None),
        (None, "reset", "reset"),
        ("pause", "reset", "pause"),
        ("disabled", "reset", None),
        ("none", None, "none"),
    ],
)
def test_watchdog(of_image: str | None, of_flavor: str | None, action: str | None) -> None:
    properties = {"hw_watchdog_action": of_image} if of_image else {}
    domain = xml_of(properties=properties, flavor=flavor(**({"hw__watchdog_action": of_flavor} if of_flavor else {})))
    assert attribute(domain, "devices/watchdog", "action") == action
    assert attribute(domain, "devices/watchdog", "model") == (None if action is None else "i6300esb")


def test_watchdog_of_an_s390x() -> None:
    domain = xml_of(msgspec.structs.replace(QEMU, arch="s390x"), {"hw_watchdog_action": "reset"})
    assert attribute(domain, "devices/watchdog", "model") == "diag288"


@pytest.mark.parametrize(
    ("settings", "properties", "model"),
    [
        (SCREEN, {}, "virtio"),
        (SCREEN, {"hw_video_model": "vga"}, "vga"),
        (SCREEN, {"hw_video_model": "none"}, "none"),
        (QEMU, {"hw_video_model": "cirrus"}, "cirrus"),
        (QEMU, {"hw_video_model": "none"}, None),
    ],
)
def test_video_model(settings: HostSettings, properties: dict[str, str], model: str | None) -> None:
    assert attribute(xml_of(settings, properties), "devices/video/model", "type") == model


def test_video_memory_within_the_flavors_limit() -> None:
    properties = {"hw_video_ram": "16", "hw_video_model": "vga"}
    domain = xml_of(SCREEN, properties, flavor=flavor(hw_video__ram_max_mb="16"))
    assert attribute(domain, "devices/video/model", "vram") == "16384"
    with pytest.raises(ImageUnacceptable, match=r"hw_video_ram: '16' is not valid: the flavor allows 0 to 8 MB"):
        xml_of(SCREEN, properties, flavor=flavor(hw_video__ram_max_mb="8"))


@pytest.mark.parametrize(
    ("properties", "extra_specs", "shown"),
    [
        ({"hw_boot_menu": "yes"}, {}, "yes"),
        ({}, {"hw__boot_menu": "true"}, "yes"),
        ({"hw_boot_menu": "no"}, {"hw__boot_menu": "true"}, None),
    ],
)
def test_boot_menu(properties: dict[str, str], extra_specs: dict[str, str], shown: str | None) -> None:
    assert attribute(xml_of(properties=properties, flavor=flavor(**extra_specs)), "os/bootmenu", "enable") == shown


def test_cpu_limits() -> None:
    domain = xml_of(flavor=flavor(quota__cpu_shares="512", quota__cpu_period="20000", quota__cpu_quota="-1"))
    tuning = domain.findall("cputune")
    assert [{child.tag: child.text for child in each} for each in tuning] == [
        {"shares": "512", "period": "20000", "quota": "-1"}
    ]


def test_disk_limits_of_each_disk() -> None:
    domain = xml_of(flavor=flavor(quota__disk_read_bytes_sec="1048576", quota__disk_total_iops_sec="100"))
    for disk in domain.findall("devices/disk"):
        tuning = disk.find("iotune")
        assert tuning is not None
        assert {child.tag: child.text for child in tuning} == {"read_bytes_sec": "1048576", "total_iops_sec": "100"}


def test_interface_limits() -> None:
    limited = flavor(quota__vif_inbound_average="100", quota__vif_inbound_peak="200", quota__vif_outbound_average="50")
    bandwidth = xml_of(flavor=limited, network_info=(vif(),)).find("devices/interface/bandwidth")
    assert bandwidth is not None
    assert {way.tag: way.attrib for way in bandwidth} == {
        "inbound": {"average": "100", "peak": "200"},
        "outbound": {"average": "50"},
    }


@pytest.mark.parametrize(
    ("properties", "disks", "order"),
    [
        ({"hw_firmware_type": "uefi"}, ("disk", "disk.config"), {"disk": "1", "disk.config": "2"}),
        ({"hw_firmware_type": "uefi"}, ("disk", "disk.eph0"), {"disk": "1", "disk.eph0": "2"}),
        (
            {"hw_firmware_type": "uefi"},
            ("disk", "disk.rescue", "disk.config"),
            {"disk.rescue": "1", "disk.config": "2"},
        ),
        (
            {"hw_firmware_type": "uefi", "hw_disk_bus": "ide"},
            ("disk", "disk.eph0", "disk.swap", "disk.config"),
            {"disk": "1", "disk.swap": "2"},
        ),
        # The firmware turns this channel on for the root disk, and other controllers need no firmware.
        ({"hw_firmware_type": "uefi", "hw_disk_bus": "ide"}, ("disk", "disk.config"), {}),
        ({"hw_firmware_type": "uefi", "hw_machine_type": "q35"}, ("disk", "disk.config"), {}),
        ({"hw_firmware_type": "bios"}, ("disk", "disk.config"), {}),
        ({"hw_firmware_type": "bios"}, ("disk", "disk.rescue", "disk.config"), {"disk.rescue": "1"}),
    ],
)
def test_bug_uefi_left_the_controller_of_the_config_drive_off(
    properties: dict[str, str], disks: tuple[str, ...], order: dict[str, str]
) -> None:
    instance = Instance(uuid=UUID, display_name="web", flavor=FLAVOR, image=Image(id="i", properties=properties))
    forms: dict[str, dict[str, Any]] = {
        "disk.config": {"is_cd": True},
        "disk.eph0": {"bus": "ide"},
        "disk.rescue": {"boots": True},
    }
    given = [Disk(path=f"/d/{name}", driver_format="raw", **forms.get(name, {})) for name in disks]
    domain = ET.fromstring(guest_xml(instance, UEFI, node="n1", attempt=3, disks=given, console_log=None))
    found = zip(disks, domain.findall("devices/disk"), strict=True)
    assert {name: boot.get("order") for name, disk in found if (boot := disk.find("boot")) is not None} == order
    # libvirt takes one of them: an order of devices, or a kind of device.
    assert len(domain.findall("os/boot")) == (0 if order else 1)


def test_uefi_guest_without_secure_boot() -> None:
    domain = xml_of(UEFI, {"hw_firmware_type": "uefi"})
    assert attribute(domain, "os", "firmware") == "efi"
    assert {each.get("name"): each.get("enabled") for each in domain.findall("os/firmware/feature")} == {
        "secure-boot": "no",
        "enrolled-keys": "no",
    }
    assert domain.find("os/loader") is None
    assert domain.find("features/smm") is None


@pytest.mark.parametrize(
    ("settings", "wish", "secure"),
    [
        (UEFI, "required", True),
        (UEFI, "optional", True),
        (msgspec.structs.replace(UEFI, secure_boot=False), "optional", False),
    ],
)
def test_secure_boot(settings: HostSettings, wish: str, secure: bool) -> None:
    domain = xml_of(settings, {"hw_firmware_type": "uefi", "os_secure_boot": wish})
    assert attribute(domain, "os/loader", "secure") == ("yes" if secure else None)
    assert attribute(domain, "features/smm", "state") == ("on" if secure else None)
    assert attribute(domain, "os/type", "machine") == ("q35" if secure else None)


@pytest.mark.parametrize(
    ("settings", "properties", "words"),
    [
        (QEMU, {"hw_firmware_type": "uefi"}, "hw_firmware_type uefi of the image: this host has no UEFI firmware"),
        (UEFI, {"hw_firmware_type": "uefi", "hw_architecture": "i686"}, "no UEFI firmware for i686"),
        (
            msgspec.structs.replace(UEFI, secure_boot=False),
            {"hw_firmware_type": "uefi", "os_secure_boot": "required"},
            "os_secure_boot: this host has no firmware with secure boot",
        ),
    ],
)
def test_host_without_the_firmware_says_so(settings: HostSettings, properties: dict[str, str], words: str) -> None:
    with pytest.raises(HardwareNotOffered, match=words):
        xml_of(settings, properties)


def test_disk_may_have_a_bus_of_its_own() -> None:
    instance = Instance(uuid=UUID, display_name="web", flavor=FLAVOR, image=Image(id="i"))
    disks = (Disk(path="/d/disk", driver_format="raw"), Disk(path="/d/disk.eph0", driver_format="raw", bus="scsi"))
    domain = ET.fromstring(guest_xml(instance, QEMU, node="n1", attempt=3, disks=disks, console_log=None))
    assert [attribute(each, "target", "dev") for each in domain.findall("devices/disk")] == ["vda", "sda"]


@pytest.mark.parametrize(
    "extra_specs",
    [
        {"hw__watchdog_action": "explode"},
        {"hw_rng__rate_bytes": "many"},
        {"quota__cpu_shares": "-5"},
        {"os__secure_boot": "perhaps"},
    ],
)
def test_extra_spec_that_cannot_be_is_refused_with_its_key(extra_specs: dict[str, str]) -> None:
    key = next(iter(extra_specs)).replace("__", ":")
    with pytest.raises(ImageUnacceptable, match=f"Flavor extra spec {key}: "):
        xml_of(flavor=flavor(**extra_specs))


def test_scsi_controller_of_the_images_model() -> None:
    domain = xml_of(properties={"hw_disk_bus": "scsi", "hw_scsi_model": "virtio-scsi"})
    assert attribute(domain, "devices/controller", "model") == "virtio-scsi"
    assert xml_of(properties={"hw_scsi_model": "virtio-scsi"}).find("devices/controller") is None


def of_neutron(vif_type: str, **details: Any) -> Vif:
    return vif(network_type=NEUTRON, vif_type=vif_type, vif_details=details)


def test_interfaces_on_networks_of_neutron() -> None:
    """Neutron's agents filter them, so they have no filter of minova's."""
    vifs = (of_neutron("ovs", bridge_name="br-int"), of_neutron("bridge"), of_neutron("tap"))
    ovs, bridge, tap = xml_of(QEMU, {}, network_info=vifs).findall("devices/interface")
    assert [each.get("type") for each in (ovs, bridge, tap)] == ["bridge", "bridge", "ethernet"]
    assert ovs.find("source").attrib == {"bridge": "br-int"}  # type: ignore[union-attr]
    port = ovs.find("virtualport")
    assert port is not None
    assert port.get("type") == "openvswitch"
    assert port.find("parameters").attrib == {"interfaceid": vifs[0].port_id}  # type: ignore[union-attr]
    assert bridge.find("source").get("bridge") == f"brq{vifs[1].network_id[:11]}"  # type: ignore[union-attr]
    assert tap.find("source") is None
    assert all(each.find("filterref") is None for each in (ovs, bridge, tap))
    assert {each.find("target").get("dev") for each in (ovs, bridge, tap)} == {tap_name(vifs[0].port_id)}  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (of_neutron("hw_veb"), "Neutron has bound it as hw_veb"),
        (of_neutron("ovs", ovs_hybrid_plug=True), "hybrid plug"),
    ],
)
def test_bindings_that_cannot_be_plugged_are_refused(made: Vif, reason: str) -> None:
    with pytest.raises(HardwareNotOffered, match=reason):
        xml_of(QEMU, {}, network_info=(made,))
