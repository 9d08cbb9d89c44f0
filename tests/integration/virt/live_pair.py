"""Two real hosts and a guest that counts aloud on its console while it migrates between them."""

import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from minova.objects.network.vif import Vif
from minova.objects.servers.disk_export import TransferKey
from minova.objects.servers.instance import Instance
from minova.objects.servers.live_migration import (
    GuestSide,
    LiveDestination,
    LiveOutcome,
    LiveProgress,
)
from minova.objects.servers.states import PowerState
from minova.virt.driver.domains import RowHost
from tests.integration.virt.guest_console import GuestConsole
from tests.integration.virt.test_guest import instance, load
from tests.servers.libvirtd_peers import PeerLibvirtd, peers
from tests.waiting import wait_for

MOVE = "5f6bbd5a-1f8a-4b5f-8f57-6a1c3a3b9d01"
TICKS = "{ i=0; while :; do i=$((i+1)); echo TICK $i; sleep 0.1; done; } >/dev/console 2>&1 & echo begun"


def ignore(_: LiveProgress) -> None:
    """Ignores the progress."""


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
        self.destination: LiveDestination | None = None

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
        self.destination = self.two.driver.prepare_live(
            self.guest, self.two.node, self.attempt, source, key, self.two.image, lambda: None
        )
        self.one.driver.stop_export(MOVE)
        return self.destination

    def migrate(self, progress: Callable[[LiveProgress], None] = ignore) -> LiveOutcome:
        return self.one.driver.live_migrate(self.guest, self.prepare(), progress)

    def hold(self) -> None:
        self.two.driver.await_guest(self.guest.uuid, self.attempt, lambda: None)
        assert self.destination is not None
        self.one.driver.hold_disks(self.guest, self.destination)

    def finish(self) -> None:
        """What follows after the guest has left. One that arrives running has no hold."""
        if self.sides()[1] is not GuestSide.RUNNING:
            self.hold()
        assert self.two.driver.arrive(self.guest, self.attempt) is PowerState.RUNNING
        self.one.driver.settle_live(self.guest.uuid)
        self.one.driver.destroy(self.guest.uuid, RowHost(host=self.two.name))

    def sides(self) -> tuple[GuestSide, GuestSide]:
        return self.one.driver.guest_side(self.guest.uuid).side, self.two.driver.guest_side(self.guest.uuid).side

    def swap(self) -> None:
        self.one, self.two = self.two, self.one


@contextmanager
def live_pair(
    folder: Path,
    image: Path,
    *,
    shared: bool = False,
    authority: Any = None,
    vifs: tuple[Vif, ...] = (),
    **options: Any,
) -> Iterator[Pair]:
    with ExitStack() as stack:
        libvirtds = stack.enter_context(peers(authority))
        folders = [folder / "shared"] * 2 if shared else [folder / "hv1", folder / "hv2"]
        sides = []
        for libvirtd, of_host in zip(libvirtds, folders, strict=True):
            sides.append(Side(libvirtd, of_host, image, **options))
            stack.callback(sides[-1].close)
        yield Pair(sides[0], sides[1], instance(config_drive=True, network_info=vifs))


@pytest.fixture
def make_pair(guest_image: Path, tmp_path: Path) -> Iterator[Callable[..., Pair]]:
    """Takes the options of `live_pair`."""
    with ExitStack() as stack:
        yield lambda **options: stack.enter_context(live_pair(tmp_path, guest_image, **options))
