"""Each kind of database is backed up and restored by the page, as it stands there."""

import json
from collections.abc import Callable

import pytest

from tests.operators.cloud import CONTROLLER_SERVICES, Cloud
from tests.operators.machines import Machine
from tests.operators.pages import blocks, commands, typed
from tests.waiting import wait_for

pytestmark = pytest.mark.timeout(3600)
Minova = Callable[[str], str]
STANDALONE = "minova-standalone"
# What the operator types: the backup, and the restore.
TYPED = {
    "PostgreSQL": ("sudo -u postgres pg_dump", "sudo -u postgres pg_restore"),
    "MariaDB": ("sudo mariadb-dump", "sudo mariadb minova"),
    "SQLite": ("sudo sqlite3", "sudo cp minova.backup"),
}


def make(machine: Machine, minova: Minova, name: str) -> str:
    """An image and a server of this name. Returns the ID of the server."""
    machine(f"head -c 1M /dev/urandom >/tmp/{name}.raw")
    minova(f"image create {name} --disk-format raw --file /tmp/{name}.raw")
    minova(f"server create {name} --flavor m1.nano --image {name} --wait")
    return str(json.loads(minova(f"server show {name} -f json"))["id"])


def lost_and_restored(machine: Machine, minova: Minova, database: str, first_of_services: str) -> None:
    """The database goes back to a backup that knows one server of two."""
    back_up, stop, restore, start = typed(
        "backup.md",
        TYPED[database][0],
        f"sudo systemctl stop {first_of_services}",
        TYPED[database][1],
        "sudo systemctl start " + (STANDALONE if first_of_services == STANDALONE else CONTROLLER_SERVICES[0]),
    )
    look, apply = commands(blocks("backup.md", "Safe mode")[0])
    first = make(machine, minova, "first")
    machine(f"umask 077; cd /root && {back_up}")
    second = make(machine, minova, "second")
    machine(stop)
    if database == "SQLite":
        machine(
            "rm /var/lib/minova/minova.sqlite*"
        )  # a new machine in place of one that is lost has no file whose owner remains
    machine(f"cd /root && {restore}")
    machine(start)

    def listed() -> str:
        """What `recovery` lists when all hosts and image stores have reported."""
        shown = machine.run(f"sudo -u minova {look}").stdout
        is_complete = "has been in safe mode" in shown and "No report yet" not in shown
        return shown if is_complete and second in shown else ""

    shown = wait_for("the report", listed, 300)
    assert first not in shown
    assert "afe mode" in machine.run("sudo -u minova minova-manage doctor").stdout
    machine(f"sudo -u minova {apply}")
    wait_for("changes", lambda: "afe mode" not in minova("server list 2>&1"))
    for name, uuid in (("first", first), ("second", second)):
        server = json.loads(minova(f"server show {name} -f json"))
        assert (server["id"], server["status"]) == (uuid, "ACTIVE")
    for name in ("first", "second"):
        minova(f"server delete {name} --wait")
        minova(f"image delete {name}")
    wait_for("doctor is silent", lambda: machine.run("sudo -u minova minova-manage doctor").stdout == "")


def test_database_is_restored_by_the_page(cloud: Cloud) -> None:
    lost_and_restored(cloud.controller, cloud.minova, "PostgreSQL", "minova-api")
    cloud.are_up()


@pytest.mark.parametrize("database", ["MariaDB", "SQLite"])
def test_database_of_one_machine_is_restored_by_the_page(alone: Machine, database: str) -> None:
    conf = "[DEFAULT]\ncompute_driver = fake.FakeDriver\n"
    if database == "MariaDB":
        alone("systemctl unmask mariadb && systemctl start mariadb")
        alone(*typed("install.md", "sudo mariadb"))
        conf += "[database]\nconnection = mysql+pymysql://minova:SECRET@localhost/minova\n"
    alone.write("/etc/minova/minova.conf", conf, "root:minova", "640")
    alone(f"systemctl enable --now {STANDALONE}")
    lost_and_restored(alone, lambda words: alone(f"minova {words}"), database, STANDALONE)
