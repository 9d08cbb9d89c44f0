"""A guest that is handed over goes on at its destination while libvirt still ends it at its source, and answers no question about it."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from minova.errors import GuestBusy
from minova.objects.catalogue.flavor import Flavor
from minova.objects.servers.instance import Instance
from minova.objects.servers.live_migration import LiveDestination, LiveMode, LiveOutcome, LiveProgress
from minova.virt.libvirt.driver.migration import LibvirtMigration
from minova.virt.libvirt.guest_files import image_locks
from minova.virt.libvirt.guest_files.image_locks import ImageHold
from minova.virt.libvirt.migration import live_run
from tests.cluster import configure

UUID = "5d3a1f9e-2a0b-4f8e-9d5c-0c7a8b1f2e11"
FLAVOR = Flavor(flavorid="1", name="nano", vcpus=1, memory_mb=64, root_gb=1)
INSTANCE = Instance(uuid=UUID, display_name="one", flavor=FLAVOR, host="one", attempt=1)
DESTINATION = LiveDestination(
    mode=LiveMode.BLOCK,
    uri="qemu+tcp://two/system",
    address="two",
    tls_name=None,
    xml="<domain/>",
    persistent_xml="<domain/>",
    copied=("vda",),
)


class Run:
    """Hands the guest over. libvirt removes its filters then."""

    begun = None

    def __init__(self, *_: object, hold: ImageHold | None, **__: object) -> None:
        assert hold is not None

    def run(self, progress: object) -> LiveOutcome:
        return LiveOutcome(arrives_paused=True, seconds=1.0, handing_over=True)


class Host:
    def __init__(self) -> None:
        self.ends_guest = False

    @contextmanager
    def connection(self, *_: object) -> Iterator[None]:
        if self.ends_guest:
            raise GuestBusy("libvirt works on the guest")
        yield


class One(LibvirtMigration):
    def __init__(self, folder: Path, disk: Path) -> None:
        super().__init__(configure(folder, host="one"))
        self.libvirt = self._host = Host()  # type: ignore[assignment]
        self._disk = disk

    def _own(self, connection: Any, instance_uuid: str) -> Any:
        return self

    def XMLDesc(self) -> str:  # noqa: N802
        target = f"<source file='{self._disk}'/><target dev='vda'/>"
        return f"<domain><devices><disk>{target}</disk></devices></domain>"


def ignore(_: LiveProgress) -> None:
    """Ignores the progress."""


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[One]:
    disk = tmp_path / "disk"
    disk.write_bytes(b"x" * 512)
    monkeypatch.setattr(live_run, "LiveRun", Run)
    driver = One(tmp_path, disk)
    driver.live_migrate(INSTANCE, DESTINATION, ignore)
    driver.libvirt.ends_guest = True
    yield driver
    with suppress(GuestBusy):
        driver.stay(UUID)


def test_bug_guest_stood_still_while_libvirt_ended_it(source: One) -> None:
    source.hold_disks(INSTANCE, DESTINATION)
    source.hold_disks(INSTANCE, DESTINATION)


def test_libvirt_is_asked_about_a_guest_whose_qemu_has_its_disks_again(
    source: One, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(image_locks, "_forbid", lambda _: False)
    with pytest.raises(GuestBusy):
        source.hold_disks(INSTANCE, DESTINATION)
