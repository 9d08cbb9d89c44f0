"""A host prepares for a guest that migrates live: it makes networks and disks at the same time, and a failure leaves nothing behind."""

import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from minova.errors import HardwareNotOffered, StaleAttempt
from minova.objects.catalogue.flavor import Flavor
from minova.objects.network.vif import Vif
from minova.objects.servers.disk_export import DiskExport, TransferKey
from minova.objects.servers.instance import Instance
from minova.objects.servers.live_migration import LiveDestination, LiveMode, LiveSource
from minova.virt.libvirt.driver import migration
from minova.virt.libvirt.driver.migration import LibvirtMigration
from tests.cluster import configure

VIF = Vif(port_id="port-1", network_id="net-1", mac_address="02:00:00:00:00:01")
INSTANCE = Instance(
    uuid="5d3a1f9e-2a0b-4f8e-9d5c-0c7a8b1f2e11",
    display_name="one",
    flavor=Flavor(flavorid="1", name="nano", vcpus=1, memory_mb=64, root_gb=1),
    network_info=(VIF,),
)
DOMAIN = "<domain><devices><disk><source file='/i/disk'/><target dev='vda'/></disk></devices></domain>"
SOURCE = LiveSource(
    xml=DOMAIN,
    inactive_xml=DOMAIN,
    cpu_xml=None,
    sizes={"disk": 1 << 30},
    export=DiskExport(host="one", attempt=1, based=False),
)


class Host:
    @contextmanager
    def connection(self, *_: object) -> Iterator[Any]:
        yield SimpleNamespace(getHostname=lambda: "two")


class Two(LibvirtMigration):
    """Makes disks and networks by these functions."""

    def __init__(self, folder: Path, make_targets: Any, plug: Any) -> None:
        super().__init__(configure(folder, host="two"))
        self._host = Host()  # type: ignore[assignment]
        self._moving = SimpleNamespace(shares=lambda *_: False, make_targets=make_targets)  # type: ignore[assignment]
        self._plug_them = plug

    def _ready(self) -> Any:
        return SimpleNamespace(host="two")

    def _plug(self, connection: Any, instance: Instance) -> None:
        self._plug_them()

    def awaited(self) -> tuple[Vif, ...]:
        return self._forget_awaited(INSTANCE.uuid)

    def get_ready(self) -> LiveDestination:
        key = TransferKey(identity="a", secret="b")
        return self.prepare_live(INSTANCE, "two", 2, SOURCE, key, None, lambda: None)


@pytest.fixture(autouse=True)
def _no_domain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migration, "lookup", lambda *_: None)


def test_networks_of_a_guest_whose_disks_cannot_be_made_are_known_and_complete(tmp_path: Path) -> None:
    """So the end of the migration removes them, and nothing is made after it."""
    disks_failed, plugged = threading.Event(), []

    def make_targets(*_: object) -> None:
        disks_failed.set()
        raise StaleAttempt("the server is being deleted")

    def plug() -> None:
        assert disks_failed.wait(30)
        plugged.append(1)

    driver = Two(tmp_path, make_targets, plug)
    with pytest.raises(StaleAttempt):
        driver.get_ready()
    assert plugged == [1]
    assert driver.awaited() == (VIF,)


def test_networks_that_a_host_cannot_have_fail_the_preparation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    meeting = threading.Barrier(2, timeout=30)

    def plug() -> None:
        meeting.wait()
        raise HardwareNotOffered("no route")

    driver = Two(tmp_path, lambda *_: meeting.wait(), plug)
    monkeypatch.setattr(driver, "_xml_of", lambda *_, **__: DOMAIN)
    monkeypatch.setattr(driver, "_disks", SimpleNamespace(make_boot_files=lambda *_: None, plan=lambda *_: ()))
    with pytest.raises(HardwareNotOffered):
        driver.get_ready()


@pytest.mark.parametrize(
    ("shared", "reach", "mode", "unlocked"),
    [
        (True, True, LiveMode.SHARED, False),
        (True, False, LiveMode.SHARED, True),
        (False, False, LiveMode.BLOCK, False),
    ],
)
def test_a_guest_on_shared_disks_arrives_paused_if_no_lock_of_its_qemu_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shared: bool, reach: bool, mode: LiveMode, unlocked: bool
) -> None:
    driver = Two(tmp_path, lambda *_: None, lambda: None)
    asked: list[object] = []

    def sees_locks(_: str, names: Collection[str]) -> bool:
        asked.append(sorted(names))
        return reach

    moving = SimpleNamespace(
        shares=lambda *_: shared,
        sees_locks=sees_locks,
        make_targets=lambda *_: None,
    )
    monkeypatch.setattr(driver, "_moving", moving)
    monkeypatch.setattr(driver, "_xml_of", lambda *_, **__: DOMAIN)
    monkeypatch.setattr(driver, "_disks", SimpleNamespace(make_boot_files=lambda *_: None, plan=lambda *_: ()))
    monkeypatch.setattr(driver, "_secrets", SimpleNamespace(give=lambda *_: None))
    monkeypatch.setattr(migration, "migrated_xml", lambda source, own: source)
    destination = driver.get_ready()
    assert (destination.mode, destination.unlocked) == (mode, unlocked)
    assert destination.pauses is (mode is LiveMode.BLOCK or unlocked)
    assert asked == ([["disk"]] if shared else [])


def test_a_source_with_tls_needs_a_destination_with_tls(tmp_path: Path) -> None:
    """Before anything is prepared, so that another destination is tried."""
    driver = Two(tmp_path, lambda *_: None, lambda: None)
    with pytest.raises(HardwareNotOffered, match="certificates of QEMU"):
        driver.check_live(INSTANCE, msgspec.structs.replace(SOURCE, with_tls=True), block=None)
