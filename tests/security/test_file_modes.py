"""A compute that is not root, with all limits of its systemd unit: it boots a real guest, and no other user can read its files."""

import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.integration.test_standalone import Standalone
from tests.security import other_user
from tests.servers import kept_paths, sandbox
from tests.servers.libvirtd import ACCOUNT, ACCOUNT_ID, CLIENT_ID, Libvirtd, socket_of
from tests.waiting import wait_for

pytestmark = pytest.mark.timeout(300)
QEMU, MINOVA = ACCOUNT_ID, CLIENT_ID


@pytest.fixture
def folder() -> Iterator[Path]:
    """One that all users may enter: pytest's own folders would keep them out."""
    with tempfile.TemporaryDirectory(prefix="minova-modes-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def libvirtd() -> Iterator[Libvirtd]:
    """As Debian has it: QEMU runs as a user of its own, who is given the disks; minova may connect."""
    with Libvirtd(qemu_user=ACCOUNT, networks=True) as server:
        socket = Path(socket_of(server.directory))
        for folder in (server.directory, socket.parent):
            folder.chmod(0o711)
        os.chown(socket, MINOVA, -1)
        yield server


@pytest.fixture
def limited(folder: Path, libvirtd: Libvirtd) -> Iterator[Standalone]:
    """minova-standalone with the limits of its unit, which are those of minova-compute."""
    state, conf = folder / "state", folder / "minova.conf"
    state.mkdir(mode=0o750)
    keep = [kept_paths.ROOT, Path(sys.prefix), libvirtd.directory, folder]
    standalone = Standalone(folder, default_subnet="172.31.250.0/24")
    standalone.limit = partial(
        sandbox.command, "minova-standalone", writable=state, keep=keep, uid=MINOVA, groups=[QEMU]
    )
    helper_socket, metadata_socket = folder / "network.sock", folder / "metadata.sock"
    conf.write_text(
        f"{conf.read_text()}helper_socket = {helper_socket}\nmetadata_helper_socket = {metadata_socket}\n[libvirt]\nconnection_uri = {libvirtd.uri}\nvirt_type = qemu\n"
    )
    words = [
        sys.executable,
        "-c",
        "from minova.cmd import network_helper; network_helper.main()",
        f"--user={MINOVA}",
        f"--socket={helper_socket}",
        f"--metadata-socket={metadata_socket}",
        f"--run-dir={folder}/run",
    ]
    # With the capabilities of its unit, in the network namespace of this hypervisor, whose bridges it works with.
    unit = sandbox.settings(sandbox.UNITS / "minova-network-helper.service")
    kept = ",".join(["-all", *(f"+{name.removeprefix('CAP_').lower()}" for name in unit["CapabilityBoundingSet"])])
    limit = ["setpriv", "--no-new-privs", f"--bounding-set={kept}"]
    helper = subprocess.Popen(["nsenter", "-t", str(libvirtd.pid), "-n", *limit, *words])
    wait_for("the helper", helper_socket.exists)
    conf.chmod(0o640)
    os.chown(conf, 0, MINOVA)
    os.chown(state, MINOVA, MINOVA)
    yield standalone
    standalone.kill()
    helper.terminate()
    helper.wait(30)


def test_a_real_guest_on_a_compute_without_root(limited: Standalone, guest_image: Path) -> None:
    state = limited.folder / "state"
    limited.start()
    limited.cli("image", "create", "guest", "--file", str(guest_image), "--disk-format", "qcow2")
    limited.cli("server", "create", "vm", "--flavor", "m1.nano", "--image", "guest", "--wait")
    wait_for("READY", lambda: "MINOVA-GUEST READY" in limited.cli("server", "console", "log", "vm"))
    # It has its address from a network that the helper has made, and minova listens there.
    console = limited.cli("server", "console", "log", "vm")
    assert "MINOVA-GUEST DHCP eth0 172.31.250." in console, limited.log[-6000:]
    (network_id,) = (path.name for path in (limited.folder / "run" / "networks").iterdir())
    listening = ["nsenter", f"--net=/run/netns/{network_id}", "ss", "-lnt"]
    wait_for("the metadata service", lambda: b"169.254.169.254:80" in subprocess.check_output(listening))
    (disk,), (log,) = state.glob("instances/*/disk"), state.glob("instances/*/console.log")
    assert owner_and_mode(disk) == (QEMU, 0o660)
    require_closed(state)
    assert other_user.readable(limited.folder / "minova.conf") == []

    # libvirt gives the files to root when the guest stops; the compute takes them back.
    limited.cli("server", "stop", "vm")
    wait_for("SHUTOFF", lambda: limited.json("server", "show", "vm")["status"] == "SHUTOFF")
    assert "MINOVA-GUEST READY" in limited.cli("server", "console", "log", "vm")
    wait_for("taken back", lambda: owner_and_mode(log) == (MINOVA, 0o660))
    require_closed(state)
    limited.cli("server", "delete", "vm", "--wait")
    assert "Traceback" not in limited.log


def owner_and_mode(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_uid, stat.S_IMODE(status.st_mode)


def require_closed(state: Path) -> None:
    assert other_user.readable(state) == []
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in state.rglob("*")}
    assert {mode for path, mode in modes.items() if path.is_dir()} <= {0o750, 0o700}
    assert {mode for path, mode in modes.items() if path.name in {"minova.sqlite", "owner.json", "lock"}} == {0o600}
    assert {mode for path, mode in modes.items() if "images" in path.parts and path.is_file()} == {0o600}
    assert {mode for path, mode in modes.items() if path.parent.name == "_base" and not path.suffix} <= {0o640, 0o700}
