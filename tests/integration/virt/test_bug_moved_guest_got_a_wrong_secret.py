"""Which of a server's secrets opens its disks was known to the host that made them alone. After a rebuild that failed, the guest's next
host took the newest one, which opens nothing.
"""

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec
import pytest

from minova.objects.guests.guest_secrets import SecretKind
from minova.objects.servers.disk_export import DiskExport, ExportedFile
from minova.objects.servers.live_migration import LiveSource
from minova.virt.libvirt.guest_state.secrets import LibvirtSecrets
from minova.virt.libvirt.migration import moving_disks
from minova.virt.libvirt.migration.file_bounds import FileBounds
from minova.virt.libvirt.migration.moving_disks import MovingDisks
from minova.virt.libvirt.storage.disk_images import BaseImage
from minova.virt.libvirt.storage.disks import Disks
from tests.integration.virt.kept_secrets import KeptSecrets
from tests.integration.virt.test_disks import KEY, instance, qemu_img
from tests.integration.virt.test_encrypted_guests import ENCRYPTED, read_with

KINDS = (SecretKind.DISKS, SecretKind.TPM)


class Host:
    """The disks of one host, with the driver's choice of secrets."""

    def __init__(self, path: Path, kept: KeptSecrets) -> None:
        self.disks = Disks(path, passphrase_of=self._passphrase_of)
        self.secrets = LibvirtSecrets(self.disks.secrets_in_use)
        self.secrets.use(kept)

    def _passphrase_of(self, instance_uuid: str, *, make: bool, marks: Mapping[str, str] = MappingProxyType({})) -> str:
        return self.secrets.passphrases(instance_uuid, [SecretKind.DISKS], make=make, marks=marks)[SecretKind.DISKS]


@pytest.mark.parametrize("live", [True, False])
def test_a_guest_keeps_its_secrets_when_it_moves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, live: bool) -> None:
    base_path, kept, guest = tmp_path / "base", KeptSecrets(), instance()
    qemu_img("create", "-q", "-f", "qcow2", base_path, "100M")
    guest = msgspec.structs.replace(guest, flavor=msgspec.structs.replace(guest.flavor, extra_specs=ENCRYPTED))
    base = BaseImage.of(guest, base_path)
    source, there = (Host(tmp_path / name, kept) for name in ("source", "there"))
    used = source.secrets.passphrases(guest.uuid, KINDS, make=True)
    source.disks.make(guest, base, "hv1", 1, passphrases=used)
    for _ in range(2):  # rebuilds of which nobody knows what they have replaced
        kept.set_aside()
        source.secrets.passphrases(guest.uuid, KINDS, make=True)
    disk = source.disks.folder(guest.uuid) / "disk"

    def fetch(
        path: Path, export: DiskExport, file: ExportedFile, key: object, finish: Callable[[Path], None], _: Any
    ) -> None:
        part = path.with_name(f"{path.name}.part")
        shutil.copyfile(disk, part)
        finish(part)
        part.rename(path)

    monkeypatch.setattr(moving_disks, "fetch", fetch)
    exported = ExportedFile(name="disk", export="disk", size=disk.stat().st_size, format="qcow2", based=True)
    export = DiskExport(
        host="hv1",
        attempt=1,
        files=() if live else (exported,),
        base=base_path.name,
        based=True,
        secrets=source.disks.secrets_in_use(guest.uuid).marks,
    )
    moving = MovingDisks(there.disks)
    if live:
        described = LiveSource(xml="<domain/>", inactive_xml="", cpu_xml=None, sizes={"disk": 1 << 30}, export=export)
        moving.make_targets(guest, "hv2", 2, described, {"disk": "qcow2"}, KEY, base, lambda: None)
    else:
        moving.fetch(guest, "hv2", 2, export, KEY, base, FileBounds(guest, base), lambda: None)
    assert read_with(there.disks.folder(guest.uuid) / "disk", used[SecretKind.DISKS]).returncode == 0
    assert there.secrets.passphrases(guest.uuid, KINDS) == used


def test_an_unshelved_guest_opens_its_tpm(tmp_path: Path) -> None:
    kept, new_instance = KeptSecrets(), instance()
    source, there = (Host(tmp_path / name, kept) for name in ("source", "there"))
    qemu_img("create", "-q", "-f", "qcow2", tmp_path / "base", "100M")
    base = BaseImage.of(new_instance, tmp_path / "base")
    used = source.secrets.passphrases(new_instance.uuid, [SecretKind.TPM], make=True)
    source.disks.make(new_instance, base, "hv1", 1, passphrases=used)
    kept.set_aside()
    newest = source.secrets.passphrases(new_instance.uuid, [SecretKind.TPM], make=True)
    mark = source.disks.secrets_in_use(new_instance.uuid).marks["tpm"]
    there.disks.make(new_instance, base, "hv2", 2, passphrases=newest)
    assert there.secrets.passphrases(new_instance.uuid, [SecretKind.TPM]) == newest
    there.disks.note_secret(new_instance.uuid, SecretKind.TPM, mark)
    assert there.secrets.passphrases(new_instance.uuid, [SecretKind.TPM]) == used
