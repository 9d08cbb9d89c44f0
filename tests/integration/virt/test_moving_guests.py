"""A guest that counts, writes memory and answers pings goes from host to host by the API, by real QEMU, again and again.

test_live_migrations_by_the_api.py has a short one for each day.
"""

import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import libvirt
import pytest

from tests.integration.virt.moving_cloud import CLOSED, OPEN, MovingCloud, MovingGuest, make_moving_cloud
from tests.servers.authority import Authority
from tests.waiting import wait_for

__all__ = ["make_moving_cloud"]
pytestmark = [
    pytest.mark.timeout(1200),
    pytest.mark.nightly("moves again and again, for half an hour"),
]
TIMES = 5
COLD_TIMES = 3
# Seconds without an answer. Switches that have not learnt where the guest is now need more than 30.
LONGEST_GAP = 20.0
POST_COPY = f"{libvirt.VIR_DOMAIN_EVENT_SUSPENDED} {libvirt.VIR_DOMAIN_EVENT_SUSPENDED_POSTCOPY}\n"
# In a process of its own: an event loop is for all connections of a process.
SHOW_EVENTS = """\
import sys, libvirt
libvirt.virEventRegisterDefaultImpl()
connection = libvirt.openReadOnly(sys.argv[1])
def show(connection, domain, event, detail, opaque):
    print(event, detail, flush=True)
connection.domainEventRegisterAny(None, libvirt.VIR_DOMAIN_EVENT_ID_LIFECYCLE, show, None)
print("listens", flush=True)
while True:
    libvirt.virEventRunDefaultImpl()
"""


@contextmanager
def answering(guest: MovingGuest) -> Iterator[None]:
    """The guest answers pings all the while, and one connection lasts."""
    address, lan = guest.address, guest.cloud.lan

    def connected() -> socket.socket | None:
        try:
            return lan.connect(address, OPEN)
        except OSError:  # the guest does not listen yet, or not again
            return None

    talk = wait_for("a connection", connected, 60)
    assert talk is not None
    with talk, lan.pings(address) as pings:
        wait_for("answers", lambda: pings.answered > 10)
        yield
        before = pings.answered
        wait_for("more answers", lambda: pings.answered > before + 10)
        assert pings.longest_gap() < LONGEST_GAP
        talk.sendall(b"still there\n")
        assert talk.recv(100) == b"still there\n"
        print(f"the longest time without an answer: {pings.longest_gap():.2f} s")


def require_groups(guest: MovingGuest) -> None:
    address, lan = guest.address, guest.cloud.lan
    wait_for("the open port", lambda: lan.is_open(address, OPEN), 60)
    assert not lan.is_open(address, CLOSED)


def test_a_guest_on_local_disks_migrates_live(make_moving_cloud: Callable[..., MovingCloud]) -> None:
    guest = make_moving_cloud().boot()
    require_groups(guest)
    for options in ((), ("--block-migration",)):
        life = guest.lives()[-1]
        with answering(guest):
            for _ in range(TIMES):
                guest.migrate_live(*options)
                life = guest.require_counting_on(life)
                guest.require_only(guest.host)
        require_groups(guest)
    require_pause(guest)


def test_a_guest_on_shared_disks_migrates_live(make_moving_cloud: Callable[..., MovingCloud]) -> None:
    guest = make_moving_cloud(shared=True).boot()
    life = guest.lives()[-1]
    with answering(guest):
        for number in range(TIMES):
            guest.migrate_live(*(["--shared-migration"] if number % 2 else []))
            life = guest.require_counting_on(life)
            guest.require_only(guest.host)
    require_groups(guest)
    require_pause(guest)


def require_pause(guest: MovingGuest) -> None:
    """A paused guest arrives paused, and goes on when it is told to."""
    cli = guest.cloud.cli
    cli("server", "pause", "--wait", guest.uuid)
    life = guest.lives()[-1]
    for _ in range(TIMES):
        guest.migrate_live()
        assert guest.cloud.hosts[guest.host].states() == {guest.uuid: libvirt.VIR_DOMAIN_PAUSED}
        assert guest.lives()[-1] == life
    cli("server", "unpause", "--wait", guest.uuid)
    guest.require_counting_on(life)
    guest.require_only(guest.host)


@contextmanager
def switches_to_post_copy(guest: MovingGuest) -> Iterator[Callable[[], int]]:
    """Gives how many migrations have stopped the guest at its source to go on at its destination, by libvirt's events of both hosts."""
    with ExitStack() as stack:
        files = []
        for name, host in guest.cloud.hosts.items():
            files.append(guest.cloud.deployment.folder / f"events-{name}")
            file = stack.enter_context(files[-1].open("w"))
            process = subprocess.Popen([sys.executable, "-c", SHOW_EVENTS, host.libvirtd.uri], stdout=file)
            stack.callback(process.wait)
            stack.callback(process.kill)
        wait_for("the listeners", lambda: all(file.read_text().startswith("listens") for file in files))
        yield lambda: sum(file.read_text().count(POST_COPY) for file in files)


def test_a_guest_migrates_by_post_copy(make_moving_cloud: Callable[..., MovingCloud]) -> None:
    options = {"live_migration_permit_post_copy": True, "live_migration_bandwidth": 8}
    guest = make_moving_cloud(shared=True, libvirt_options=options).boot()
    cli, life = guest.cloud.cli, guest.lives()[-1]
    with answering(guest), switches_to_post_copy(guest) as switches:
        for number in range(TIMES):
            left = guest.host
            cli("server", "migrate", "--live-migration", guest.uuid)
            wait_for("the memory to be copied", lambda: guest.copied() > 4 << 20, 60)
            shown = guest.cloud.deployment.json("server", "migration", "list", "--server", guest.uuid)
            cli("server", "migration", "force", "complete", guest.uuid, str(shown[0]["Id"]))
            wait_for("the guest to have moved", lambda left=left: guest.is_at_rest() and guest.host != left, 120)  # type: ignore[misc]
            wait_for("the event", lambda number=number: switches() == number + 1)  # type: ignore[misc]
            life = guest.require_counting_on(life)
            guest.require_only(guest.host)
    require_groups(guest)


def test_a_guest_migrates_over_tls(make_moving_cloud: Callable[..., MovingCloud], authority: Authority) -> None:
    guest = make_moving_cloud(authority=authority, libvirt_options={"live_migration_with_native_tls": True}).boot()
    life = guest.lives()[-1]
    for _ in range(2):
        left = guest.migrate_live()
        life = guest.require_counting_on(life)
        guest.require_only(guest.host)
    # A destination without the certificates that its source demands.
    (guest.cloud.hosts[left].libvirtd.directory / "pki" / "qemu" / "server-cert.pem").unlink()
    host = guest.host
    guest.cloud.cli("server", "migrate", "--live-migration", "--wait", guest.uuid, check=False)
    guest.cloud.deployment.wait_status(guest.uuid, "ACTIVE")
    assert guest.host == host
    guest.require_counting_on(life)


def test_a_guest_moves_cold_and_is_resized(make_moving_cloud: Callable[..., MovingCloud]) -> None:
    guest = make_moving_cloud().boot()
    cloud, cli = guest.cloud, guest.cloud.cli
    for number in range(COLD_TIMES):
        left, before = guest.host, guest.lives()[-1]
        cli("server", "migrate", "--wait", guest.uuid)
        cloud.deployment.wait_status(guest.uuid, "VERIFY_RESIZE")
        assert guest.host != left
        life = guest.require_booted(number + 2)
        assert life.boot != before.boot
        # It was told to shut down, and had the time for it.
        assert guest.log().count("MINOVA-GUEST POWERBUTTON") == number + 1
        cli("server", "migration", "confirm", guest.uuid)
        cloud.deployment.wait_status(guest.uuid, "ACTIVE")
        wait_for("the source's copy to go", lambda left=left: guest.uuid not in cloud.hosts[left].known())  # type: ignore[misc]
        guest.require_only(guest.host)
        require_groups(guest)
        # What goes along: the log of the console.
        assert f"MINOVA-GUEST BOOTS {number + 1}\n" in guest.log()


def test_a_guest_whose_image_was_deleted_moves(make_moving_cloud: Callable[..., MovingCloud]) -> None:
    """Its disk is on top of the image, which comes along from the source."""
    guest = make_moving_cloud().boot(network="none")
    cloud, cli, life = guest.cloud, guest.cloud.cli, guest.lives()[-1]
    cli("image", "delete", "guest")
    guest.migrate_live()
    guest.require_counting_on(life)
    guest.require_only(guest.host)
    # The host to which it returns has forgotten the image.
    left = cloud.other(guest.host)
    for path in (cloud.hosts[left].folder / "_base").glob("[0-9a-f]*"):
        path.unlink()
    cli("server", "migrate", "--wait", guest.uuid)
    cloud.deployment.wait_status(guest.uuid, "VERIFY_RESIZE")
    assert guest.host == left
    guest.require_booted(2)
    cli("server", "migration", "confirm", guest.uuid)
    wait_for("nothing to be left", lambda: guest.is_only(left))
