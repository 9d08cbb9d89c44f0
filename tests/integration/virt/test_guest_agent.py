"""The agent in a real guest: what it does is seen from inside."""

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.integration.virt.test_server_actions import Site, real_site
from tests.waiting import wait_for

pytestmark = pytest.mark.timeout(600)
# The hash of the password of root.
STORED = "grep ^root: /etc/shadow | cut -d: -f2"


FLAVOR = (
    *("--ram", "128", "--ephemeral", "1", "--swap", "64"),
    *("--property", "quota:disk_read_bytes_sec=73400320", "--property", "quota:disk_total_iops_sec=3000"),
)


def require_limits(site: Site) -> None:
    """As libvirt has them of the domain that runs."""
    with site.domain() as domain:
        for device in ("vda", "vdb", "vdc"):
            limits = domain.blockIoTune(device, 0)
            assert (limits["read_bytes_sec"], limits["total_iops_sec"]) == (73400320, 3000)


def hash_inside(site: Site, password: str) -> str:
    """Of the password, with the salt of the one that the guest has."""
    return site.console.ask(f"mkpasswd -m sha512 -S $({STORED} | cut -d'$' -f3) '{password}'")


def change_password(site: Site, password: str) -> tuple[int, str]:
    """Status, and the message of a fault."""
    body = json.dumps({"changePassword": {"adminPass": password}}).encode()
    url = f"{site.standalone.url}/v2.1/servers/{site.uuid}/action"
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return answer.status, ""
    except urllib.error.HTTPError as error:
        fault: dict[str, Any] = json.loads(error.read())
        return error.code, next(iter(fault.values()))["message"]


@pytest.mark.nightly("a minute; each day has the calls of the agent without a guest")
def test_agent_sets_passwords_and_holds_file_systems_for_snapshots(tmp_path: Path, guest_image: Path) -> None:
    with real_site(tmp_path, guest_image, FLAVOR, hw_qemu_guest_agent="yes", os_require_quiesce="yes") as site:
        # Its second and third disk: what the flavor says, formatted.
        assert site.console.ask("mount -t ext4 /dev/vdb /disk && df -m /disk | awk 'NR == 2 {print ($2 > 900)}'") == "1"
        assert site.console.ask("swapon /dev/vdc && awk '/^SwapTotal/ {print ($2 > 65000)}' /proc/meminfo") == "1"
        require_limits(site)

        assert "MINOVA-GUEST AGENT" in site.log()
        wait_for("an answer of the agent", lambda: change_password(site, "s3cr3t of the guest") == (202, ""), 120)
        stored = site.console.ask(STORED)
        assert stored.startswith("$6$")
        assert stored == hash_inside(site, "s3cr3t of the guest") != hash_inside(site, "another")
        assert "s3cr3t" not in site.standalone.log

        site.cli("server", "image", "create", "vm", "--name", "quiet", "--wait")
        assert site.standalone.json("image", "show", "quiet")["status"] == "active"
        assert site.console.ask("echo $(cat /tmp/fsfreeze)") == "freeze thaw"

        # Without its answer neither is done, and the server is as before.
        site.console.ask("kill -STOP $(cat /tmp/qemu-ga.pid)")
        assert change_password(site, "too late") == (501, "Unable to set password on instance")
        assert site.console.ask(STORED) == stored
        site.cli("server", "image", "create", "vm", "--name", "loud")
        site.wait_for_idle()
        newest = site.standalone.json("server", "event", "list", "vm")[0]
        assert newest["Action"] == "createImage"
        assert "could not be held still" in json.dumps(
            site.standalone.json("server", "event", "show", "vm", newest["Request ID"])
        )
        assert "loud" not in site.cli("image", "list")
        assert (site.server["status"], site.files()) == ("ACTIVE", {"disk", "disk.eph0", "disk.swap"})
        site.act("pause")
        assert change_password(site, "x")[0] == 409
        site.act("unpause")

        # What its hypervisor counts.
        used = site.standalone.json("server", "show", "vm", "--diagnostics")
        assert (used["driver"], used["num_cpus"], used["num_disks"]) == ("libvirt", 1, 3)
        assert used["disk_details"][0]["read_bytes"] > 1 << 20
        assert used["cpu_details"][0]["time"] > 10**9
        assert "Traceback" not in site.standalone.log
