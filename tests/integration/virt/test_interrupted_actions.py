"""Server actions on a real guest that are interrupted: by the death of the compute, by a libvirtd that dies or hangs, and
by a hypervisor that takes longer than an action may take.

The guest keeps a mark in its memory, and its kernel an id of its boot. Each row of the table tells what is left of both. After each
row the allocations agree with the instances. `MINOVA_INTERRUPTED=all` runs the whole table.
"""

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import libvirt
import pytest

from tests.integration import preloaded
from tests.integration.deployment import BIN
from tests.integration.virt.held_guests import HeldGuests
from tests.integration.virt.held_saves import held_saves
from tests.integration.virt.test_server_actions import BOOT_ID, Site, real_site
from tests.integration.virt.test_server_images import Copies, all_files, wait_for_overlay
from tests.waiting import wait_for

pytestmark = pytest.mark.timeout(900)
RUNNING, OFF = libvirt.VIR_DOMAIN_RUNNING, libvirt.VIR_DOMAIN_SHUTOFF
# The shortest action_timeout that there is, in seconds.
LEAST_TIMEOUT = 10
SLOW = 20.0
# The first word of a boot.
BOOT_LOADER = "SYSLINUX"
# A shelved server keeps its guest's disks on its host, and a deleted one can be restored.
KEPT = "[DEFAULT]\nshelved_offload_time = -1\nreclaim_instance_interval = 3600\n"


class Row(NamedTuple):
    """An action, what comes before it, and what is true once it has ended. `undo` makes the guest run again, with what it
    had in its memory if `keeps`.
    """

    act: str
    before: str = ""
    status: str = "ACTIVE"
    domain: int = RUNNING
    undo: str = ""
    keeps: bool = False
    files: frozenset[str] = frozenset({"disk"})


ROWS = {
    "suspend": Row("server suspend vm", status="SUSPENDED", domain=OFF, undo="server resume vm", keeps=True),
    "resume": Row("server resume vm", before="server suspend vm", keeps=True),
    "stop": Row("server stop vm", status="SHUTOFF", domain=OFF, undo="server start vm"),
    "start": Row("server start vm", before="server stop vm"),
    "reboot": Row("server reboot vm --hard"),
    "soft reboot": Row("server reboot vm --soft"),
    "rescue": Row(
        "server rescue vm", status="RESCUE", undo="server unrescue vm", files=frozenset({"disk", "disk.rescue"})
    ),
    "unrescue": Row("server unrescue vm", before="server rescue vm"),
    "rebuild": Row("server rebuild vm --image guest"),
    "unshelve": Row("server unshelve vm", before="server shelve vm"),
    "restore": Row("server restore vm", before="server delete vm"),
    "snapshot": Row("server image create vm --name shot", keeps=True),
}


class Interrupted:
    """A site whose slow steps a test can hold."""

    def __init__(self, site: Site, copies: Copies) -> None:
        self.site = site
        self.copies = copies
        self._guests: HeldGuests | None = None
        self._mark = 0

    @contextmanager
    def _slow(self, name: str, interrupt: "Interrupt") -> Iterator[Callable[[], None]]:
        """Holds the slow step of the action. Yields a function that waits until libvirt has begun it."""
        with ExitStack() as held:
            if name == "snapshot":
                self.copies.hold()
                held.callback(self.copies.let_go)
                yield lambda: None
            elif name == "suspend":
                assert self.site.libvirtd.pid is not None
                yield held.enter_context(held_saves(self.site.libvirtd.pid)).await_one
            elif interrupt in SLOWNESS:
                self._guests = self._guests or HeldGuests(self.site.libvirtd)
                self._guests.hold()
                held.callback(self._guests.let_go)
                yield self._guests.await_one
            else:
                yield lambda: None

    def cli(self, words: str, *more: str) -> None:
        self.site.cli(*words.split(), *more)

    def boots(self) -> int:
        """How often the guest has begun to boot."""
        return self.site.log().count(BOOT_LOADER)

    def await_boot(self, before: int) -> None:
        """The guest has booted since there were so many boots, and answers."""

        def is_up() -> bool:
            log = self.site.log()
            return log.count(BOOT_LOADER) > before and log.rfind("MINOVA-GUEST READY") > log.rfind(BOOT_LOADER)

        wait_for("the guest's boot", is_up)
        assert self.site.console.ask("echo here") == "here"

    def misallocations(self) -> list[Any]:
        """What `placement audit` finds."""
        folder = self.site.standalone.folder
        config = folder / "manage.conf"
        config.write_text(f"[database]\nconnection = sqlite:///{folder}/state/minova.sqlite\n")
        command = [str(BIN / "minova-manage"), "--config-file", str(config), "placement", "audit", "--json"]
        done = preloaded.run(command)
        assert done.returncode == 0, done.stderr
        output: list[Any] = json.loads(done.stdout)
        return output

    def run(self, name: str, interrupt: "Interrupt") -> None:
        row, site = ROWS[name], self.site
        self._mark += 1
        site.console.ask(f"echo mark-{self._mark} >/tmp/mark")
        boot, boots = site.console.ask(BOOT_ID), self.boots()
        if row.before:
            self.cli(row.before, "--wait")
            if name == "unrescue":
                self.await_boot(boots)
                boots = self.boots()
        with self._slow(name, interrupt) as await_begin:
            self.cli(row.act)
            await_begin()
            interrupt(site)
        site.wait_for_idle()
        wait_for("the status", lambda: site.server["status"] == row.status, 60)
        assert (site.domain_state(), all_files(site)) == (row.domain, set(row.files))
        if name == "suspend":
            with site.domain() as domain:
                assert domain.hasManagedSaveImage()
        if name == "snapshot":
            assert site.standalone.json("image", "show", "shot")["status"] == "active"
            self.cli("image delete shot")
        assert self.misallocations() == []
        if row.undo:
            boots = self.boots()
            self.cli(row.undo, "--wait")
        assert site.server["status"] == "ACTIVE"
        if not row.keeps:
            self.await_boot(boots)
            return
        assert site.console.ask("cat /tmp/mark") == f"mark-{self._mark}"
        assert site.console.ask(BOOT_ID) == boot


def compute_dies(site: Site) -> None:
    site.standalone.kill()
    site.standalone.start()


def losses(site: Site) -> int:
    """How often the compute has said that it misses the hypervisor."""
    return sum(site.standalone.log.count(words) for words in ("waits for the hypervisor", "does not answer", "is lost"))


def libvirtd_dies(site: Site) -> None:
    before = losses(site)
    site.libvirtd.kill()
    wait_for("the loss of the connection", lambda: losses(site) > before)
    site.libvirtd.start()


def libvirtd_hangs(site: Site) -> None:
    before, pid = losses(site), site.libvirtd.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        wait_for("the end of patience", lambda: losses(site) > before)
    finally:
        os.kill(pid, signal.SIGCONT)


def libvirt_is_slow(site: Site) -> None:
    """For longer than minova waits for a sign of life of its connection to libvirt."""
    _let_pass(site, SLOW)


def deadline_passes(site: Site) -> None:
    """The host gives signs of life, so the deadline moves on."""
    _let_pass(site, 2.5 * LEAST_TIMEOUT)


def _let_pass(site: Site, seconds: float) -> None:
    over = time.monotonic() + seconds
    wait_for("the time of a slow hypervisor", lambda: time.monotonic() > over)
    assert site.server["OS-EXT-STS:task_state"] is not None


Interrupt = Callable[[Site], None]
SLOWNESS = (libvirt_is_slow, deadline_passes)
INTERRUPTS: dict[str, Interrupt] = {
    "compute dies": compute_dies,
    "libvirtd dies": libvirtd_dies,
    "libvirtd hangs": libvirtd_hangs,
    "libvirt is slow": libvirt_is_slow,
}
TABLE = [(name, how) for name in ROWS for how in INTERRUPTS]
CORE = [("suspend", "compute dies")]
IS_WHOLE = os.environ.get("MINOVA_INTERRUPTED") == "all"


@contextmanager
def a_site(folder: Path, image: Path, options: str = "") -> Iterator[Interrupted]:
    copies = Copies(folder)
    with real_site(folder, image, options=options, limit=copies.limit) as site:
        yield Interrupted(site, copies)


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory: pytest.TempPathFactory, guest_image: Path) -> Iterator[Interrupted]:
    with a_site(tmp_path_factory.mktemp("interrupted"), guest_image, KEPT) as site:
        yield site


@pytest.mark.parametrize(("name", "how"), TABLE if IS_WHOLE else CORE)
def test_interrupted_action_ends_as_it_was_meant_and_loses_no_memory(
    interrupted: Interrupted, name: str, how: str
) -> None:
    interrupted.run(name, INTERRUPTS[how])
    assert "Traceback" not in interrupted.site.standalone.log


@pytest.mark.skipif(not IS_WHOLE, reason="part of the whole table")
def test_actions_outlive_their_deadline(tmp_path: Path, guest_image: Path) -> None:
    with a_site(tmp_path, guest_image, f"{KEPT}[conductor]\naction_timeout = {LEAST_TIMEOUT}\n") as impatient:
        for name in ROWS:
            impatient.run(name, deadline_passes)


def test_base_image_that_is_gone_is_fetched_again(interrupted: Interrupted) -> None:
    site = interrupted.site
    interrupted.cli("server stop vm", "--wait")
    bases = site.standalone.folder / "state" / "instances" / "_base"
    (base,) = [path for path in bases.iterdir() if path.is_file() and not path.suffix]
    before = base.stat()
    base.unlink()
    boots = interrupted.boots()
    interrupted.cli("server start vm", "--wait")
    assert base.stat().st_size == before.st_size
    interrupted.await_boot(boots)


def test_bug_writes_during_a_snapshot_are_lost_with_the_domain(interrupted: Interrupted) -> None:
    site, boots = interrupted.site, interrupted.boots()
    interrupted.copies.hold()
    interrupted.cli("server image create vm --name aside")
    wait_for_overlay(site)
    site.console.ask("mount -t vfat /dev/vda1 /disk && echo aside >/disk/aside; umount /disk; sync")
    with site.domain() as domain:
        domain.destroy()
        domain.undefine()
    interrupted.copies.let_go()
    site.wait_for_idle()
    interrupted.cli("server reboot vm --hard", "--wait")
    interrupted.await_boot(boots)
    assert site.console.ask("mount -t vfat /dev/vda1 /disk && cat /disk/aside; umount /disk") == "aside"
    wait_for("the overlay is gone", lambda: all_files(site) == {"disk"})
    assert "Traceback" not in site.standalone.log


@pytest.mark.skipif(not IS_WHOLE, reason="part of the whole table")
def test_bug_shelving_removed_the_memory_of_a_late_suspend(tmp_path: Path, guest_image: Path) -> None:
    """The memory is saved although the server is not suspended."""
    with a_site(tmp_path, guest_image) as late:
        site = late.site
        site.console.ask("echo late >/tmp/mark")
        boot = site.console.ask(BOOT_ID)
        with site.domain() as domain:
            domain.managedSave()
        wait_for("the status", lambda: site.server["status"] == "SHUTOFF", 60)
        late.cli("server shelve vm")
        site.wait_for_idle()
        assert (site.server["status"], all_files(site)) == ("SHUTOFF", {"disk"})
        with site.domain() as domain:
            assert domain.hasManagedSaveImage()
        late.cli("server start vm", "--wait")
        assert (site.console.ask("cat /tmp/mark"), site.console.ask(BOOT_ID)) == ("late", boot)


@pytest.mark.skipif(not IS_WHOLE, reason="part of the whole table")
def test_power_cut_in_the_night_of_the_backups_leaves_no_guest_off(tmp_path: Path, guest_image: Path) -> None:
    """The host starts again while an image of the guest is being made: the guest runs, with all that it has written."""
    with a_site(tmp_path, guest_image, "[DEFAULT]\nresume_guests_state_on_host_boot = true\n") as cut:
        site, boots = cut.site, cut.boots()
        cut.copies.hold()
        cut.cli("server backup create vm --name night --rotate 1")
        wait_for_overlay(site)
        site.console.ask("mount -t vfat /dev/vda1 /disk && echo night >/disk/night; umount /disk; sync")
        site.standalone.kill()
        with site.domain() as domain:
            domain.destroy()
        site.libvirtd.kill()
        site.libvirtd.start()
        cut.copies.let_go()
        site.standalone.start()
        cut.await_boot(boots)
        site.wait_for_idle()
        assert site.server["status"] == "ACTIVE"
        assert site.console.ask("mount -t vfat /dev/vda1 /disk && cat /disk/night; umount /disk") == "night"
        (image,) = [image for image in site.standalone.json("image", "list") if image["Name"] == "night"]
        assert image["Status"] == "active"
        assert all_files(site) == {"disk"}
        assert "Traceback" not in site.standalone.log
