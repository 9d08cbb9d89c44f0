"""The properties of an image that choose a guest's hardware."""

import pytest

from minova.objects.guest_hardware import DISK_BUSES, GuestHardware, guest_hardware
from minova.objects.image_properties import DISK_BUSES as NOVAS_BUSES
from minova.objects.image_properties import InvalidImageProperty

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
    ({"hw_vif_model": "ne3k"}, None),
]


@pytest.mark.parametrize(("properties", "wanted"), CASES)
def test_each_value_is_known_or_refused(properties: dict[str, str], wanted: GuestHardware | None) -> None:
    if wanted is not None:
        assert guest_hardware(properties) == wanted
        return
    name = next(iter(properties))
    with pytest.raises(InvalidImageProperty, match=f"Image property {name}: "):
        guest_hardware(properties)


def test_each_bus_is_one_of_novas() -> None:
    assert set(DISK_BUSES) <= set(NOVAS_BUSES.split())


def test_refusal_repeats_no_more_than_the_beginning_of_a_value() -> None:
    with pytest.raises(InvalidImageProperty) as caught:
        guest_hardware({"hw_disk_bus": "x" * 10**6})
    assert len(str(caught.value)) < 500
