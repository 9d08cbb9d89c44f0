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
