"""A live migration by the driver against libvirt alone with the same guest, in turns: seconds in all, and for which the guest stood still.

Both copy the disks. The guest stands still from libvirt's event at the source to the event that it runs at the destination.
"""

import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import NamedTuple

import libvirt

from minova.objects.servers.live_migration import LiveDestination
from tests.benchmarks.command_line import Option, parse
from tests.cluster import wait_for
from tests.integration.virt.live_pair import Pair, ignore, live_pair

ROOT = Path(__file__).parents[3]


class Took(NamedTuple):
    seconds: float
    still: float


class Events:
    """When the guest was suspended and resumed, on either host."""

    def __init__(self, pair: Pair) -> None:
        self.seen: list[tuple[int, float]] = []
        self._connections = [libvirt.open(side.libvirtd.uri) for side in (pair.one, pair.two)]
        for connection in self._connections:
            connection.domainEventRegisterAny(None, libvirt.VIR_DOMAIN_EVENT_ID_LIFECYCLE, self._note, None)

    def _note(self, _c: object, _d: object, event: int, _detail: int, _o: object) -> None:
        self.seen.append((event, time.monotonic()))

    def still(self) -> float:
        """Seconds between the last suspension and what followed."""
        suspended = next(when for event, when in self.seen if event == libvirt.VIR_DOMAIN_EVENT_SUSPENDED)
        return max(when for event, when in self.seen if event == libvirt.VIR_DOMAIN_EVENT_RESUMED) - suspended

    def has_resumed(self) -> bool:
        return any(event == libvirt.VIR_DOMAIN_EVENT_RESUMED for event, _ in self.seen)


def by_minova(pair: Pair, destination: LiveDestination) -> None:
    pair.one.driver.live_migrate(pair.guest, destination, ignore)
    pair.two.driver.arrive(pair.guest, pair.attempt)


def by_libvirt(pair: Pair, destination: LiveDestination) -> None:
    """What `virsh migrate --live --p2p --persistent --copy-storage-inc` asks of libvirt."""
    flags = libvirt.VIR_MIGRATE_LIVE | libvirt.VIR_MIGRATE_PEER2PEER | libvirt.VIR_MIGRATE_PERSIST_DEST
    parameters = {
        libvirt.VIR_MIGRATE_PARAM_URI: f"tcp://{destination.address}",
        libvirt.VIR_MIGRATE_PARAM_LISTEN_ADDRESS: destination.address,
        libvirt.VIR_MIGRATE_PARAM_DEST_XML: destination.xml,
        libvirt.VIR_MIGRATE_PARAM_PERSIST_XML: destination.persistent_xml,
        libvirt.VIR_MIGRATE_PARAM_MIGRATE_DISKS: list(destination.copied),
    }
    connection = libvirt.open(pair.one.libvirtd.uri)
    try:
        domain = connection.lookupByUUIDString(pair.guest.uuid)
        domain.migrateToURI3(destination.uri, parameters, flags | libvirt.VIR_MIGRATE_NON_SHARED_INC)
    finally:
        connection.close()


def measured(pair: Pair, migrate: Callable[[Pair, LiveDestination], None]) -> Took:
    destination, events = pair.prepare(), Events(pair)
    begun = time.monotonic()
    migrate(pair, destination)
    seconds = time.monotonic() - begun
    wait_for("the guest to run at the destination", events.has_resumed, 30)
    pair.finish()
    pair.swap()
    return Took(seconds, events.still())


def main() -> None:
    options = parse("live_migrations", __doc__, Option("rounds", 5, 1, "migrations of each kind"))
    image = subprocess.run([ROOT / "tools" / "build-guest"], check=True, capture_output=True, text=True).stdout.strip()
    found: dict[str, list[Took]] = {"minova": [], "libvirt": []}
    with tempfile.TemporaryDirectory(prefix="minova-live-") as name, live_pair(Path(name), Path(image)) as pair:
        pair.boot()
        for _ in range(options.rounds):
            found["minova"].append(measured(pair, by_minova))
            found["libvirt"].append(measured(pair, by_libvirt))
    for kind, took in found.items():
        seconds, still = median(each.seconds for each in took), median(each.still for each in took)
        print(f"{kind:8} {seconds:6.2f} s in all, the guest stood still for {still:.2f} s")


if __name__ == "__main__":
    main()
