"""An older backup is restored, or a lagging replica promoted, while users make servers with real guests and upload images: nothing that
runs dies, no disk and no image is lost, and `minova-manage recovery` brings books and hosts together.
"""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import libvirt
import pytest
from sqlalchemy import make_url

from minova import errors
from minova.cmd.commands import recovery
from tests.integration import preloaded
from tests.integration.virt.moving_cloud import Life, MovingCloud, MovingGuest, moving_cloud
from tests.servers.postgresql import PostgreSQL, Replica, client
from tests.waiting import wait_for

pytestmark = [
    pytest.mark.timeout(2400),
    pytest.mark.nightly("it needs boots; test_bug_guests_die_of_a_restored_database.py is for each day"),
]
CONTROLLERS = ("api", "scheduler", "conductor")
# Servers that the load makes on both hosts together, beside those that are looked at closely.
SERVERS = 3


class Load(threading.Thread):
    """Users make servers and images until they are told to stop; a request that fails is left at that."""

    def __init__(self, cloud: MovingCloud) -> None:
        super().__init__(name="load", daemon=True)
        self._cloud = cloud
        self.stopping = threading.Event()
        self.images = 0

    def run(self) -> None:
        cli, file = self._cloud.cli, self._cloud.deployment.folder / "of-the-load"
        file.write_bytes(b"\1" * 65536)
        number = 0
        while not self.stopping.wait(0.2):
            number += 1
            if number <= SERVERS:
                words = ("--flavor", "tiny", "--image", "guest", "--nic", "none")
                cli("server", "create", f"load-{number}", *words, check=False)
            cli("image", "create", f"image-{number}", "--file", str(file), "--disk-format", "raw", check=False)
            self.images = number


@contextmanager
def load(cloud: MovingCloud) -> Iterator[Load]:
    new_load = Load(cloud)
    new_load.start()
    try:
        yield new_load
    finally:
        new_load.stopping.set()
        new_load.join(120)


def processes(cloud: MovingCloud) -> dict[tuple[str, str], int]:
    """{(host, UUID): the number that libvirt has given to this run of the guest}."""
    counts: dict[tuple[str, str], int] = {}
    for name, host in cloud.hosts.items():
        connection = libvirt.open(host.libvirtd.uri)
        try:
            domains = connection.listAllDomains(libvirt.VIR_CONNECT_LIST_DOMAINS_RUNNING)
            counts |= {(name, domain.UUIDString()): domain.ID() for domain in domains}
        finally:
            connection.close()
    return counts


def disks(cloud: MovingCloud) -> set[Path]:
    return {path for host in cloud.hosts.values() for path in host.folder.glob("*/disk")}


def images(cloud: MovingCloud) -> set[str]:
    """Those whose bytes are complete."""
    folder = cloud.deployment.folder / "controller" / "state" / "images"
    return {path.name for path in folder.iterdir() if "." not in path.name}


def manage(cloud: MovingCloud, *words: str) -> Any:
    return preloaded.run(["minova-manage", "--config-file", cloud.deployment.conf_file, *words])


class Guests:
    """What must outlive it. `steady` runs all the time, `started` since the loss, and `made` has no row in the database of before."""

    def __init__(self, cloud: MovingCloud) -> None:
        self.cloud = cloud
        self.steady, self.started = cloud.boot("steady"), cloud.boot("started")
        cloud.cli("server", "stop", "--wait", "started")
        self.lives: dict[MovingGuest, tuple[str, Life]] = {}

    def change(self) -> None:
        """What the database is to lose."""
        self.cloud.cli("server", "start", "--wait", "started")
        self.started.require_booted(2)
        self.made = self.cloud.boot("made")

    def note(self) -> None:
        for guest in (self.steady, self.started, self.made):
            host = guest.host
            self.lives[guest] = (host, guest.lives(host)[-1])

    def require_the_same(self) -> None:
        """Each counts on where it did: it has kept its memory and was not booted again."""
        for guest, (host, before) in self.lives.items():
            wait_for(
                "the count to go on",
                lambda guest=guest, host=host, before=before: guest.lives(host)[-1].ticks > before.ticks + 10,  # type: ignore[misc]
                120,
            )
            after = guest.lives(host)[-1]
            assert after.boot == before.boot
            self.lives[guest] = (host, after)


@pytest.fixture
def postgresql() -> Iterator[PostgreSQL]:
    with PostgreSQL() as server:
        yield server


@pytest.fixture
def cloud(
    tmp_path: Path, postgresql: PostgreSQL, fresh_rabbit_url: Callable[[], str], guest_image: Path
) -> Iterator[MovingCloud]:
    with moving_cloud(tmp_path, fresh_rabbit_url(), postgresql.fresh_url(), guest_image) as new_cloud:
        yield new_cloud


def url_of(cloud: MovingCloud) -> str:
    return make_url(str(cloud.database.engine.url)).render_as_string(hide_password=False)


def require_recovered(cloud: MovingCloud, guests: Guests, before: dict[tuple[str, str], int], things: set[Any]) -> None:
    """`before`: the processes of guests, and `things` their disks and the images, when the database went back in time."""

    def reported() -> recovery.RecoveryState | None:
        with suppress(errors.ServiceUnavailable):
            findings = recovery.find(cloud.database)
            guest_ids = {thing.id for thing in findings.things}
            if (
                findings.row.safe_since is not None
                and not findings.silent
                and {guests.started.uuid, guests.made.uuid} <= guest_ids
            ):
                return findings
        return None

    wait_for("safe mode and the reports of the hosts", reported, 300)
    guests.require_the_same()
    refused = cloud.cli("server", "delete", guests.steady.uuid, check=False)
    assert "Safe mode" in refused
    dry = manage(cloud, "recovery")
    assert dry.returncode == 1, dry.stdout + dry.stderr
    assert guests.made.uuid in dry.stdout
    assert guests.steady.uuid not in dry.stdout
    assert cloud.deployment.json("server", "show", guests.started.uuid)["status"] == "SHUTOFF", (
        "a dry run changes nothing"
    )

    done = manage(cloud, "recovery", "--apply")
    assert done.returncode == 0, done.stdout + done.stderr
    for guest in guests.lives:
        cloud.deployment.wait_status(guest.uuid, "ACTIVE", timeout=180)
    wait_for("changes are taken", lambda: "safe mode" not in cloud.cli("server", "list", check=False), 180)
    guests.require_the_same()
    after = processes(cloud)
    assert {key: after.get(key) for key in before} == before, "each guest that ran runs on"
    assert things <= disks(cloud) | images(cloud)

    def together() -> bool:
        audit = manage(cloud, "placement", "audit", "--json")
        rows = cloud.deployment.json("server", "list")
        idle = all(row["Status"] in {"ACTIVE", "SHUTOFF", "ERROR"} for row in rows)
        return idle and audit.returncode == 0 and json.loads(audit.stdout) == []

    wait_for("books and hosts to agree", together, 240)
    # A store reports once a minute: an upload that its API ended while it stopped may be shown only then.
    wait_for("nothing to be left", lambda: manage(cloud, "recovery", "--apply").returncode == 0, 180)
    stored = {row["ID"] for row in cloud.deployment.json("image", "list")}
    assert images(cloud) <= stored, "each image has a row"
    rows = {row["ID"] for row in cloud.deployment.json("server", "list")}
    assert {uuid for _, uuid in processes(cloud)} <= rows, "each guest has a row"
    # Users go on with what they have.
    cloud.cli("server", "stop", "--wait", guests.made.uuid)
    cloud.cli("server", "start", "--wait", guests.made.uuid)
    guests.made.require_booted(2)
    cloud.cli("server", "delete", "--wait", guests.made.uuid)
    assert all(guests.made.uuid not in host.known() for host in cloud.hosts.values())


def test_an_older_backup_is_restored(cloud: MovingCloud, tmp_path: Path) -> None:
    guests, dump, services = Guests(cloud), tmp_path / "database.dump", cloud.deployment.services
    with load(cloud) as users:
        client("pg_dump", url_of(cloud), "--format=custom", "--file", dump)
        guests.change()
        wait_for("images", lambda: users.images > SERVERS, 120)
        guests.note()
        for name in CONTROLLERS:
            services[name].stop()
        before, things = processes(cloud), disks(cloud) | images(cloud)
        client("pg_restore", url_of(cloud), "--clean", "--if-exists", "--single-transaction", dump)
        for name in reversed(CONTROLLERS):
            services[name].start()
    require_recovered(cloud, guests, before, things)


def test_a_lagging_replica_is_promoted(cloud: MovingCloud, postgresql: PostgreSQL, tmp_path: Path) -> None:
    """Under the services that run."""
    guests = Guests(cloud)
    with Replica(postgresql, tmp_path / "replica") as replica:
        with load(cloud) as users:
            wait_for("the replica has all", replica.has_all)
            replica.lag()
            wait_for("the replica receives nothing more", replica.is_cut_off)
            guests.change()
            wait_for("images", lambda: users.images > SERVERS, 120)
            guests.note()
            before, things = processes(cloud), disks(cloud) | images(cloud)
            replica.take_over()
        require_recovered(cloud, guests, before, things)
