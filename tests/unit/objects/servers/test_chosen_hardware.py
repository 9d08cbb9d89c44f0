"""Hardware that is chosen once per server."""

import pytest

from minova.objects.catalogue.guest_hardware import GuestHardware
from minova.objects.servers.chosen_hardware import ChosenHardware, alias_of, machine_here, with_choice, without_choice


@pytest.mark.parametrize(
    ("machine", "alias"),
    [
        ("pc-q35-7.2", "q35"),
        ("pc-i440fx-8.0", "pc"),
        ("virt-9.1", "virt"),
        ("s390-ccw-virtio-7.2", "s390-ccw-virtio"),
        ("pc-q35-rhel9.4.0", "pc-q35-rhel9.4.0"),
        ("pc-i440fx-7.2+git", "pc"),
        ("q35", "q35"),
    ],
)
def test_a_machine_has_a_name_without_its_version(machine: str, alias: str) -> None:
    assert alias_of(machine) == alias


@pytest.mark.parametrize(
    ("recorded", "arch", "offered", "machine"),
    [
        ("pc-q35-7.2", "x86_64", {"pc-q35-7.2", "q35"}, "pc-q35-7.2"),
        ("pc-q35-7.2", "x86_64", {"pc-q35-8.0", "q35"}, "q35"),
        ("pc-q35-7.2", "x86_64", set(), "q35"),
        ("pc-q35-7.2", "i686", set(), "q35"),
        ("pc-q35-7.2", "aarch64", set(), None),
        ("virt-7.2", "aarch64", set(), "virt"),
        ("invented-1.0", "x86_64", set(), None),
        ("invented-1.0", "x86_64", {"invented"}, "invented"),
        ("virt-7.2", "riscv64", set(), None),
    ],
)
def test_a_host_gives_the_recorded_machine_or_the_usual_one(
    recorded: str, arch: str, offered: set[str], machine: str | None
) -> None:
    assert machine_here(recorded, arch, offered) == machine


def test_what_was_recorded_comes_before_what_the_image_asks_for() -> None:
    wanted = GuestHardware(machine_type="pc", uefi=True, secure_boot="optional")
    assert with_choice(wanted, {}) == wanted
    for uefi, secure in ((True, True), (True, False), (False, False)):
        chosen = ChosenHardware(machine_type="pc-q35-7.2", uefi=uefi, secure_boot=secure)
        hardware = with_choice(wanted, {**chosen.recorded, "other": "x"})
        assert (hardware.machine_type, hardware.uefi) == ("pc-q35-7.2", uefi)
        assert hardware.secure_boot == ("required" if secure else "disabled")
    assert with_choice(wanted, {"image_hw_machine_type": ""}).machine_type == "pc"


def test_a_rebuild_forgets_the_choice_and_nothing_else() -> None:
    recorded = ChosenHardware(machine_type="q35").recorded
    assert recorded.keys() == {"image_hw_machine_type", "image_hw_firmware_type", "image_os_secure_boot"}
    assert without_choice({**recorded, "other": "x"}) == {"other": "x"}
    assert (ChosenHardware(machine_type="q35").uefi, ChosenHardware(machine_type="q35").secure_boot) == (False, False)
