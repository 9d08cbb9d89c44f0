"""A live migration by the API against libvirt alone with the same guest and hosts, in turns: seconds in all, and for which the guest
stood still. The guest writes memory all the while, and both copy its disks.

"in all" of minova begins with the request and ends when the migration is `completed`; that of libvirt has the call of `virsh migrate
--live --p2p --persistent --undefinesource --copy-storage-inc`, and the making of the files that it wants to be there: an overlay on the same
image, and the config drive. "migrating" of minova begins when the source is told to migrate, and ends when the guest goes on at the
destination; that of libvirt has the call alone. With `--port` the guest has a port with security groups, and libvirt gets its network
filter at the destination, too. The guest stands still from libvirt's event at the source to the event that it runs at the
destination.
"""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from math import ceil
from pathlib import Path
from statistics import median
from typing import NamedTuple

import libvirt
import urllib3

from minova.virt.libvirt.guest_files.disk_formats import backing_file, virtual_size
from minova.virt.libvirt.host import EVENT_LOOP
from minova.virt.libvirt.networking.filter_xml import filters_of
from tests.benchmarks.command_line import Option, parse
from tests.integration.virt.moving_cloud import Host, MovingCloud, MovingGuest, moving_cloud
from tests.servers.postgresql import PostgreSQL
from tests.servers.rabbitmq import RabbitMQ
from tests.waiting import wait_for

ROOT = Path(__file__).parents[3]
_XML = libvirt.VIR_DOMAIN_XML_MIGRATABLE | libvirt.VIR_DOMAIN_XML_SECURE


# The permitted downtime from the beginning that QEMU has by itself: 300 ms.
ALIKE = {"live_migration_downtime": 1200, "live_migration_downtime_steps": 3}
# As operators have it.
USUAL = {"debug": "false", "report_interval": 10, "service_down_time": 60, "update_resources_interval": 60}
# Seconds of each phase of minova's migrations.
PHASES: list[dict[str, float]] = []


class Took(NamedTuple):
    seconds: float
    migrating: float
    still: float


class Events:
    """When the guest was suspended at its source and resumed at its destination."""

    def __init__(self, source: Host, destination: Host) -> None:
        self._suspended: list[float] = []
        self._resumed: list[float] = []
        self._connections = [libvirt.open(host.libvirtd.uri) for host in (source, destination)]
        handlers = (
            (libvirt.VIR_DOMAIN_EVENT_SUSPENDED, self._suspended),
            (libvirt.VIR_DOMAIN_EVENT_RESUMED, self._resumed),
        )
        for connection, (kind, seen) in zip(self._connections, handlers, strict=True):
            connection.domainEventRegisterAny(None, libvirt.VIR_DOMAIN_EVENT_ID_LIFECYCLE, _note, (kind, seen))

    def resumed(self) -> float:
        wait_for("the guest to run at its destination", lambda: self._resumed, 30)
        return self._resumed[-1]

    def still(self) -> float:
        return self.resumed() - self._suspended[0]

    def close(self) -> None:
        for connection in self._connections:
            connection.close()


def _note(_c: object, _d: object, event: int, _detail: int, wanted: tuple[int, list[float]]) -> None:
    kind, seen = wanted
    if event == kind:
        seen.append(time.monotonic())


def by_minova(cloud: MovingCloud, guest: MovingGuest) -> Took:
    left = guest.host
    events = Events(cloud.hosts[left], cloud.hosts[cloud.other(left)])
    begun = wait_for("a conductor that knows that both hosts are up", lambda: asked(cloud, guest), 30)
    assert begun is not None
    reached: dict[str, float] = {}
    while not (guest.is_at_rest() and guest.host != left):
        reached.setdefault(cloud.phase(guest.uuid) or "", time.monotonic())
        time.sleep(0.02)
    ended = time.monotonic()
    took = Took(ended - begun, events.resumed() - reached["migrate"], events.still())
    events.close()
    times = [*reached.values(), ended]
    PHASES.append({name: later - at for (name, at), later in zip(reached.items(), times[1:], strict=True)})
    return took


def asked(cloud: MovingCloud, guest: MovingGuest) -> float | None:
    """Returns when the migration was requested; None: a conductor still knows one of the hosts as down."""
    body = {"os-migrateLive": {"host": None, "block_migration": True}}
    path, headers = f"/v2.1/servers/{guest.uuid}/action", {"OpenStack-API-Version": "compute 2.30"}
    begun = time.monotonic()
    answer = urllib3.request("POST", cloud.deployment.url + path, json=body, headers=headers)
    if answer.status == 409 and b"is unavailable" in answer.data:
        return None
    assert answer.status == 202, answer.data
    return begun


@contextmanager
def held(cloud: MovingCloud) -> Iterator[None]:
    """minova does not see what is done to the guest meanwhile."""
    computes = [host.compute for host in cloud.hosts.values()]
    for compute in computes:
        compute.signal(signal.SIGSTOP)
    try:
        yield
    finally:
        continued_at = datetime.now(UTC).replace(tzinfo=None).isoformat()
        for compute in computes:
            compute.signal(signal.SIGCONT)
        # A report from before counts until it is too old.
        wait_for("both hosts to report again", lambda: services_up(cloud, continued_at) == len(computes), 120)


def services_up(cloud: MovingCloud, since: str) -> int:
    """How many computes are up, and have reported since."""
    url = f"{cloud.deployment.url}/v2.1/os-services?binary=nova-compute"
    services = urllib3.request("GET", url).json()["services"]
    return sum(service["state"] == "up" and service["updated_at"] > since for service in services)


def by_libvirt(cloud: MovingCloud, guest: MovingGuest, bandwidth: int) -> list[Took]:
    """There and back: afterwards everything is where minova knows it."""
    home, away = cloud.hosts[guest.host], cloud.hosts[cloud.other(guest.host)]
    folder = away.folder / guest.uuid
    with held(cloud), copied_filters(home, away, guest):
        try:
            there = measured(home, away, guest, bandwidth, made=folder)
            # Its files are there still.
            back = measured(away, home, guest, bandwidth)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    return [there, back._replace(seconds=back.seconds + there.seconds - there.migrating)]


@contextmanager
def copied_filters(home: Host, away: Host, guest: MovingGuest) -> Iterator[None]:
    """The other host has the network filters of the guest's ports, too."""
    connections = [libvirt.open(host.libvirtd.uri) for host in (home, away)]
    try:
        names = filters_of(home.xml(guest.uuid))
        net_filters = [
            connections[1].nwfilterDefineXML(connections[0].nwfilterLookupByName(name).XMLDesc()) for name in names
        ]
        yield
        for each in net_filters:
            each.undefine()
    finally:
        for connection in connections:
            connection.close()


def measured(source: Host, destination: Host, guest: MovingGuest, bandwidth: int, made: Path | None = None) -> Took:
    events = Events(source, destination)
    begun = time.monotonic()
    if made is not None:
        make_files(source.folder / guest.uuid, made, (str(source.folder), str(destination.folder)))
    migrating = time.monotonic()
    migrate(source, destination, guest, bandwidth)
    ended = time.monotonic()
    took = Took(ended - begun, ended - migrating, events.still())
    events.close()
    return took


def make_files(source: Path, destination: Path, names: tuple[str, str]) -> None:
    """What libvirt wants to be there: an overlay on the same image, and the config drive."""
    destination.mkdir()
    shutil.copy(source / "disk.config", destination)
    base = str(backing_file(source / "disk", "qcow2")).replace(*names)
    size = virtual_size(source / "disk", "qcow2")
    command = [
        "qemu-img",
        "create",
        "-q",
        "-f",
        "qcow2",
        "-F",
        "qcow2",
        "-b",
        base,
        str(destination / "disk"),
        str(size),
    ]
    subprocess.run(command, check=True)


def migrate(source: Host, destination: Host, guest: MovingGuest, bandwidth: int) -> None:
    flags = libvirt.VIR_MIGRATE_LIVE | libvirt.VIR_MIGRATE_PEER2PEER | libvirt.VIR_MIGRATE_PERSIST_DEST
    address = destination.libvirtd.address
    connection = libvirt.open(source.libvirtd.uri)
    try:
        domain = connection.lookupByUUIDString(guest.uuid)
        xml = domain.XMLDesc(_XML).replace(str(source.folder), str(destination.folder))
        parameters = {
            libvirt.VIR_MIGRATE_PARAM_URI: f"tcp://{address}",
            libvirt.VIR_MIGRATE_PARAM_LISTEN_ADDRESS: address,
            libvirt.VIR_MIGRATE_PARAM_DEST_XML: xml,
            libvirt.VIR_MIGRATE_PARAM_PERSIST_XML: xml,
            libvirt.VIR_MIGRATE_PARAM_MIGRATE_DISKS: ["vda"],
            libvirt.VIR_MIGRATE_PARAM_BANDWIDTH: bandwidth,
        }
        flags |= libvirt.VIR_MIGRATE_NON_SHARED_INC | libvirt.VIR_MIGRATE_UNDEFINE_SOURCE
        domain.migrateToURI3(f"qemu+tcp://{address}/system", parameters, flags)
    finally:
        connection.close()


def p99(values: Sequence[float]) -> float:
    return sorted(values)[ceil(0.99 * len(values)) - 1]


def tell(what: str, minova: Sequence[float], alone: Sequence[float]) -> None:
    ratio, more = median(minova) / median(alone), median(minova) - median(alone)
    for name, values in (("minova", minova), ("libvirt", alone)):
        print(f"{what:12} {name:8} {len(values):3} median {median(values):5.2f} s  p99 {p99(values):5.2f} s")
    print(f"{what:12} ratio of the medians {ratio:.2f}, difference {more:+.2f} s", flush=True)


def main() -> None:
    options = parse(
        "live_migrations",
        __doc__,
        Option("rounds", 20, 2, "migrations of each kind"),
        Option("port", False, False, "the guest has a port with security groups"),
        Option("written", 0, 0, "MiB of its memory that the guest has written"),
        Option(
            "alike",
            False,
            False,
            "minova permits a downtime of 300 ms from the beginning, as libvirt does, not 45 as by default",
        ),
        Option("bandwidth", 0, 0, "MiB/s of the network between the hosts; 0: as fast as the loopback is"),
    )
    image = subprocess.run([ROOT / "tools" / "build-guest"], check=True, capture_output=True, text=True).stdout.strip()
    EVENT_LOOP.run()
    minova: list[Took] = []
    alone: list[Took] = []
    with (
        RabbitMQ() as rabbit,
        PostgreSQL() as database,
        tempfile.TemporaryDirectory(prefix="minova-live-") as folder,
        moving_cloud(
            Path(folder),
            rabbit.fresh_url(),
            database.fresh_url(),
            Path(image),
            defaults=USUAL,
            libvirt_options={"live_migration_bandwidth": options.bandwidth, **(ALIKE if options.alike else {})},
        ) as cloud,
    ):
        # A file in memory has half of it at most.
        cloud.cli("flavor", "create", "filled", "--ram", str(128 + 2 * options.written), "--disk", "1", "--vcpus", "1")
        guest = cloud.boot(network="lan" if options.port else "none", flavor="filled", written=options.written)
        by_minova(cloud, guest)  # both hosts have the image then
        life = guest.lives()[-1]
        while len(minova) < options.rounds:
            minova += [by_minova(cloud, guest) for _ in range(2)]
            alone += by_libvirt(cloud, guest, options.bandwidth)
        guest.require_counting_on(life)
    print(f"load {os.getloadavg()[0]:.1f}")
    tell("in all", [each.seconds for each in minova], [each.seconds for each in alone])
    tell("migrating", [each.migrating for each in minova], [each.migrating for each in alone])
    tell("stood still", [each.still for each in minova], [each.still for each in alone])
    for name in dict.fromkeys(phase for each in PHASES for phase in each):
        print(f"phase {name:10} median {median(each[name] for each in PHASES if name in each):5.2f} s")


if __name__ == "__main__":
    main()
