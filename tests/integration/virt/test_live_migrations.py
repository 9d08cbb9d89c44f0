"""Running guests migrate between two real hypervisors, with copied and with shared disks."""

import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest

from minova.errors import GuestStateUnexpected, HypervisorError, LiveMigrationAborted, PostCopyFailed
from minova.objects.servers.disk_export import TransferKey
from minova.objects.servers.instance import Instance
from minova.objects.servers.live_migration import (
    GuestSide,
    LiveDestination,
    LiveMode,
    LiveOutcome,
    LivePhase,
    LiveProgress,
)
from minova.objects.servers.states import PowerState
from minova.virt.driver.domains import RowHost
from tests.cluster import wait_for
from tests.integration.virt.guest_console import GuestConsole
from tests.integration.virt.test_guest import instance, load
from tests.servers.authority import Authority
from tests.servers.libvirtd_peers import PeerLibvirtd, peers

pytestmark = pytest.mark.timeout(600)
MOVE = "5f6bbd5a-1f8a-4b5f-8f57-6a1c3a3b9d01"
TICKS = "{ i=0; while :; do i=$((i+1)); echo TICK $i; sleep 0.1; done; } >/dev/console 2>&1 & echo begun"


def ignore(_: LiveProgress) -> None:
    """Nobody looks."""


class Side:
    def __init__(self, libvirtd: PeerLibvirtd, folder: Path, image: Path, **options: Any) -> None:
        folder.mkdir(exist_ok=True)
        self.libvirtd, self.folder, self.image = libvirtd, folder, image
        self.name = libvirtd.host
        self.driver = load(
            folder,
            libvirtd.uri,
            host=libvirtd.host,
            proc_net=libvirtd.proc_net,
            live_migration_inbound_addr=libvirtd.address,
            **options,
        )
        (self.node,) = self.driver.available_nodes()

    def log(self, guest: Instance) -> str:
        path = self.folder / "instances" / guest.uuid / "console.log"
        return path.read_text(errors="replace").replace("\r", "") if path.exists() else ""

    def ticks(self, guest: Instance) -> list[int]:
        return [int(number) for number in re.findall(r"^TICK (\d+)$", self.log(guest), re.MULTILINE)]

    def close(self) -> None:
        for domain in self.driver.domains():
            self.driver.destroy(domain.uuid)
        self.driver.close()


class Pair:
    """Two hosts and a guest that counts aloud on the first one."""

    def __init__(self, one: Side, two: Side, guest: Instance) -> None:
        self.one, self.two, self.guest, self.attempt = one, two, guest, 1

    def boot(self) -> None:
        self.one.driver.prepare(self.guest, self.one.node, 1, self.one.image)
        self.one.driver.power_on(self.guest)
        wait_for("READY", lambda: "MINOVA-GUEST READY" in self.one.log(self.guest), 120)
        console = GuestConsole(self.one.libvirtd.uri, self.guest.uuid, lambda: self.one.log(self.guest))
        assert console.ask(TICKS) == "begun"
        wait_for("ticks", lambda: self.one.ticks(self.guest), 60)

    def prepare(self) -> LiveDestination:
        key = TransferKey(identity=MOVE, secret=secrets.token_hex(32))
        source = self.one.driver.live_source(self.guest, MOVE, key)
        self.two.driver.check_live(self.guest, source, block=None)
        self.attempt += 1
        found = self.two.driver.prepare_live(
            self.guest, self.two.node, self.attempt, source, key, self.two.image, lambda: None
        )
        self.one.driver.stop_export(MOVE)
        return found

    def migrate(self, progress: Callable[[LiveProgress], None] = ignore) -> LiveOutcome:
        return self.one.driver.live_migrate(self.guest, self.prepare(), progress)

    def finish(self) -> None:
        """What follows after the row has the destination's name."""
        assert self.two.driver.arrive(self.guest, self.attempt) is PowerState.RUNNING
        self.one.driver.destroy(self.guest.uuid, RowHost(host=self.two.name))

    def sides(self) -> tuple[GuestSide, GuestSide]:
        return self.one.driver.guest_side(self.guest.uuid).side, self.two.driver.guest_side(self.guest.uuid).side

    def swap(self) -> None:
        self.one, self.two = self.two, self.one


@pytest.fixture
def make_pair(guest_image: Path, tmp_path: Path) -> Iterator[Callable[..., Pair]]:
    with ExitStack() as stack:

        def make(*, shared: bool = False, authority: Any = None, **options: Any) -> Pair:
            libvirtds = stack.enter_context(peers(authority))
            folders = [tmp_path / "shared"] * 2 if shared else [tmp_path / "hv1", tmp_path / "hv2"]
            made = []
            for libvirtd, folder in zip(libvirtds, folders, strict=True):
                made.append(Side(libvirtd, folder, guest_image, **options))
                stack.callback(made[-1].close)
            return Pair(made[0], made[1], instance(config_drive=True))

        yield make


def test_a_guest_migrates_with_its_disks_and_counts_on(make_pair: Callable[..., Pair]) -> None:
    pair = make_pair()
    pair.boot()
    seen: list[LiveProgress] = []
    outcome = pair.migrate(seen.append)
    assert outcome.arrives_paused
    assert pair.sides() == (GuestSide.LEFT, GuestSide.PAUSED)
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


def test_a_guest_on_shared_disks_migrates_without_a_pause(make_pair: Callable[..., Pair]) -> None:
    pair = make_pair(shared=True)
    pair.boot()
    destination = pair.prepare()
    assert destination.mode is LiveMode.SHARED
    outcome = pair.one.driver.live_migrate(pair.guest, destination, ignore)
    assert not outcome.arrives_paused
    assert pair.sides() == (GuestSide.LEFT, GuestSide.RUNNING)
    pair.finish()
    assert (pair.two.folder / "instances" / pair.guest.uuid / "disk").exists()
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


def test_a_timeout_aborts(make_pair: Callable[..., Pair]) -> None:
    pair = make_pair(live_migration_bandwidth=1, live_migration_completion_timeout=2)
    pair.boot()
    with pytest.raises(LiveMigrationAborted):
        pair.migrate()
    assert pair.sides() == (GuestSide.RUNNING, GuestSide.ABSENT)


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


@pytest.mark.parametrize("connections", [1, 2])
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
