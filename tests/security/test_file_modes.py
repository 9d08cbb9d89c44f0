"""No other user of the machine can read what minova keeps, while QEMU's user reaches the disks of its guests."""

import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import wait_for
from tests.integration.test_standalone import Standalone
from tests.security import other_user
from tests.servers.libvirtd import ACCOUNT, Libvirtd

# Of ACCOUNT.
QEMU_UID = 64055


@pytest.fixture
def folder() -> Iterator[Path]:
    """One that all users may enter: pytest's own folders would keep them out."""
    with tempfile.TemporaryDirectory(prefix="minova-modes-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def debian(folder: Path) -> Iterator[Standalone]:
    """On a libvirtd as Debian has it: QEMU runs as a user of its own, who is given the disks."""
    with Libvirtd(qemu_user=ACCOUNT) as libvirtd:
        standalone = Standalone(folder)
        conf = folder / "minova.conf"
        conf.write_text(conf.read_text() + f"[libvirt]\nconnection_uri = {libvirtd.uri}\nvirt_type = qemu\n")
        yield standalone
        standalone.kill()


def test_nobody_reads_anything_after_a_real_guest(debian: Standalone, guest_image: Path) -> None:
    state = debian.folder / "state"
    debian.start()
    debian.cli("image", "create", "guest", "--file", str(guest_image), "--disk-format", "qcow2")
    debian.cli("server", "create", "vm", "--flavor", "m1.nano", "--image", "guest", "--wait")
    wait_for("READY", lambda: "MINOVA-GUEST READY" in debian.cli("server", "console", "log", "vm"))
    assert other_user.readable(state) == []
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in state.rglob("*")}
    assert {modes[name] for name in ("minova.sqlite", "owner.json", "lock")} == {0o600}
    assert {modes[path.name] for path in (state / "images").iterdir()} == {0o600}
    folders = {stat.S_IMODE(path.stat().st_mode) for path in state.rglob("*") if path.is_dir()}
    assert folders <= {0o750, 0o700}
    (disk,) = state.glob("instances/*/disk")
    assert (disk.stat().st_uid, stat.S_IMODE(disk.stat().st_mode)) == (QEMU_UID, 0o660)
    debian.cli("server", "delete", "vm", "--wait")
