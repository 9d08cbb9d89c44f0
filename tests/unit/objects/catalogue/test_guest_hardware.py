"""The properties of an image that choose a guest's hardware."""

import pytest

from minova.errors import BadRequest
from minova.objects.catalogue.guest_hardware import (
    DISK_BUSES,
    GuestHardware,
    InvalidExtraSpec,
    Rng,
    guest_hardware,
    traits_needed,
)
from minova.objects.catalogue.image_properties import DISK_BUSES as NOVAS_BUSES
from minova.objects.catalogue.image_properties import InvalidImageProperty

CASES = [
    ({}, GuestHardware()),
    ({"hw_disk_bus": "", "hw_machine_type": ""}, None),
    ({"hw_machine_type": ""}, GuestHardware()),
    ({"hw_disk_bus": "scsi"}, GuestHardware(disk_bus="scsi")),
    ({"vmware_adaptertype": "ide"}, GuestHardware(disk_bus="ide")),
    ({"architecture": "AMD64"}, GuestHardware(arch="x86_64")),
    ({"hw_architecture": "i386"}, GuestHardware(arch="i686")),
    ({"hw_machine_type": "s390-ccw-virtio"}, GuestHardware(machine_type="s390-ccw-virtio")),
    ({"hw_machine_type": "pc-i440fx-7.2"}, GuestHardware(machine_type="pc-i440fx-7.2")),
    ({"colour": "</domain>"}, GuestHardware()),
    ({"hw_disk_bus": "VIRTIO"}, None),
    ({"hw_disk_bus": "lxc"}, None),
    ({"hw_machine_type": "-q35"}, None),
    ({"hw_machine_type": "q35,accel=tcg"}, None),
    ({"hw_machine_type": "q35\n"}, None),
    ({"hw_machine_type": "q\u0663\u0665"}, None),
    ({"hw_machine_type": "m" * 65}, None),
    ({"hw_architecture": "pdp11"}, None),
    ({"hw_video_model": "riva128"}, None),
    ({"hw_serial_port_count": "x"}, None),
    ({"hw_numa_nodes": "9" * 21}, None),
    ({"hw_cpu_cores": "9" * 5000}, None),
    ({"hw_watchdog_action": "explode"}, None),
    ({"hw_firmware_type": "openfirmware"}, None),
    ({"hw_rng_model": "dice"}, None),
    ({"hw_scsi_model": "floppy"}, None),
    ({"hw_input_bus": "ps2"}, None),
    ({"hw_pointer_model": "mouse"}, None),
    ({"hw_cdrom_bus": "sd"}, None),
    ({"hw_cdrom_bus": "virtio"}, None),
    ({"hw_cdrom_bus": "sata"}, GuestHardware(cdrom_bus="sata")),
    ({"hw_vif_model": "ne3k"}, None),
    ({"hw_rng_model": "virtio"}, GuestHardware(rng=Rng())),
    ({"hw_firmware_type": "uefi"}, GuestHardware(uefi=True)),
    ({"hw_firmware_type": "bios"}, GuestHardware()),
    ({"hw_qemu_guest_agent": "yes", "hw_boot_menu": "true"}, GuestHardware(guest_agent=True, boot_menu=True)),
    ({"hw_video_model": "cirrus"}, GuestHardware(video_model="cirrus")),
    ({"hw_video_ram": "1"}, None),
    ({"hw_disk_bus": "ide", "hw_machine_type": "pc-q35-7.2"}, None),
    ({"hw_cdrom_bus": "ide", "hw_machine_type": "q35"}, None),
    ({"hw_machine_type": "pc", "hw_firmware_type": "uefi", "os_secure_boot": "required"}, None),
]
CONTRADICTIONS = [
    ({"os_secure_boot": "required"}, {}, "the image must have hw_firmware_type=uefi"),
    ({"hw_firmware_type": "uefi", "os_secure_boot": "disabled"}, {"os:secure_boot": "required"}, "os_secure_boot"),
    ({}, {"os:secure_boot": "perhaps"}, "Flavor extra spec os:secure_boot: 'perhaps'"),
    ({}, {"hw:watchdog_action": "x"}, "Flavor extra spec hw:watchdog_action: 'x'"),
    ({}, {"hw_rng:rate_bytes": "-1"}, "Flavor extra spec hw_rng:rate_bytes: '-1'"),
    ({}, {"hw_video:ram_max_mb": "9" * 5000}, "Flavor extra spec hw_video:ram_max_mb: '9"),
]
TRAITS = [
    ({}, set()),
    ({"hw_disk_bus": "virtio", "hw_vif_model": "virtio"}, set()),
    ({"hw_disk_bus": "scsi", "hw_cdrom_bus": "sata"}, {"COMPUTE_STORAGE_BUS_SCSI", "COMPUTE_STORAGE_BUS_SATA"}),
    ({"hw_vif_model": "ne2k_pci"}, {"COMPUTE_NET_VIF_MODEL_NE2K_PCI"}),
    ({"hw_video_model": "xen"}, {"COMPUTE_GRAPHICS_MODEL_XEN"}),
    ({"hw_firmware_type": "uefi"}, {"COMPUTE_FIRMWARE_UEFI"}),
    ({"hw_firmware_type": "uefi", "os_secure_boot": "optional"}, {"COMPUTE_FIRMWARE_UEFI"}),
    (
        {"hw_firmware_type": "uefi", "os_secure_boot": "required"},
        {"COMPUTE_FIRMWARE_UEFI", "COMPUTE_SECURITY_UEFI_SECURE_BOOT"},
    ),
]


@pytest.mark.parametrize(("properties", "wanted"), CASES)
def test_each_value_is_known_or_refused(properties: dict[str, str], wanted: GuestHardware | None) -> None:
    if wanted is not None:
        assert guest_hardware(properties) == wanted
        return
    name = next(iter(properties))
    with pytest.raises(InvalidImageProperty, match=f"Image property {name}: "):
        guest_hardware(properties)


@pytest.mark.parametrize(("properties", "extra_specs", "words"), CONTRADICTIONS)
def test_what_image_and_flavor_cannot_have_together(
    properties: dict[str, str], extra_specs: dict[str, str], words: str
) -> None:
    with pytest.raises(BadRequest, match=words) as caught:
        guest_hardware(properties, extra_specs)
    assert len(str(caught.value)) < 500


def test_extra_spec_that_cannot_be_has_an_error_of_its_own() -> None:
    with pytest.raises(InvalidExtraSpec):
        guest_hardware({}, {"hw:watchdog_action": "bark"})


@pytest.mark.parametrize(("properties", "traits"), TRAITS)
def test_traits_of_a_host_that_can_serve_the_image(properties: dict[str, str], traits: set[str]) -> None:
    assert traits_needed(guest_hardware(properties)) == traits


def test_each_bus_is_one_of_novas() -> None:
    assert set(DISK_BUSES) <= set(NOVAS_BUSES.split())


def test_refusal_repeats_no_more_than_the_beginning_of_a_value() -> None:
    with pytest.raises(InvalidImageProperty) as caught:
        guest_hardware({"hw_disk_bus": "x" * 10**6})
    assert len(str(caught.value)) < 500


HARDWARE = [
    ({}, {"hw:boot_menu": "true"}, GuestHardware(boot_menu=True)),
    ({"hw_boot_menu": "false"}, {"hw:boot_menu": "true"}, GuestHardware()),
    ({}, {"hw:watchdog_action": "reset"}, GuestHardware(watchdog_action="reset")),
    ({"hw_watchdog_action": "pause"}, {"hw:watchdog_action": "reset"}, GuestHardware(watchdog_action="pause")),
    ({"hw_watchdog_action": "disabled"}, {"hw:watchdog_action": "reset"}, GuestHardware()),
    ({"hw_rng_model": "virtio"}, {"hw_rng:allowed": "false"}, GuestHardware()),
    ({}, {"hw_rng:rate_bytes": "5"}, GuestHardware()),
    (
        {"hw_rng_model": "virtio"},
        {"hw_rng:rate_bytes": "9999999999", "hw_rng:rate_period": "7"},
        GuestHardware(rng=Rng(rate_bytes=9999999999, rate_period=7)),
    ),
    ({"hw_rng_model": "virtio"}, {"hw_rng:rate_period": "0"}, GuestHardware(rng=Rng())),
    ({"hw_video_ram": "64"}, {"hw_video:ram_max_mb": "64"}, GuestHardware(video_ram_mb=64)),
    ({"hw_video_ram": "0"}, {}, GuestHardware()),
    (
        {"hw_firmware_type": "uefi"},
        {"os:secure_boot": "required"},
        GuestHardware(uefi=True, secure_boot="required"),
    ),
    ({"os_secure_boot": "optional"}, {}, GuestHardware(secure_boot="optional")),
    ({"os_secure_boot": "disabled"}, {"os:secure_boot": "disabled"}, GuestHardware()),
    (
        {"hw_firmware_type": "uefi", "os_secure_boot": "required", "hw_machine_type": "pc-q35-7.2"},
        {},
        GuestHardware(uefi=True, secure_boot="required", machine_type="pc-q35-7.2"),
    ),
    ({"hw_disk_bus": "ide", "hw_machine_type": "pc"}, {}, GuestHardware(disk_bus="ide", machine_type="pc")),
    ({"hw_disk_bus": "ide", "hw_cdrom_bus": "ide"}, {}, GuestHardware(disk_bus="ide", cdrom_bus="ide")),
    (
        {"hw_disk_bus": "ide", "hw_firmware_type": "uefi", "os_secure_boot": "optional"},
        {},
        GuestHardware(disk_bus="ide", uefi=True, secure_boot="optional"),
    ),
    ({"hw_scsi_model": "virtio-scsi"}, {}, GuestHardware(scsi_model="virtio-scsi")),
    (
        {"hw_scsi_model": "ibmvscsi", "hw_architecture": "ppc64le"},
        {},
        GuestHardware(arch="ppc64le", scsi_model="ibmvscsi"),
    ),
]


@pytest.mark.parametrize(("properties", "extra_specs", "hardware"), HARDWARE)
def test_image_and_flavor_choose_together(
    properties: dict[str, str], extra_specs: dict[str, str], hardware: GuestHardware
) -> None:
    assert guest_hardware(properties, extra_specs) == hardware


@pytest.mark.parametrize(
    ("properties", "extra_specs", "why"),
    [
        ({"hw_video_ram": "65"}, {"hw_video:ram_max_mb": "64"}, "the flavor allows 0 to 64 MB"),
        ({"hw_video_ram": "-1"}, {"hw_video:ram_max_mb": "64"}, "the flavor allows 0 to 64 MB"),
        (
            {"hw_scsi_model": "ibmvscsi"},
            {},
            "Image property hw_scsi_model: 'ibmvscsi' is not valid: known are lsilogic",
        ),
        ({"hw_machine_type": "isapc"}, {}, "disks and interfaces need a machine with PCI"),
        ({"hw_machine_type": "microvm-9"}, {}, "disks and interfaces need a machine with PCI"),
        (
            {"hw_disk_bus": "ide", "hw_firmware_type": "uefi", "os_secure_boot": "required"},
            {},
            "secure boot is required, which only machine q35 has, and that has no IDE",
        ),
        (
            {"hw_firmware_type": "uefi", "os_secure_boot": "required", "hw_machine_type": "virt"},
            {},
            "secure boot is required, which only machine q35 has",
        ),
        ({}, {"hw_rng:rate_bytes": "9" * 11}, "it must be a number from 0 up"),
        ({}, {"hw_rng:rate_bytes": "x" * 300}, f"hw_rng:rate_bytes: '{'x' * 255}' is"),
        ({}, {"os:secure_boot": "x" * 300}, f"os:secure_boot: '{'x' * 255}' is"),
        ({}, {"hw:watchdog_action": "x" * 300}, f"hw:watchdog_action: '{'x' * 255}' is"),
        ({"hw_machine_type": "-" * 99}, {}, f"hw_machine_type: '{'-' * 64}' is"),
        ({"os_secure_boot": "required"}, {"os:secure_boot": "disabled"}, "the flavor says os:secure_boot=disabled"),
    ],
)
def test_hardware_that_no_host_gives_is_refused(
    properties: dict[str, str], extra_specs: dict[str, str], why: str
) -> None:
    with pytest.raises(BadRequest) as refused:
        guest_hardware(properties, extra_specs)
    assert why in str(refused.value)
