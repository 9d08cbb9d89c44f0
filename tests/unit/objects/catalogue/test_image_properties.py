"""Properties of images under their newest names, as booleans, numbers and lists."""

from typing import Any

import pytest
from packaging.version import Version

from minova.objects.catalogue.image_properties import InvalidImageProperty, flag, numbered, predicates, read, typed


@pytest.mark.parametrize(
    ("properties", "values"),
    [
        ({"hw_boot_menu": " True ", "hw_qemu_guest_agent": "no"}, {"hw_boot_menu": True, "hw_qemu_guest_agent": False}),
        ({"hw_cpu_cores": "4"}, {"hw_cpu_cores": 4}),
        ({"colour": "red"}, {}),
        ({"architecture": "AMD64"}, {"hw_architecture": "x86_64"}),
        ({"architecture": "i386", "hw_architecture": "aarch64"}, {"hw_architecture": "aarch64"}),
        ({"vmware_adaptertype": "ide"}, {"hw_disk_bus": "ide"}),
        ({"vmware_adaptertype": "lsiLogicsas"}, {"hw_disk_bus": "scsi", "hw_scsi_model": "lsisas1068"}),
        ({"vmware_adaptertype": ""}, {}),
        ({"hw_numa_mem.0": "1", "hw_numa_mem.1": "2", "hw_numa_mem.3": "4"}, {"hw_numa_mem": [1, 2]}),
        ({"hw_numa_mem.1": "2", "hw_numa_mem": "5"}, {}),
        ({"hw_numa_cpus.0": "0-3"}, {"hw_numa_cpus": ["0-3"]}),
        (
            {"trait:CUSTOM_A": "required", "trait:CUSTOM_B": "forbidden", "other:CUSTOM_C": "required"},
            {"traits_required": ["CUSTOM_A"]},
        ),
    ],
)
def test_values(properties: dict[str, str], values: dict[str, Any]) -> None:
    assert typed(properties) == values


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("hw_cpu_cores", "x", "invalid literal"),
        ("hw_cpu_cores", "9" * 5000, "a number has at most"),
        ("hw_disk_bus", "floppy", "known are fdc, ide"),
        ("img_hv_requested_version", "six", "it is no list such as '>=6.0, <10'"),
        ("hw_disk_bus", "v" * 300, f"hw_disk_bus: '{'v' * 255}' is"),
    ],
)
def test_a_value_that_cannot_be_names_its_property(name: str, text: str, why: str) -> None:
    with pytest.raises(InvalidImageProperty, match=f"Image property {name}: ") as refused:
        read(name, text)
    assert why in str(refused.value)


def test_versions_are_compared_in_any_number() -> None:
    assert predicates(">=6.0, <10") == [(">=", Version("6.0")), ("<", Version("10"))]
    assert read("img_hv_requested_version", ">=6.0, <10") == ">=6.0, <10"


def test_flags_and_numbered_values() -> None:
    assert [flag(text) for text in ("1", " YES", "on", "0", "", "maybe")] == [True, True, True, False, False, False]
    assert numbered({"a.0": "x", "a.1": "y"}, "a") == ["x", "y"]
    assert numbered({}, "a") == []
