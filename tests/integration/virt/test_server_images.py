"""Images of a real guest: it goes on meanwhile, and what boots from the image has its files."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import libvirt
import pytest

from tests.integration.leftovers import domains_and_disks
from tests.integration.test_full_disk import small_disk
from tests.integration.virt.guest_console import GuestConsole
from tests.integration.virt.test_server_actions import BOOT_ID, Site, real_site
from tests.waiting import wait_for

pytestmark = pytest.mark.timeout(600)

# Room for the guest's disks, and what is left of it when an image is to be made.
HOST_MB, LEFT = 96, 1 << 20


# Begins no copy of a disk while there is a file, and ends with the service that started it.
HELD_COPIES = """#!/bin/sh
case "$*" in *" -- qemu-img convert "*)
    while [ -e {held} ]; do
        [ -d /proc/$PPID ] || exit 1
        sleep 0.05
    done
esac
exec {program} "$@"
"""


class Copies:
    """Stands before `prlimit`, which starts each `qemu-img`, in the PATH of a service: a test finds a copy begun and not ended."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "bin"
        self._path.mkdir()
        self._held = self._path / "held"
        program = self._path / "prlimit"
        program.write_text(HELD_COPIES.format(held=self._held, program=shutil.which("prlimit")))
        program.chmod(0o755)

    def limit(self, command: list[str]) -> list[str]:
        return ["env", f"PATH={self._path}:{os.environ['PATH']}", *command]

    def hold(self) -> None:
        self._held.touch()

    def let_go(self) -> None:
        self._held.unlink()


@pytest.fixture
def copies(tmp_path: Path) -> Copies:
    return Copies(tmp_path)


@pytest.fixture
def site(tmp_path: Path, guest_image: Path, copies: Copies) -> Iterator[Site]:
    with real_site(tmp_path, guest_image, limit=copies.limit) as new_site:
        yield new_site


def all_files(site: Site) -> set[str]:
    folder = site.standalone.folder / "state" / "instances"
    file_names = {path.name for path in (folder / site.uuid).iterdir()} - {"console.log", "owner.json"}
    return file_names | {path.name for path in folder.glob("snapshots/*/*")}


def test_an_image_of_a_guest_in_each_state_boots_and_has_its_files(site: Site) -> None:
    on_disk = "mount -t vfat /dev/vda1 /disk && {}; umount /disk"
    site.console.ask(on_disk.format("echo kept >/disk/marker"))
    boot = site.console.ask(BOOT_ID)
    site.cli("server", "image", "create", "vm", "--name", "live", "--property", "mine=1", "--wait")
    image = site.standalone.json("image", "show", "live")
    assert (image["status"], image["disk_format"]) == ("active", "qcow2")
    assert (site.server["status"], site.console.ask(BOOT_ID)) == ("ACTIVE", boot)
    assert all_files(site) == {"disk"}
    with site.domain() as domain:
        for flags in (0, libvirt.VIR_DOMAIN_XML_INACTIVE):
            assert "snapshot.overlay" not in domain.XMLDesc(flags)
        assert not domain.blockJobInfo("vda")
    # What it has written since is on its own disk.
    site.console.ask(on_disk.format("echo later >/disk/later"))
    for number, (verb, back) in enumerate((("pause", "unpause"), ("suspend", "resume"), ("stop", "start"))):
        site.act(verb)
        site.cli("server", "image", "create", "vm", "--name", verb, "--wait")
        assert all_files(site) == {"disk"}, number
        site.act(back)
    site.ready(2)
    for _ in range(2):
        site.cli("server", "backup", "create", "vm", "--name", "saved", "--rotate", "1", "--wait")
    assert [image["Status"] for image in site.standalone.json("image", "list") if image["Name"] == "saved"] == [
        "active"
    ]
    assert all_files(site) == {"disk"}
    assert site.console.ask(on_disk.format("cat /disk/later")) == "later"

    site.cli("server", "create", "copy", "--flavor", "m1.nano", "--image", "live", "--wait")
    uuid = site.standalone.json("server", "show", "copy")["id"]
    log = site.standalone.folder / "state" / "instances" / uuid / "console.log"
    wait_for("the copy boots", lambda: "MINOVA-GUEST READY" in log.read_text(errors="replace"), 120)
    # One boot is counted on the disk that it was made of.
    assert "MINOVA-GUEST BOOTS 2" in log.read_text(errors="replace")
    copy = GuestConsole(site.libvirtd.uri, uuid, lambda: log.read_text(errors="replace").replace("\r", ""))
    assert copy.ask(on_disk.format("cat /disk/marker; ls /disk | grep -c later")).split() == ["kept", "0"]
    for name in ("vm", "copy"):
        site.cli("server", "delete", name, "--wait")
    wait_for("nothing is left", lambda: domains_and_disks(site.libvirtd.uri, site.standalone.folder) == [])
    assert "Traceback" not in site.standalone.log


def wait_for_overlay(site: Site) -> None:
    with site.domain() as domain:
        wait_for("the guest writes into the overlay", lambda: "snapshot.overlay" in domain.XMLDesc(0))


@pytest.mark.nightly("test_interrupted_actions.py loses the domain itself in the middle of a snapshot")
def test_writes_during_a_snapshot_survive_a_compute_that_is_killed(site: Site, copies: Copies) -> None:
    """Between the snapshot and its commit: the next process commits them, and the image is made."""
    boot = site.console.ask(BOOT_ID)
    copies.hold()
    site.cli("server", "image", "create", "vm", "--name", "shot")
    wait_for_overlay(site)
    site.standalone.kill()
    with site.domain() as domain:
        assert "snapshot.overlay" in domain.XMLDesc(0)
    site.console.ask("mount -t vfat /dev/vda1 /disk && echo meanwhile >/disk/meanwhile; umount /disk; sync")
    copies.let_go()
    site.standalone.start()
    wait_for("the image", lambda: site.standalone.json("image", "show", "shot")["status"] == "active", 120)
    wait_for("the server", lambda: site.server["OS-EXT-STS:task_state"] is None)
    assert (all_files(site), site.console.ask(BOOT_ID)) == ({"disk"}, boot)
    site.act("reboot", "--hard")
    site.ready(2)
    assert site.console.ask("mount -t vfat /dev/vda1 /disk && cat /disk/meanwhile; umount /disk") == "meanwhile"

    # Nor do they get lost where the guest ends meanwhile: the domain is off and names the overlay.
    copies.hold()
    site.cli("server", "image", "create", "vm", "--name", "second")
    wait_for_overlay(site)
    site.standalone.kill()
    site.console.ask("mount -t vfat /dev/vda1 /disk && echo off >/disk/off; umount /disk; sync")
    with site.domain() as domain:
        domain.destroy()
    copies.let_go()
    site.standalone.start()
    wait_for("the image", lambda: site.standalone.json("image", "show", "second")["status"] == "active", 120)
    wait_for("the server", lambda: site.server["status"] == "SHUTOFF", 150)
    site.act("start")
    site.ready(3)
    assert site.console.ask("mount -t vfat /dev/vda1 /disk && cat /disk/off; umount /disk") == "off"
    assert all_files(site) == {"disk"}

    # A delete ends the copy, and the commit with it.
    copies.hold()
    site.cli("server", "image", "create", "vm", "--name", "third")
    wait_for_overlay(site)
    site.cli("server", "delete", "vm", "--wait")
    wait_for("nothing is left", lambda: domains_and_disks(site.libvirtd.uri, site.standalone.folder) == [])
    assert "third" not in [image["Name"] for image in site.standalone.json("image", "list")]
    assert "Traceback" not in site.standalone.log


@pytest.mark.nightly("half a minute; unit tests have the refusal")
def test_a_snapshot_for_which_a_host_has_no_room_leaves_all_as_before(tmp_path: Path, guest_image: Path) -> None:
    instances = tmp_path / "state" / "instances"
    with (
        small_disk(instances, HOST_MB),
        # A flavor without a disk asks the scheduler for no room.
        real_site(
            tmp_path, guest_image, ("--ram", "128", "--disk", "0"), "[DEFAULT]\nfree_space_reserve_mb = 0\n"
        ) as site,
    ):
        boot = site.console.ask(BOOT_ID)
        room = os.statvfs(instances)
        (instances / "filler").write_bytes(bytes(room.f_bavail * room.f_frsize - LEFT))
        output = site.standalone.cli("server", "image", "create", "vm", "--name", "full", "--wait", check=False)
        assert "space" in output or "bytes free" in output, output
        site.wait_for_idle()
        assert (site.server["status"], site.console.ask(BOOT_ID)) == ("ACTIVE", boot)
        assert all_files(site) == {"disk"}
        assert "full" not in [image["Name"] for image in site.standalone.json("image", "list")]
        (event,) = [e for e in site.standalone.json("server", "event", "list", "vm") if e["Action"] == "createImage"]
        assert event["Result"] == "Error", event
        (instances / "filler").unlink()
        site.cli("server", "image", "create", "vm", "--name", "fits", "--wait")
        assert all_files(site) == {"disk"}
