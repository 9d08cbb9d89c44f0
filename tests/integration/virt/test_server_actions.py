"""Server actions on a real guest: what is seen of them from inside of it and from libvirt."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import libvirt
import pytest

from tests.integration.leftovers import domains_and_disks
from tests.integration.test_standalone import Standalone
from tests.integration.virt.guest_console import GuestConsole
from tests.servers.libvirtd import Libvirtd
from tests.waiting import wait_for

pytestmark = pytest.mark.timeout(600)


class Site:
    """A cloud of one host on real QEMU, with one server whose guest is ready."""

    def __init__(
        self, standalone: Standalone, libvirtd: Libvirtd, image: Path, flavor: tuple[str, ...] = (), **properties: str
    ) -> None:
        self.standalone = standalone
        self.libvirtd = libvirtd
        standalone.start()
        size = "m1.nano"
        if flavor:
            self.cli("flavor", "create", size := "own", *flavor)
        said = [word for key, value in properties.items() for word in ("--property", f"{key}={value}")]
        self.cli("image", "create", "guest", "--file", str(image), "--disk-format", "qcow2", *said)
        self.cli("server", "create", "vm", "--flavor", size, "--image", "guest", "--wait")
        self.uuid = standalone.json("server", "show", "vm")["id"]
        self.console = GuestConsole(libvirtd.uri, self.uuid, self.log)
        self.ready(1)

    def cli(self, *words: str) -> str:
        return self.standalone.cli(*words)

    def act(self, verb: str, *options: str) -> None:
        self.cli("server", verb, "vm", "--wait", *options)

    @property
    def server(self) -> Any:
        return self.standalone.json("server", "show", self.uuid)

    def wait_for_idle(self) -> None:
        wait_for("the end of the action", lambda: self.server["OS-EXT-STS:task_state"] is None, 120)

    def log(self) -> str:
        file = self.standalone.folder / "state" / "instances" / self.uuid / "console.log"
        return file.read_text(errors="replace").replace("\r", "") if file.exists() else ""

    def ready(self, boots: int) -> None:
        """The guest has booted so often, by its own count on its disk."""
        wait_for(f"boot {boots}", lambda: self.log().count("MINOVA-GUEST READY") == boots, 120)
        assert f"MINOVA-GUEST BOOTS {boots}" in self.log()

    @contextmanager
    def domain(self) -> Iterator[Any]:
        connection = libvirt.open(self.libvirtd.uri)
        try:
            yield connection.lookupByUUIDString(self.uuid)
        finally:
            connection.close()

    def domain_state(self) -> int:
        with self.domain() as domain:
            return int(domain.state()[0])

    def files(self) -> set[str]:
        """Of its disks."""
        return {path.name for path in (self.standalone.folder / "state" / "instances" / self.uuid).glob("disk*")}

    def uptime(self) -> float:
        return float(self.console.ask("cut -d' ' -f1 /proc/uptime"))


@contextmanager
def real_site(
    folder: Path,
    image: Path,
    flavor: tuple[str, ...] = (),
    options: str = "",
    limit: Callable[[list[str]], list[str]] | None = None,
    **properties: str,
) -> Iterator[Site]:
    """`options`: lines of its configuration. `limit`: as of Standalone."""
    with Libvirtd() as libvirtd:
        standalone = Standalone(folder)
        standalone.limit = limit
        file = folder / "minova.conf"
        libvirt_options = f"[libvirt]\nconnection_uri = {libvirtd.uri}\nvirt_type = qemu\n"
        file.write_text(f"{file.read_text()}{libvirt_options}{options}")
        try:
            yield Site(standalone, libvirtd, image, flavor, **properties)
        finally:
            standalone.kill()


# The rescue system has booted by then, however slowly.
LATE, NOW = "rescue_disk_delay = 3600", "rescue_disk_delay = 0"


@pytest.fixture
def site(tmp_path: Path, guest_image: Path) -> Iterator[Site]:
    with real_site(tmp_path, guest_image, options=f"{LATE}\n[DEFAULT]\nreclaim_instance_interval = 3600\n") as new_site:
        yield new_site


# Of the kernel, made at each boot.
BOOT_ID = "cat /proc/sys/kernel/random/boot_id"


def test_what_a_guest_and_libvirt_see_of_each_action(site: Site) -> None:
    assert site.console.ask("echo kept >/tmp/marker; cat /tmp/marker") == "kept"
    before, boot = site.uptime(), site.console.ask(BOOT_ID)
    site.act("pause")
    assert (site.domain_state(), site.server["status"]) == (libvirt.VIR_DOMAIN_PAUSED, "PAUSED")
    site.act("unpause")
    assert (site.domain_state(), site.server["status"]) == (libvirt.VIR_DOMAIN_RUNNING, "ACTIVE")

    site.act("suspend")
    with site.domain() as domain:
        assert (domain.isActive(), domain.hasManagedSaveImage()) == (0, 1)
    assert site.server["status"] == "SUSPENDED"
    site.act("resume")
    assert (site.domain_state(), site.server["status"]) == (libvirt.VIR_DOMAIN_RUNNING, "ACTIVE")
    assert site.console.ask("cat /tmp/marker") == "kept"
    assert site.uptime() > before
    assert site.console.ask(BOOT_ID) == boot
    site.ready(1)

    # By its power button, so that it ends by itself.
    site.act("reboot", "--soft")
    site.ready(2)
    assert "has not shut down within" not in site.standalone.log
    assert site.console.ask(BOOT_ID) != boot
    assert site.console.ask("cat /tmp/marker 2>/dev/null || echo gone") == "gone"

    # From a disk of its own, with the root disk beside it once the system has booted; each counts its boots.
    site.cli("server", "stop", "vm", "--wait")
    site.act("rescue")
    wait_for("the rescue disk boots", lambda: site.log().count("MINOVA-GUEST READY") == 3, 120)
    assert site.server["status"] == "RESCUE"
    assert site.log().count("MINOVA-GUEST BOOTS 1\n") == 2
    site.standalone.reconfigure(LATE, NOW)
    wait_for("the root disk", lambda: site.console.ask("test -b /dev/vdb1 && echo there; true") == "there")
    assert site.console.ask("mount -t vfat /dev/vdb1 /disk && cat /disk/boots; umount /disk") == "2"
    assert site.files() == {"disk", "disk.rescue"}
    interrupts = "awk '/NMI/ {print $2}' /proc/interrupts"
    assert site.console.ask(interrupts) == "0"
    site.cli("server", "dump", "create", "vm", "--wait")
    wait_for("the interrupt", lambda: site.console.ask(interrupts) == "1")
    site.act("unrescue")
    wait_for("the root disk boots", lambda: site.log().count("MINOVA-GUEST READY") == 4, 120)
    assert "MINOVA-GUEST BOOTS 3" in site.log()
    assert site.files() == {"disk"}

    # Its saved memory goes with it.
    site.act("suspend")
    site.act("reboot", "--hard")
    wait_for("the reboot", lambda: site.log().count("MINOVA-GUEST READY") == 5, 120)
    assert "MINOVA-GUEST BOOTS 4" in site.log()
    with site.domain() as domain:
        assert domain.hasManagedSaveImage() == 0

    # From a fresh disk: the boots counted on it begin anew.
    site.act("rebuild", "--image", "guest", "--property", "built=again")
    wait_for("the new disk boots", lambda: site.log().count("MINOVA-GUEST READY") == 6, 120)
    assert site.log().count("MINOVA-GUEST BOOTS 1\n") == 3
    assert (site.server["status"], site.files()) == ("ACTIVE", {"disk"})
    # Its disk goes with it, through an image that lives as long as it is shelved: the boots counted on it go on.
    site.act("shelve")
    assert (site.server["status"], site.server["OS-EXT-SRV-ATTR:host"], site.files()) == (
        "SHELVED_OFFLOADED",
        None,
        set(),
    )
    assert domains_and_disks(site.libvirtd.uri, site.standalone.folder) == []
    assert [image["Name"] for image in site.standalone.json("image", "list") if "shelved" in image["Name"]] == [
        "vm-shelved"
    ]
    site.act("unshelve")
    wait_for("the shelved disk boots", lambda: "MINOVA-GUEST BOOTS 2" in site.log(), 120)
    assert (site.domain_state(), site.server["status"]) == (libvirt.VIR_DOMAIN_RUNNING, "ACTIVE")
    assert not [image for image in site.standalone.json("image", "list") if "shelved" in image["Name"]]

    # Switched off with its disk, which it boots from when it is restored.
    site.cli("server", "delete", "vm", "--wait")
    assert site.domain_state() == libvirt.VIR_DOMAIN_SHUTOFF
    assert site.standalone.json("server", "list") == []
    assert site.files() == {"disk"}
    site.act("restore")
    wait_for("the restored disk boots", lambda: "MINOVA-GUEST BOOTS 3" in site.log(), 120)
    assert (site.domain_state(), site.server["status"]) == (libvirt.VIR_DOMAIN_RUNNING, "ACTIVE")

    # A stopped one stays stopped.
    site.cli("server", "stop", "vm", "--wait")
    site.act("rebuild")
    assert (site.domain_state(), site.server["status"]) == (libvirt.VIR_DOMAIN_SHUTOFF, "SHUTOFF")

    # At once, with all files of a rescued one.
    site.act("rescue")
    site.cli("server", "delete", "vm", "--force", "--wait")
    wait_for("nothing is left", lambda: domains_and_disks(site.libvirtd.uri, site.standalone.folder) == [])
    assert "Traceback" not in site.standalone.log
