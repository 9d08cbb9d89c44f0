"""The root disk of an unshelved server is a copy of the image of the shelving, and its row names the image from which it was made
first. Bytes of that image must not show where the disk has zeros.
"""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from minova.objects.servers.live_migration import LiveMode
from tests.integration.virt.live_pair import Pair, live_pair

pytestmark = pytest.mark.timeout(600)
MB = 1 << 20


def image_with(path: Path, guest_image: Path, byte: int) -> tuple[Path, int]:
    """Returns the guest's image with another MB, and where that begins."""
    shutil.copyfile(guest_image, path)
    size = int(subprocess.check_output(["qemu-img", "info", "-f", "qcow2", path], text=True).split("(")[1].split()[0])
    at = (size + MB - 1) // MB * MB
    subprocess.run(["qemu-img", "resize", "-q", "-f", "qcow2", path, str(at + MB)], check=True)
    if byte:
        subprocess.run(["qemu-io", "-f", "qcow2", "-c", f"write -P {byte} {at} 1M", path], check=True)
    return path, at


@pytest.fixture
def pair(tmp_path: Path, guest_image: Path) -> Iterator[Pair]:
    with live_pair(tmp_path, guest_image) as pair:
        yield pair


def test_bug_a_live_migration_put_a_copied_disk_on_the_first_image(
    pair: Pair, tmp_path: Path, guest_image: Path
) -> None:
    shelved, at = image_with(tmp_path / "shelved", guest_image, 0)
    pair.two.image, _ = image_with(tmp_path / "first", guest_image, ord("A"))
    pair.one.driver.prepare(pair.guest, pair.one.node, 1, shelved, copies_image=True)
    pair.one.driver.power_on(pair.guest)
    destination = pair.prepare()
    assert destination.mode is LiveMode.BLOCK
    pair.one.driver.live_migrate(pair.guest, destination, lambda _: None)
    pair.finish()
    disk = pair.two.folder / "instances" / pair.guest.uuid / "disk"
    reading = ["qemu-io", "-U", "-r", "-f", "qcow2", "-c", f"read -P 0 {at} 1M", str(disk)]
    read = subprocess.run(reading, check=False, capture_output=True, text=True)
    assert "Pattern verification failed" not in read.stdout + read.stderr
    assert read.returncode == 0, read.stderr
