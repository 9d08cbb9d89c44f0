"""A process dies in the middle of a move of a real guest, by the API: afterwards the guest runs exactly once, where its row says, from the
disk and with the memory that it had, and nothing else is left.

The cells are a part of the table of tests/faults/test_crash_table_of_moves.py, whose guests are not real.
"""

import os
import signal
import time
from collections.abc import Callable
from typing import NamedTuple

import libvirt
import pytest

from minova.objects.servers.moves import MovePhase
from tests.integration.virt.moving_cloud import Host, MovingCloud, MovingGuest, make_moving_cloud
from tests.waiting import wait_for

__all__ = ["make_moving_cloud"]
pytestmark = [
    pytest.mark.timeout(1800),
    pytest.mark.nightly(
        "kills at each step on real hosts; tests/faults/test_crash_table_of_moves.py has them on fake ones"
    ),
]
SOURCE, DESTINATION, CONDUCTOR = "source's compute", "destination's compute", "conductor"
SOURCE_LIBVIRTD, DESTINATION_LIBVIRTD, REPLY = "source's libvirtd", "destination's libvirtd", "reply"
LIVE_PHASES = ("schedule", "queue", "describe", "check", "prepare", "migrate", "arrive", "leave")
COLD_PHASES = ("schedule", "claim", "export", "import", "release", "start")
LIVE = (
    (SOURCE, MovePhase.DESCRIBE),
    (DESTINATION, MovePhase.PREPARE),
    (CONDUCTOR, MovePhase.PREPARE),
    (SOURCE, MovePhase.MIGRATE),
    (DESTINATION, MovePhase.MIGRATE),
    (CONDUCTOR, MovePhase.MIGRATE),
    (SOURCE_LIBVIRTD, MovePhase.MIGRATE),
    (DESTINATION_LIBVIRTD, MovePhase.MIGRATE),
    (REPLY, MovePhase.MIGRATE),
    (DESTINATION, MovePhase.ARRIVE),
    (CONDUCTOR, MovePhase.ARRIVE),
    (SOURCE, MovePhase.LEAVE),
)
COLD = (
    (DESTINATION, MovePhase.CLAIM),
    (SOURCE, MovePhase.EXPORT),
    (CONDUCTOR, MovePhase.EXPORT),
    (SOURCE_LIBVIRTD, MovePhase.EXPORT),
    (SOURCE, MovePhase.IMPORT),
    (DESTINATION, MovePhase.IMPORT),
    (CONDUCTOR, MovePhase.IMPORT),
    (DESTINATION, MovePhase.START),
    (CONDUCTOR, MovePhase.START),
    (DESTINATION_LIBVIRTD, MovePhase.START),
)
REVERTS = ((DESTINATION, MovePhase.DISCARD), (SOURCE, MovePhase.RESTORE), (CONDUCTOR, MovePhase.RESTORE))
# Slow enough to be met in the middle.
MIB_PER_SECOND = 8
IN_THE_MIDDLE = 4 << 20


class Move(NamedTuple):
    cloud: MovingCloud
    guest: MovingGuest
    source: Host
    destination: Host

    def await_phase(self, wanted: MovePhase, order: tuple[str, ...]) -> str:
        """Returns the phase that was found: this one, or one that follows."""

        def reached() -> str | None:
            phase = self.cloud.phase(self.guest.uuid)
            return phase if phase in order[order.index(wanted) :] else None

        return str(wait_for(f"phase {wanted}", reached, 60))

    def kill(self, what: str) -> None:
        """And start it again."""
        if what == REPLY:
            self._lose_the_reply()
            return
        host = self.source if what in {SOURCE, SOURCE_LIBVIRTD} else self.destination
        if what in {SOURCE_LIBVIRTD, DESTINATION_LIBVIRTD}:
            host.libvirtd.kill()
            host.libvirtd.start()
            return
        services = self.cloud.deployment.services
        service = services["conductor"] if what == CONDUCTOR else host.compute
        service.kill()
        service.start()

    def _lose_the_reply(self) -> None:
        """The destination's libvirtd finishes the migration, and its answer does not reach the source's."""
        libvirtd = self.destination.libvirtd
        assert libvirtd.pid is not None
        os.kill(libvirtd.pid, signal.SIGSTOP)
        connection = libvirt.open(self.source.libvirtd.uri)
        domain = connection.lookupByUUIDString(self.guest.uuid)
        domain.migrateSetMaxSpeed(1000)
        handed_over = [libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PAUSED_MIGRATION]
        wait_for("the source to wait", lambda: domain.state() == handed_over, 60)
        connection.close()
        libvirtd.network.run("iptables", "-A", "OUTPUT", "-p", "tcp", "--sport", "16509", "-j", "DROP")
        os.kill(libvirtd.pid, signal.SIGCONT)

    def let_replies_through(self) -> None:
        self.destination.libvirtd.network.run("iptables", "-F", "OUTPUT")

    def end(self) -> str:
        """Returns the state of the server once nothing works on it any more, and no host owes anything."""
        wait_for("the end of the move", self._is_over, 240)
        return str(self.guest.row.vm_state)

    def status(self) -> str:
        return self.cloud.migration(self.guest.uuid).status

    def _is_over(self) -> bool:
        return self.guest.is_at_rest() and self.cloud.migration(self.guest.uuid).cleanup_host is None


def begun(guest: MovingGuest) -> Move:
    hosts = guest.cloud.hosts
    return Move(guest.cloud, guest, hosts[guest.host], hosts[guest.cloud.other(guest.host)])


def revive(move: Move) -> None:
    """Before the next cell: all services are up."""
    move.cloud.deployment.wait_up(timeout=120)


@pytest.mark.parametrize("cells", [LIVE[:6], LIVE[6:]], ids=["first", "second"])
def test_a_guest_runs_once_after_a_kill_in_its_live_migration(
    make_moving_cloud: Callable[..., MovingCloud], cells: tuple[tuple[str, MovePhase], ...]
) -> None:
    guest = make_moving_cloud(libvirt_options={"live_migration_bandwidth": MIB_PER_SECOND}).boot()
    for killed, phase in cells:
        life, move, started = guest.lives()[-1], begun(guest), time.monotonic()
        guest.cloud.cli("server", "migrate", "--live-migration", guest.uuid)
        reached_phase = move.await_phase(phase, LIVE_PHASES)
        if phase is MovePhase.MIGRATE:
            wait_for("the memory to be copied", lambda: guest.copied() > IN_THE_MIDDLE, 60)
        move.kill(killed)
        if killed == REPLY:
            wait_for("the source to have given up", lambda: guest.cloud.phase(guest.uuid) != "migrate", 120)
            move.let_replies_through()
        state = move.end()
        print(f"live | {killed} in {reached_phase} | {move.status()} | {time.monotonic() - started:.0f} s")
        assert state == "active", guest.cloud.deployment.logs()
        guest.require_counting_on(life)
        revive(move)
        wait_for("nothing to be left", lambda: guest.is_only(guest.host))
        guest.require_only(guest.host)


@pytest.mark.parametrize("cells", [COLD[:5], COLD[5:]], ids=["first", "second"])
def test_a_guest_runs_once_after_a_kill_in_its_cold_migration(
    make_moving_cloud: Callable[..., MovingCloud], cells: tuple[tuple[str, MovePhase], ...]
) -> None:
    guest = make_moving_cloud().boot()
    for killed, phase in cells:
        boots, move, started = guest.boots(), begun(guest), time.monotonic()
        guest.cloud.cli("server", "migrate", guest.uuid)
        reached_phase = move.await_phase(phase, COLD_PHASES)
        move.kill(killed)
        state = move.end()
        print(f"cold | {killed} in {reached_phase} | {move.status()} | {time.monotonic() - started:.0f} s")
        assert state in {"active", "resized"}, guest.cloud.deployment.logs()
        revive(move)
        if state == "resized":
            guest.require_booted(boots + 1)
            confirm(guest)
        wait_for("nothing to be left", lambda: guest.is_only(guest.host))
        guest.require_only(guest.host)
        guest.require_counting()
        # One whose move was taken back before it was off has not been started anew.
        assert guest.boots() in {boots, boots + 1}


def test_a_guest_runs_once_after_a_kill_in_a_revert_or_a_confirmation(
    make_moving_cloud: Callable[..., MovingCloud],
) -> None:
    guest = make_moving_cloud().boot()
    cli = guest.cloud.cli
    for killed, phase in REVERTS:
        move, started = begun(guest), time.monotonic()
        cli("server", "migrate", "--wait", guest.uuid)
        cli("server", "resize", "revert", guest.uuid)
        reached_phase = move.await_phase(phase, ("discard", "restore"))
        move.kill(killed)
        assert move.end() == "active", guest.cloud.deployment.logs()
        print(f"revert | {killed} in {reached_phase} | {time.monotonic() - started:.0f} s")
        assert guest.host == move.source.name
        revive(move)
        guest.require_only(guest.host)
        guest.require_counting()
    for killed in (SOURCE, CONDUCTOR):
        move, started = begun(guest), time.monotonic()
        cli("server", "migrate", "--wait", guest.uuid)
        cli("server", "migration", "confirm", guest.uuid)
        move.kill(killed)
        assert move.end() == "active", guest.cloud.deployment.logs()
        print(f"confirm | {killed} | {time.monotonic() - started:.0f} s")
        assert guest.host == move.destination.name
        revive(move)
        wait_for("nothing to be left", lambda: guest.is_only(guest.host))
        guest.require_only(guest.host)
        guest.require_counting()


def confirm(guest: MovingGuest) -> None:
    guest.cloud.cli("server", "migration", "confirm", guest.uuid)
    guest.cloud.deployment.wait_status(guest.uuid, "ACTIVE")
