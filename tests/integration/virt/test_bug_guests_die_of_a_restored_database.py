"""A backup is restored under real guests: made, started and rebuilt since, they run on with their disks, and are adopted."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import libvirt
import pytest

from tests import backups
from tests.integration import preloaded
from tests.integration.deployment import BIN
from tests.integration.virt.guest_console import GuestConsole
from tests.integration.virt.test_server_actions import BOOT_ID, Site, real_site
from tests.waiting import wait_for

pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def site(tmp_path: Path, guest_image: Path) -> Iterator[Site]:
    with real_site(tmp_path, guest_image) as new_site:
        yield new_site


def unexpected(site: Site) -> dict[str, Any]:
    config = site.standalone.folder / "manage.conf"
    config.write_text(f"[database]\nconnection = sqlite:///{site.standalone.folder}/state/minova.sqlite\n")
    done = preloaded.run([str(BIN / "minova-manage"), "--config-file", str(config), "unexpected", "list", "--json"])
    return {guest_view["id"]: guest_view for guest_view in json.loads(done.stdout)}


def adopt(site: Site, *uuids: str) -> None:
    config = str(site.standalone.folder / "manage.conf")
    done = preloaded.run(
        [str(BIN / "minova-manage"), "--config-file", config, "unexpected", "adopt", *uuids, "--apply"]
    )
    assert done.returncode == 0, done.stdout + done.stderr


def statuses(site: Site) -> dict[str, str]:
    return {row["Name"]: row["Status"] for row in site.standalone.json("server", "list")}


@pytest.mark.nightly(
    "fake guests live through it each day in tests/faults, and test_restored_cloud restores a real dump"
)
def test_guests_outlive_the_restore_of_an_older_backup(site: Site, guest_image: Path) -> None:
    folder = site.standalone.folder
    site.act("stop")
    backups.take(folder / "state" / "minova.sqlite", folder / "backup.sqlite")
    site.act("start")
    site.ready(2)
    site.cli("server", "create", "new", "--flavor", "m1.nano", "--image", "guest", "--wait")
    new = site.standalone.json("server", "show", "new")["id"]
    site.cli("image", "create", "golden", "--file", str(guest_image), "--disk-format", "qcow2")
    golden = site.standalone.json("image", "show", "golden")["id"]
    boot = site.console.ask(BOOT_ID)
    log = folder / "state" / "instances" / new / "console.log"
    wait_for("the guest", lambda: "MINOVA-GUEST READY" in log.read_text(errors="replace"), 180)
    of_new = GuestConsole(site.libvirtd.uri, new, lambda: log.read_text(errors="replace").replace("\r", ""))
    boot_of_new = of_new.ask(BOOT_ID)

    site.standalone.kill()
    backups.restore(folder / "backup.sqlite", folder / "state" / "minova.sqlite")
    site.standalone.start()

    wait_for("the reports", lambda: len(unexpected(site)) == 3, 180)
    guest_views = unexpected(site)
    assert {uuid: guest_view["reason"] for uuid, guest_view in guest_views.items()} == {
        site.uuid: "newer",
        new: "no_row",
        golden: "no_row",
    }
    assert (site.console.ask(BOOT_ID), of_new.ask(BOOT_ID)) == (boot, boot_of_new), "both guests run on"

    adopt(site, site.uuid, new, golden)
    wait_for("the books", lambda: statuses(site) == {"vm": "ACTIVE", "new": "ACTIVE"}, 180)
    assert (site.console.ask(BOOT_ID), of_new.ask(BOOT_ID)) == (boot, boot_of_new)
    assert site.standalone.json("image", "show", "golden")["status"] == "active"

    def stopped() -> bool:
        """Refused until safe mode has ended: by itself, when all have reported and nothing is missing."""
        return preloaded.run(site.standalone.cli_command("server", "stop", "new", "--wait")).returncode == 0

    wait_for("the end of safe mode", stopped, 300)
    site.cli("server", "start", "new", "--wait")
    wait_for("its second boot", lambda: "MINOVA-GUEST BOOTS 2" in log.read_text(errors="replace"), 180)
    site.cli("server", "delete", "new", "--wait")
    connection = libvirt.open(site.libvirtd.uri)
    try:
        assert [domain.UUIDString() for domain in connection.listAllDomains()] == [site.uuid]
    finally:
        connection.close()
    assert not log.parent.exists()
