"""Which driver is taken, and what a host without libvirt is told."""

import subprocess
import sys

import pytest

PROGRAM = """\
import sys
sys.modules["libvirt"] = None
from minova import conf, virt
options = conf.load([], "test", files=[])
options.set_override("compute_driver", sys.argv[1])
try:
    print(type(virt.load(options)).__name__)
except Exception as error:
    print(type(error).__name__, error)
"""


def answer(driver: str) -> str:
    command = [sys.executable, "-c", PROGRAM, driver]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout


def test_without_libvirt_the_driver_says_how_to_get_it() -> None:
    assert answer("libvirt").startswith("InvalidConfiguration [DEFAULT] compute_driver = libvirt")
    assert "pip install minova[libvirt]" in answer("libvirt")
    assert answer("libvirt.LibvirtDriver") == answer("libvirt")


@pytest.mark.parametrize("name", ["fake", "fake.FakeDriver"])
def test_the_fake_needs_no_libvirt(name: str) -> None:
    assert answer(name) == "FakeDriver\n"


def test_an_image_is_looked_at_without_libvirt_or_the_computes_room() -> None:
    program = (
        "import sys, minova.image_format.inspection\n"
        "print([name for name in ('libvirt', 'sqlalchemy', 'minova.compute') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "[]\n"
