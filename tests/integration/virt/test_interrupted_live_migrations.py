"""Kills and cuts in a live migration of one guest, one after the other: after each the guest runs exactly once, where the resolver says."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import libvirt
import pytest

from minova.conductor.moves.resolver import MoveVerdict, resolve
from minova.conductor.moves.resolver import Side as ReportedSide
from minova.errors import GuestMissing, HypervisorError, MinovaError
from minova.objects.servers.live_migration import GuestSide, LiveOutcome, LiveProgress
from minova.virt.driver.domains import RowHost
from minova.virt.libvirt.guest_files import image_locks
from tests.integration.virt.live_pair import Pair, Side, make_pair
from tests.servers.libvirtd_peers import PeerLibvirtd
from tests.waiting import wait_for

__all__ = ["make_pair"]
pytestmark = pytest.mark.timeout(900)


def in_memory_phase(act: Callable[[], None]) -> Callable[[LiveProgress], None]:
    done = threading.Event()

    def progress(seen: LiveProgress) -> None:
        if seen.memory_processed > 1e6 and not done.is_set():
            done.set()
            act()

    return progress


def verdict(pair: Pair) -> MoveVerdict:
    """What the conductor decides, once libvirt no longer works on the migration."""

    def judged() -> MoveVerdict | None:
        reports = [side.driver.guest_side(pair.guest.uuid) for side in (pair.one, pair.two)]
        decision = resolve(ReportedSide(report=reports[0]), ReportedSide(report=reports[1]), new_attempt=pair.attempt)
        return None if decision is MoveVerdict.WAIT else decision

    decided = wait_for("a verdict", judged, 120)
    assert decided is not None
    return decided


def counts_on(side: Side, pair: Pair) -> None:
    before = side.ticks(pair.guest)[-1]
    wait_for("the count to go on", lambda: side.ticks(pair.guest)[-1] > before + 5, 60)


def failed(pair: Pair, progress: Callable[[LiveProgress], None]) -> None:
    """A migration that fails, whose guest stays at the source."""
    with pytest.raises(HypervisorError):
        pair.migrate(progress)


def stays(pair: Pair) -> None:
    assert verdict(pair) is MoveVerdict.SOURCE
    pair.two.driver.destroy(pair.guest.uuid, RowHost(host=pair.one.name))
    assert pair.sides() == (GuestSide.RUNNING, GuestSide.ABSENT)
    assert not (pair.two.folder / "instances" / pair.guest.uuid).exists()
    counts_on(pair.one, pair)


def revive(side: Side) -> None:
    side.libvirtd.start()
    wait_for("libvirt", lambda: _answers(side), 60)


def _answers(side: Side) -> bool:
    try:
        side.driver.domains()
    except HypervisorError:
        return False
    return True


def lift_bandwidth(pair: Pair) -> None:
    connection = libvirt.open(pair.one.libvirtd.uri)
    try:
        connection.lookupByUUIDString(pair.guest.uuid).migrateSetMaxSpeed(1000)
    finally:
        connection.close()


@contextmanager
def stopped(libvirtd: PeerLibvirtd) -> Iterator[None]:
    """It goes on after the block in any case: the migration waits for its answer without end."""
    assert libvirtd.pid is not None
    os.kill(libvirtd.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(libvirtd.pid, signal.SIGCONT)


def source_waits(pair: Pair) -> None:
    def waits() -> bool:
        return pair.one.driver.guest_side(pair.guest.uuid).side is GuestSide.PAUSED_BY_MIGRATION

    wait_for("the source to wait", waits, 60)


def lose_the_reply(pair: Pair) -> None:
    """The destination finishes, and its answer does not reach the source."""
    libvirtd = pair.two.libvirtd
    with stopped(libvirtd):
        lift_bandwidth(pair)
        source_waits(pair)
        libvirtd.network.run("iptables", "-A", "OUTPUT", "-p", "tcp", "--sport", "16509", "-j", "DROP")


def qemu_that_waits(instance_uuid: str) -> int:
    (pid,) = (
        int(path.parent.name)
        for path in Path("/proc").glob("[0-9]*/cmdline")
        if (words := path.read_bytes()).find(f"guest=instance-{instance_uuid}".encode()) > 0 and b"-incoming" in words
    )
    return pid


def kill_at_switchover(pair: Pair) -> None:
    """The destination's QEMU dies while it loads what the source has sent last."""
    with stopped(pair.two.libvirtd):
        lift_bandwidth(pair)
        source_waits(pair)
        os.kill(qemu_that_waits(pair.guest.uuid), signal.SIGKILL)


@pytest.mark.nightly("a minute and more of boots")
def test_the_guest_runs_exactly_once_after_each_fault(make_pair: Callable[..., Pair]) -> None:
    pair = make_pair(live_migration_bandwidth=4)
    pair.boot()

    failed(pair, in_memory_phase(pair.one.libvirtd.kill))
    revive(pair.one)
    stays(pair)

    failed(pair, in_memory_phase(pair.two.libvirtd.kill))
    revive(pair.two)
    stays(pair)

    # The source has sent the guest, and the destination loses it.
    outcome: LiveOutcome | None = None
    with suppress(MinovaError):
        outcome = pair.migrate(in_memory_phase(lambda: kill_at_switchover(pair)))
    if outcome is not None:
        assert outcome.handing_over
        with pytest.raises(GuestMissing):
            pair.hold()
    stays(pair)

    # libvirt tries to continue the guest at its source. Its disks are held there.
    assert pair.migrate(in_memory_phase(lambda: lose_the_reply(pair))).handing_over
    pair.hold()
    assert verdict(pair) is MoveVerdict.DESTINATION
    assert pair.sides() == (GuestSide.PAUSED_BY_MIGRATION, GuestSide.PAUSED)
    pair.two.libvirtd.network.run("iptables", "-F", "OUTPUT")
    # As if the destination had lost it: the source's guest is whole.
    pair.two.driver.destroy(pair.guest.uuid, RowHost(host=pair.one.name))
    assert verdict(pair) is MoveVerdict.SOURCE
    pair.one.driver.stay(pair.guest.uuid)
    stays(pair)

    # A process that was killed has left its migration to libvirt: the next one joins it.
    destination = pair.prepare()
    reached = threading.Event()

    def begin() -> LiveOutcome:
        return pair.one.driver.live_migrate(pair.guest, destination, in_memory_phase(reached.set))

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(begin)
        assert reached.wait(120)
        lift_bandwidth(pair)
        joined = pair.one.driver.live_migrate(pair.guest, destination, lambda seen: None)
        assert first.result().arrives_paused
    assert joined.arrives_paused
    assert verdict(pair) is MoveVerdict.DESTINATION
    pair.finish()
    counts_on(pair.two, pair)


@pytest.mark.nightly("half a minute until libvirt gives up")
def test_a_lost_reply_on_shared_disks_without_locks_leaves_one_guest(
    make_pair: Callable[..., Pair], monkeypatch: pytest.MonkeyPatch
) -> None:
    """libvirt continues the guest at its source. No lock would keep the destination's from writing the same disk, so it is paused."""
    pair = make_pair(shared=True, live_migration_bandwidth=4)
    pair.boot()
    monkeypatch.setattr(image_locks, "is_open", lambda path: False)
    failed(pair, in_memory_phase(lambda: lose_the_reply(pair)))
    pair.two.libvirtd.network.run("iptables", "-F", "OUTPUT")
    assert verdict(pair) is MoveVerdict.SOURCE
    assert pair.sides() == (GuestSide.RUNNING, GuestSide.PAUSED)
    pair.two.driver.destroy(pair.guest.uuid, RowHost(host=pair.one.name))
    assert pair.sides() == (GuestSide.RUNNING, GuestSide.ABSENT)
    counts_on(pair.one, pair)


@pytest.mark.nightly("a minute and more of boots")
def test_bug_a_guest_that_goes_off_has_not_arrived(make_pair: Callable[..., Pair]) -> None:
    """A process that has joined the migration has no answer of libvirt that says so."""
    pair = make_pair(live_migration_bandwidth=4)
    pair.boot()
    destination = pair.prepare()
    reached = threading.Event()

    def begin() -> LiveOutcome:
        return pair.one.driver.live_migrate(pair.guest, destination, in_memory_phase(reached.set))

    def switch_off() -> None:
        connection = libvirt.open(pair.one.libvirtd.uri)
        try:
            # What libvirt reports after a power off from inside: the process of the guest ends.
            connection.lookupByUUIDString(pair.guest.uuid).destroyFlags(libvirt.VIR_DOMAIN_DESTROY_GRACEFUL)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(begin)
        assert reached.wait(120)
        with pytest.raises(HypervisorError, match="has not left: shut off"):
            pair.one.driver.live_migrate(pair.guest, destination, in_memory_phase(switch_off))
        with pytest.raises(HypervisorError):
            first.result()
    assert verdict(pair) is MoveVerdict.SOURCE
    assert pair.sides() == (GuestSide.SHUT_OFF, GuestSide.ABSENT)
