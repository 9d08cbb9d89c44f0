"""The destination of a move whose source is in the hands of an attacker: what the source serves is `content`, by file name."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from minova.errors import GuestSecretMissing
from minova.objects.catalogue.flavor import Flavor
from minova.objects.servers.disk_export import DiskExport, ExportedFile, TransferKey
from minova.objects.servers.instance import Instance
from minova.objects.servers.live_migration import LiveSource
from minova.virt.libvirt.migration import moving_disks
from minova.virt.libvirt.migration.file_bounds import FileBounds
from minova.virt.libvirt.migration.moving_disks import MovingDisks
from minova.virt.libvirt.storage.disks import Disks

MB, GB = 1 << 20, 1 << 30
INSTANCE = Instance(
    uuid="5d3a1f9e-2a0b-4f8e-9d5c-0c7a8b1f2e11",
    display_name="one",
    flavor=Flavor(flavorid="1", name="small", vcpus=1, memory_mb=64, root_gb=1, swap=32, ephemeral_gb=1),
)
KEY = TransferKey(identity="move", secret="0" * 64)


class Destination:
    """`passphrase`: of the instance's disks, if they are encrypted."""

    def __init__(
        self,
        path: Path,
        monkeypatch: pytest.MonkeyPatch,
        instance: Instance = INSTANCE,
        passphrase: str | None = KEY.secret,
    ) -> None:
        self.fetched: dict[str, int] = {}
        self.content: dict[str, Path] = {}
        self.disks = Disks(path, passphrase_of=self._passphrase_of)
        self._passphrase = passphrase
        self.folder = self.disks.folder(instance.uuid)
        self._instance = instance
        self._moving = MovingDisks(self.disks)
        monkeypatch.setattr(moving_disks, "fetch", self._fetch)

    def _passphrase_of(self, instance_uuid: str, *, make: bool, **_: object) -> str:
        assert not make, "a destination makes no secret"
        if self._passphrase is None:
            raise GuestSecretMissing(instance_uuid)
        return self._passphrase

    def _fetch(self, path: Path, export: DiskExport, file: ExportedFile, key: TransferKey, finish: Any, _: Any) -> None:
        self.fetched[file.name] = file.size
        part = path.with_name(f"{path.name}.part")
        if file.name in self.content:
            shutil.copy(self.content[file.name], part)
        else:
            part.touch()
        finish(part)
        part.rename(path)

    def fetch(self, *files: ExportedFile) -> None:
        """The disks of a guest that is off."""
        export = DiskExport(host="one", attempt=1, files=files)
        bounds = FileBounds(self._instance, None)
        self._moving.fetch(self._instance, "two", 2, export, KEY, None, bounds, lambda: None)

    def make(
        self,
        sizes: dict[str, int],
        *files: ExportedFile,
        formats: Mapping[str, str] = {"disk": "raw"},
        xml: str = "<domain/>",
    ) -> None:
        """The disks of a guest that runs."""
        export = DiskExport(host="one", attempt=1, files=files)
        source = LiveSource(xml=xml, inactive_xml="", cpu_xml=None, sizes=sizes, export=export)
        self._moving.make_targets(self._instance, "two", 2, source, dict(formats), KEY, None, lambda: None)

    def opened(self) -> dict[str, str]:
        """Returns the format in which QEMU would open each disk."""
        return {Path(disk.path).name: disk.driver_format for disk in self.disks.plan(self._instance)}


def served(name: str, size: int, **more: Any) -> ExportedFile:
    return ExportedFile(name=name, export=name, size=size, **more)
