"""Running guests migrate between two real hypervisors, with copied and with shared disks."""

from collections.abc import Callable

import libvirt
import msgspec
import pytest

from minova.errors import GuestStateUnexpected, HypervisorError, LiveMigrationAborted, PostCopyFailed
from minova.objects.network.vif import filter_name, network_name, tap_name
from minova.objects.servers.live_migration import GuestSide, LiveMode, LivePhase, LiveProgress
from minova.objects.servers.states import PowerState
from minova.virt.driver.domains import RowHost
from minova.virt.libvirt.guest_files import image_locks
from tests.integration.virt.guest_console import GuestConsole
from tests.integration.virt.live_pair import Pair, Side, ignore, make_pair
from tests.integration.virt.test_port_filters import vif
from tests.servers.authority import Authority
from tests.waiting import wait_for

__all__ = ["make_pair"]
pytestmark = pytest.mark.timeout(600)


@pytest.mark.nightly("test_live_migrations_by_the_api does so with all services")
def test_a_guest_migrates_with_its_disks_and_counts_on(make_pair: Callable[..., Pair]) -> None:
    pair = make_pair()
    pair.boot()
    seen: list[LiveProgress] = []
    outcome = pair.migrate(seen.append)
    assert outcome.arrives_paused
    # libvirt may have ended its source before the driver looked, so `outcome.handing_over` may be either.
    wait_for("libvirt to end it at its source", lambda: pair.sides() == (GuestSide.LEFT, GuestSide.PAUSED), 60)
    last = pair.one.ticks(pair.guest)[-1]
    pair.finish()
    wait_for("the count to go on", lambda: pair.two.ticks(pair.guest)[-1:] > [last + 10], 60)
    assert pair.sides() == (GuestSide.ABSENT, GuestSide.RUNNING)
    assert not (pair.one.folder / "instances" / pair.guest.uuid).exists()
    assert seen[-1].memory_total > 0
    # And back, which finds nothing of its own.
    pair.swap()
    pair.migrate()
    pair.finish()
    assert pair.two.driver.domains()[0].attempt == 3


def made_for_ports(side: Side) -> set[str]:
    """Filters and networks of guests."""
    connection = libvirt.open(side.libvirtd.uri)
    try:
        names = {each.name() for each in (*connection.listAllNWFilters(), *connection.listAllNetworks())}
        return {name for name in names if name.startswith("minova-")}
    finally:
        connection.close()


@pytest.mark.nightly("two boots; tests/unit/virt/libvirt/networking has the rules")
def test_filters_and_networks_follow_the_guest(make_pair: Callable[..., Pair]) -> None:
    port = vif(15)
    pair = make_pair(vifs=(port,))
    pair.boot()
    names = {filter_name(port.port_id), network_name(port.network_id)}
    assert names <= made_for_ports(pair.one)
    # Prepared only: a sweep in between leaves the filter that the guest will need, and the rollback leaves nothing.
    pair.prepare()
    pair.two.driver.refresh_interfaces({})
    assert names <= made_for_ports(pair.two)
    pair.two.driver.destroy(pair.guest.uuid, RowHost(host=pair.one.name))
    assert not made_for_ports(pair.two)
    pair.migrate()
    pair.finish()
    assert names <= made_for_ports(pair.two)
    assert not made_for_ports(pair.one)
    link = pair.two.libvirtd.network.run("ip", "-o", "link", "show", tap_name(port.port_id))
    assert " master " in link


def test_a_guest_on_shared_disks_migrates_without_a_pause(make_pair: Callable[..., Pair]) -> None:
    pair = make_pair(shared=True)
    pair.boot()
    destination = pair.prepare()
    assert (destination.mode, destination.unlocked) == (LiveMode.SHARED, False)
    outcome = pair.one.driver.live_migrate(pair.guest, destination, ignore)
    assert not outcome.arrives_paused
    assert pair.sides() == (GuestSide.LEFT, GuestSide.RUNNING)
    pair.finish()
    assert (pair.two.folder / "instances" / pair.guest.uuid / "disk").exists()
    last = pair.two.ticks(pair.guest)[-1]
    wait_for("the count to go on", lambda: pair.two.ticks(pair.guest)[-1] > last + 10, 60)


def test_a_guest_on_shared_disks_without_locks_arrives_paused(
    make_pair: Callable[..., Pair], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on NFS with `nolock`: the destination sees no lock of the source's QEMU. Post-copy is impossible then."""
    pair = make_pair(shared=True, live_migration_permit_post_copy=True)
    pair.boot()
    monkeypatch.setattr(image_locks, "is_open", lambda path: False)
    destination = pair.prepare()
    assert (destination.mode, destination.unlocked) == (LiveMode.SHARED, True)
    outcome = pair.one.driver.live_migrate(pair.guest, destination, ignore)
    assert (outcome.arrives_paused, outcome.handing_over) == (True, False)
    assert pair.sides() == (GuestSide.LEFT, GuestSide.PAUSED)
    pair.finish()
    last = pair.two.ticks(pair.guest)[-1]
    wait_for("the count to go on", lambda: pair.two.ticks(pair.guest)[-1] > last + 10, 60)


@pytest.mark.nightly("a boot more")
def test_bug_guest_that_sleeps_migrates(make_pair: Callable[..., Pair]) -> None:
    """It wakes first, and counts on."""
    pair = make_pair(shared=True)
    pair.boot()
    console = GuestConsole(pair.one.libvirtd.uri, pair.guest.uuid, lambda: pair.one.log(pair.guest))
    console.ask("true; (sleep 1; echo mem >/sys/power/state) >/dev/null 2>&1 & echo begun")
    wait_for("sleep", lambda: pair.one.driver.power_state(pair.guest.uuid) is PowerState.SUSPENDED, 60)
    pair.migrate()
    pair.finish()
    last = pair.two.ticks(pair.guest)[-1]
    wait_for("the count to go on", lambda: pair.two.ticks(pair.guest)[-1] > last + 10, 60)


def in_phase(
    pair: Pair, act: Callable[[], None], when: Callable[[LiveProgress], bool]
) -> Callable[[LiveProgress], None]:
    """Returns a progress that acts once, in a phase."""
    acted: list[bool] = []

    def progress(seen: LiveProgress) -> None:
        if not acted and when(seen):
            acted.append(True)
            act()

    return progress


@pytest.mark.nightly("a minute; tests/faults has each abort with fake guests")
def test_an_abort_leaves_the_guest_and_a_retry_works(make_pair: Callable[..., Pair]) -> None:
    pair = make_pair(live_migration_bandwidth=4)
    pair.boot()
    abort = in_phase(
        pair, lambda: pair.one.driver.abort_live(pair.guest.uuid), lambda seen: seen.memory_processed > 1e6
    )
    with pytest.raises(LiveMigrationAborted):
        pair.migrate(abort)
    assert pair.sides() == (GuestSide.RUNNING, GuestSide.ABSENT)
    with pytest.raises(GuestStateUnexpected):
        pair.one.driver.abort_live(pair.guest.uuid)
    pair.two.driver.destroy(pair.guest.uuid, RowHost(host=pair.one.name))
    assert not (pair.two.folder / "instances" / pair.guest.uuid).exists()
    force = in_phase(
        pair, lambda: pair.one.driver.force_complete_live(pair.guest.uuid), lambda seen: seen.memory_processed > 1e6
    )
    outcome = pair.migrate(force)
    assert outcome.arrives_paused
    pair.finish()


@pytest.mark.nightly("a boot more")
def test_a_timeout_aborts(make_pair: Callable[..., Pair]) -> None:
    pair = make_pair(live_migration_bandwidth=1, live_migration_completion_timeout=2)
    pair.boot()
    with pytest.raises(LiveMigrationAborted):
        pair.migrate()
    assert pair.sides() == (GuestSide.RUNNING, GuestSide.ABSENT)


@pytest.mark.nightly("a boot more")
def test_post_copy_of_a_guest_on_shared_disks(make_pair: Callable[..., Pair]) -> None:
    pair = make_pair(shared=True, live_migration_bandwidth=4, live_migration_permit_post_copy=True)
    pair.boot()
    phases: list[LivePhase] = []
    switch = in_phase(
        pair, lambda: pair.one.driver.force_complete_live(pair.guest.uuid), lambda seen: seen.memory_processed > 1e6
    )

    def progress(seen: LiveProgress) -> None:
        phases.append(seen.phase)
        switch(seen)

    outcome = pair.migrate(progress)
    assert LivePhase.POST_COPY in phases
    assert outcome.post_copy
    pair.finish()


@pytest.mark.nightly("a boot more")
def test_a_post_copy_whose_network_is_cut_is_noticed(make_pair: Callable[..., Pair]) -> None:
    options = {"live_migration_permit_post_copy": True, "live_migration_post_copy_stall": 5}
    pair = make_pair(shared=True, live_migration_bandwidth=4, **options)
    pair.boot()
    switch = in_phase(
        pair, lambda: pair.one.driver.force_complete_live(pair.guest.uuid), lambda seen: seen.memory_processed > 1e6
    )
    cut = in_phase(
        pair,
        lambda: print(pair.two.libvirtd.network.run("ip", "link", "set", "cable", "down")),
        lambda seen: seen.phase is LivePhase.POST_COPY,
    )

    def progress(seen: LiveProgress) -> None:
        switch(seen)
        cut(seen)

    with pytest.raises(PostCopyFailed):
        pair.migrate(progress)
    assert set(pair.sides()) <= {GuestSide.POST_COPY, GuestSide.POST_COPY_FAILED}
    with pytest.raises(GuestStateUnexpected):
        pair.one.driver.abort_live(pair.guest.uuid)
    # The source ends its part of the guest, which has the disks open (phase `close`); then the user reboots the server hard.
    moved = msgspec.structs.replace(pair.guest, host=pair.two.name, node=pair.two.node, attempt=pair.attempt)
    with pytest.raises(HypervisorError, match="the guest is not down"):
        pair.two.driver.hard_reboot(moved)
    pair.one.driver.power_off(pair.guest.uuid)
    assert pair.one.driver.guest_side(pair.guest.uuid).side is GuestSide.SHUT_OFF
    assert pair.two.driver.hard_reboot(moved) is PowerState.RUNNING
    assert pair.two.driver.power_state(pair.guest.uuid) is PowerState.RUNNING


# Parallel connections are the harder case.
@pytest.mark.parametrize("connections", [pytest.param(1, marks=pytest.mark.nightly("the easier case")), 2])
def test_a_guest_migrates_over_tls(make_pair: Callable[..., Pair], authority: Authority, connections: int) -> None:
    pair = make_pair(
        authority=authority, live_migration_with_native_tls=True, live_migration_parallel_connections=connections
    )
    pair.boot()
    destination = pair.prepare()
    assert destination.uri.startswith("qemu+tls://")
    assert destination.tls_name == "hv2"
    wrong = msgspec.structs.replace(destination, tls_name="hv3")
    with pytest.raises(HypervisorError, match=r"[Cc]ertificate|TLS|hostname"):
        pair.one.driver.live_migrate(pair.guest, wrong, ignore)
    assert pair.sides() == (GuestSide.RUNNING, GuestSide.ABSENT)
    pair.one.driver.live_migrate(pair.guest, destination, ignore)
    pair.finish()
