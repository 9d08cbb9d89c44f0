"""The database is backed up and restored by the page, as it stands there."""

import json

import pytest

from tests.operators.cloud import Cloud
from tests.operators.pages import blocks, commands, typed
from tests.waiting import wait_for

pytestmark = pytest.mark.timeout(3600)


def make(cloud: Cloud, name: str) -> str:
    """An image and a server of this name. Returns the ID of the server."""
    cloud.controller(f"head -c 1M /dev/urandom >/tmp/{name}.raw")
    cloud.minova(f"image create {name} --disk-format raw --file /tmp/{name}.raw")
    cloud.minova(f"server create {name} --flavor m1.nano --image {name} --wait")
    return str(json.loads(cloud.minova(f"server show {name} -f json"))["id"])


def test_database_is_restored_by_the_page(cloud: Cloud) -> None:
    controller = cloud.controller
    back_up, stop, restore, start = typed(
        "backup.md",
        "sudo -u postgres pg_dump",
        "sudo systemctl stop minova-api",
        "sudo -u postgres pg_restore",
        "sudo systemctl start minova-conductor",
    )
    look, apply = commands(blocks("backup.md", "Safe mode")[0])
    first = make(cloud, "first")
    controller(f"umask 077; cd /root && {back_up}")
    second = make(cloud, "second")
    controller(stop)
    controller(f"cd /root && {restore}")
    controller(start)

    def listed() -> str:
        """What `recovery` lists when all hosts and image stores have reported."""
        done = controller.run(f"sudo -u minova {look}")
        return done.stdout if second in done.stdout and "No report yet" not in done.stdout else ""

    shown = wait_for("the report", listed, 300)
    assert first not in shown
    assert "afe mode" in controller.run("sudo -u minova minova-manage doctor").stdout
    controller(f"sudo -u minova {apply}")
    wait_for("changes", lambda: "afe mode" not in cloud.minova("server list 2>&1"))
    cloud.are_up()
    for name, uuid in (("first", first), ("second", second)):
        server = json.loads(cloud.minova(f"server show {name} -f json"))
        assert (server["id"], server["status"]) == (uuid, "ACTIVE")
    for name in ("first", "second"):
        cloud.minova(f"server delete {name} --wait")
        cloud.minova(f"image delete {name}")
    wait_for("doctor is silent", lambda: controller.run("sudo -u minova minova-manage doctor").stdout == "")
