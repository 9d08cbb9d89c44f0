"""Guests on real QEMU that stand still because a file system is full or a disk of the host is broken, that are killed, and that switch
themselves off.
"""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import libvirt
import pytest

from tests.integration.test_full_disk import small_disk
from tests.integration.virt.test_server_actions import BOOT_ID, Site, real_site
from tests.waiting import wait_for

pytestmark = pytest.mark.timeout(900)
FULL = "The guest stands still, because a disk of its host is full."
BROKEN = "The guest stands still, because its disk cannot be read or written."
ASLEEP = "The guest stands still, because it has put itself to sleep."
MB = 1 << 20


@pytest.fixture
def site(tmp_path: Path, guest_image: Path) -> Iterator[Site]:
    with (
        small_disk(tmp_path / "state" / "instances", 1100),
        real_site(tmp_path, guest_image, options="[DEFAULT]\n") as new_site,
    ):
        yield new_site


class Ballast:
    """Takes all space that is left to the disks of guests."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "ballast"

    def add(self) -> None:
        with self._file.open("wb") as file:
            free = shutil.disk_usage(self._file.parent).free
            os.posix_fallocate(file.fileno(), 0, free)

    def remove(self) -> None:
        self._file.unlink()


def newest(site: Site) -> dict[str, Any]:
    """Returns the newest record of the server."""
    records: list[dict[str, Any]] = site.standalone.json("server", "event", "list", "vm", "--long")
    return records[0]


def fault(site: Site) -> str | None:
    return (site.server.get("fault") or {}).get("message")


def write_much(site: Site, megabyte: int) -> None:
    """Write in a moment, behind the guest's own file system, where its disk has no space yet. The console log is on the same
    file system of the host, so the guest answers before that is full.
    """
    command = f"dd if=/dev/urandom of=/dev/vda bs=1M seek={megabyte} count=20 oflag=direct"
    site.console.ask(f"true; (sleep 4; {command}) >/dev/null 2>&1 & echo begun")


def qemu_of(uuid: str) -> int:
    """Returns the process of the guest."""
    process_ids = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"qemu" in words[0] and uuid.encode() in words:
            process_ids.append(int(folder.name))
    (pid,) = process_ids
    return pid


@pytest.mark.nightly("a minute; tests/unit has the state for each reason of libvirt")
def test_bug_guest_without_space_is_active_without_a_word(site: Site) -> None:
    boot, ballast = site.console.ask(BOOT_ID), Ballast(site.standalone.folder / "state" / "instances")
    write_much(site, 600)
    ballast.add()
    wait_for("the fault", lambda: fault(site) == FULL, 60)
    shown = site.server
    assert (shown["status"], shown["OS-EXT-STS:power_state"]) == ("ACTIVE", 3)
    record = newest(site)
    assert (record["Action"], record["User ID"], record["Message"]) == ("guest_paused", None, FULL)
    with pytest.raises(AssertionError, match="stands still"):
        site.cli("server", "unpause", "vm", "--wait")
    site.wait_for_idle()
    assert site.server["status"] == "ACTIVE"
    assert site.domain_state() == libvirt.VIR_DOMAIN_PAUSED

    # It goes on by itself.
    ballast.remove()
    wait_for("the guest", lambda: site.domain_state() == libvirt.VIR_DOMAIN_RUNNING, 60)
    wait_for("no fault", lambda: fault(site) is None, 60)
    assert site.console.ask(BOOT_ID) == boot
    record = newest(site)
    assert (record["Action"], record["User ID"], record["Message"]) == ("unpause", None, "The guest goes on.")

    # A guest that cannot go on is not asked to shut itself down for minutes.
    write_much(site, 700)
    ballast.add()
    wait_for("the fault", lambda: fault(site) == FULL, 60)
    begun = time.monotonic()
    site.cli("server", "stop", "vm", "--wait")
    assert time.monotonic() - begun < 30
    assert (site.server["status"], fault(site)) == ("SHUTOFF", None)
    ballast.remove()

    site.cli("server", "start", "vm", "--wait")
    site.ready(2)
    os.kill(qemu_of(site.uuid), signal.SIGKILL)
    wait_for("the crash", lambda: site.server["status"] == "SHUTOFF", 60)
    text = "The virtual machine of the guest has crashed, or was killed."
    assert (fault(site), site.server["OS-EXT-STS:power_state"]) == (text, 6)
    record = newest(site)
    assert (record["Action"], record["User ID"], record["Message"]) == ("guest_crash", None, text)

    site.cli("server", "start", "vm", "--wait")
    site.ready(3)
    assert fault(site) is None
    site.console.ask("true; (sleep 1; poweroff -f) >/dev/null 2>&1 & echo off")
    wait_for("the end of the guest", lambda: site.server["status"] == "SHUTOFF", 60)
    record = newest(site)
    assert (record["Action"], record["User ID"], record["Message"]) == (
        "stop",
        None,
        "The guest has shut itself down.",
    )
    assert fault(site) is None


def fall_asleep(site: Site) -> None:
    """As desktops and Windows do by themselves (ACPI S3)."""
    site.console.ask("true; (sleep 1; echo mem >/sys/power/state) >/dev/null 2>&1 & echo begun")
    wait_for("sleep", lambda: site.domain_state() == libvirt.VIR_DOMAIN_PMSUSPENDED, 60)
    wait_for("the fault", lambda: fault(site) == ASLEEP, 60)
    assert (site.server["status"], site.server["OS-EXT-STS:power_state"]) == ("ACTIVE", 7)


def wait_for_awake(site: Site) -> None:
    wait_for("the guest", lambda: site.domain_state() == libvirt.VIR_DOMAIN_RUNNING, 60)
    wait_for("no fault", lambda: fault(site) is None, 60)


@pytest.mark.nightly("a minute; tests/unit has the state for each reason of libvirt")
def test_bug_guest_that_sleeps_is_active_without_a_word(tmp_path: Path, guest_image: Path) -> None:
    with real_site(tmp_path, guest_image) as site:
        boot = site.console.ask(BOOT_ID)
        fall_asleep(site)
        record = newest(site)
        assert (record["Action"], record["User ID"], record["Message"]) == ("guest_paused", None, ASLEEP)

        # It may wake by itself.
        with site.domain() as domain:
            domain.pMWakeup(0)
        wait_for_awake(site)
        record = newest(site)
        assert (record["Action"], record["User ID"], record["Message"]) == ("unpause", None, "The guest goes on.")

        for verb in ("unpause", "resume"):
            fall_asleep(site)
            site.act(verb)
            wait_for_awake(site)
            assert site.console.ask(BOOT_ID) == boot

        # libvirt refuses these for a guest that sleeps, and a saved one never woke again.
        for verb, undo in (("pause", "unpause"), ("suspend", "resume")):
            fall_asleep(site)
            site.act(verb)
            site.act(undo)
            wait_for_awake(site)
            assert site.console.ask(BOOT_ID) == boot
        fall_asleep(site)
        site.cli("server", "image", "create", "vm", "--name", "snapshot", "--wait")
        wait_for_awake(site)
        assert site.console.ask(BOOT_ID) == boot

        # It is asked to shut itself down, and does.
        fall_asleep(site)
        begun = time.monotonic()
        site.act("reboot", "--soft")
        assert time.monotonic() - begun < 60
        site.ready(2)
        assert newest(site)["Message"] is None, newest(site)
        assert "has not shut down within" not in site.standalone.log
        fall_asleep(site)
        begun = time.monotonic()
        site.act("stop")
        assert time.monotonic() - begun < 30
        assert (site.server["status"], fault(site)) == ("SHUTOFF", None)
        assert "has not shut down within" not in site.standalone.log

        # Its memory was saved by another tool while it was paused.
        site.act("start")
        site.ready(3)
        boot = site.console.ask(BOOT_ID)
        with site.domain() as domain:
            domain.managedSave(libvirt.VIR_DOMAIN_SAVE_PAUSED)
        wait_for("the stop", lambda: site.server["status"] == "SHUTOFF", 60)
        site.act("start")
        assert site.domain_state() == libvirt.VIR_DOMAIN_RUNNING
        assert site.console.ask(BOOT_ID) == boot


@contextmanager
def loop_device(file: Path) -> Iterator[str]:
    done = subprocess.run(["losetup", "--find", "--show", str(file)], capture_output=True, text=True, check=True)
    device = done.stdout.strip()
    try:
        yield device
    finally:
        subprocess.run(["losetup", "--detach", device], check=True)


def attach(site: Site, device: str, target: str, policies: str = "") -> None:
    """As an administrator does, by libvirt itself."""
    xml = (
        f"<disk type='block' device='disk'><driver name='qemu' type='raw' cache='none' {policies}/>"
        f"<source dev='{device}'/><target dev='{target}' bus='virtio'/></disk>"
    )
    with site.domain() as domain:
        domain.attachDeviceFlags(xml, libvirt.VIR_DOMAIN_AFFECT_LIVE)
    wait_for(target, lambda: site.console.ask(f"test -b /dev/{target} && echo there || echo not") == "there")


@pytest.mark.nightly("a minute; tests/unit has the state for each reason of libvirt")
def test_bug_guest_with_a_broken_disk_is_active_without_a_word(tmp_path: Path, guest_image: Path) -> None:
    """The kernel answers EIO for what a loop device has lost."""
    backing = tmp_path / "backing"
    backing.write_bytes(os.urandom(8 * MB))
    read = "dd if=/dev/{} of=/dev/null bs=1M skip=6 count=1 iflag=direct 2>/dev/null && echo read || echo failed"
    with ExitStack() as stack:
        told, stopped = (stack.enter_context(loop_device(backing)) for _ in range(2))
        site = stack.enter_context(real_site(tmp_path, guest_image))
        attach(site, told, "vdb")
        attach(site, stopped, "vdc", "error_policy='stop' rerror_policy='stop'")
        assert site.console.ask(read.format("vdb")) == "read"
        os.truncate(backing, 4 * MB)

        # By QEMU's default the guest is told, and runs on.
        assert site.console.ask(read.format("vdb")) == "failed"
        wait_for("the line", lambda: f"this host cannot read or write disk {told}" in site.standalone.log)
        assert (site.server["status"], site.server["OS-EXT-STS:power_state"], fault(site)) == ("ACTIVE", 1, None)

        boot = site.console.ask(BOOT_ID)
        site.console.ask(f"true; (sleep 2; {read.format('vdc')}) >/dev/null 2>&1 & echo begun")
        wait_for("the fault", lambda: fault(site) == BROKEN, 60)
        assert (site.server["status"], site.server["OS-EXT-STS:power_state"]) == ("ACTIVE", 3)
        record = newest(site)
        assert (record["Action"], record["User ID"], record["Message"]) == ("guest_paused", None, BROKEN)
        with pytest.raises(AssertionError, match="cannot be read or written"):
            site.cli("server", "unpause", "vm", "--wait")
        site.wait_for_idle()
        assert site.server["status"] == "ACTIVE"

        os.truncate(backing, 8 * MB)
        site.cli("server", "unpause", "vm", "--wait")
        wait_for("no fault", lambda: fault(site) is None, 60)
        assert site.console.ask(BOOT_ID) == boot
        assert site.console.ask(read.format("vdc")) == "read"
