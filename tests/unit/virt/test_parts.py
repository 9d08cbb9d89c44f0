"""Each part of the interface of drivers has a file of its name in each driver."""

from pathlib import Path

import pytest

import minova

VIRT = Path(minova.__file__).parent / "virt"


@pytest.mark.parametrize("driver", ["fake", "libvirt/driver"])
def test_capability_has_a_file_in_each_driver(driver: str) -> None:
    assert files(VIRT / "driver") <= files(VIRT / driver)


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.glob("*.py")}
