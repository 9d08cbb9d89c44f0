"""The first state of a TPM that a resize has added is made at a start, and its secret got no mark. After a rebuild that had failed, the
guest's next host took the newest secret, which opens nothing.
"""

from pathlib import Path
from typing import Any
from unittest.mock import MagicMock, Mock

import pytest

from minova.hardware.guest.features import TPM_2_0
from minova.objects.guests.guest_secrets import SecretKind
from minova.objects.servers.disk_export import TransferKey
from minova.virt.libvirt.driver import cold_migration, migration, secrets
from minova.virt.libvirt.guest_files import tpm_files
from minova.virt.libvirt.guest_state.secrets import LibvirtSecrets
from minova.virt.libvirt.storage import disk_owner
from minova.virt.libvirt.storage.disk_keys import mark_of
from minova.virt.libvirt.storage.disk_owner import DiskOwner, FormerDisk
from tests.functional.virt.libvirt.test_driver import instance
from tests.integration.virt.kept_secrets import KeptSecrets

MOVE, KEY = "5f6bbd5a-1f8a-4b5f-8f57-6a1c3a3b9d01", TransferKey(identity="i", secret="0" * 64)


def made_owner(folder: Path) -> DiskOwner:
    """A rebuild was killed before it replaced this disk."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "disk").touch()
    former = FormerDisk(inode=(folder / "disk").stat().st_ino, format="raw", formats={"disk": "raw"})
    entry = DiskOwner(host="hv1", attempt=1, formats={"disk": "raw"}, former=former, secrets={"tpm": "of the next"})
    with disk_owner.locked(folder) as owner:
        owner.write(entry)
    return entry


@pytest.mark.parametrize("way", ["cold", "live", "shelved"])
def test_the_next_host_hears_which_secret_opens_a_tpm_here(
    driver: Any, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    new_instance, kept = instance(), KeptSecrets()
    driver.use_secrets(kept)
    used = kept.secrets_of(new_instance.uuid, [SecretKind.TPM], make=True).passphrases[SecretKind.TPM]
    kept.set_aside()
    kept.secrets_of(new_instance.uuid, [SecretKind.TPM], make=True)
    driver.prepare(new_instance, driver.available_nodes()[0], 1, None)
    entry = made_owner(driver._disks.folder(new_instance.uuid))
    monkeypatch.setattr(secrets, "tpm_version_now", lambda *_: TPM_2_0)
    monkeypatch.setattr(tpm_files, "read", lambda *_: b"state")
    for module in (cold_migration, migration):
        monkeypatch.setattr(module, "kinds_of", lambda xml: (SecretKind.TPM,))
    moving = Mock(files=lambda *_: (), files_beside=lambda *_: (), image_files=lambda *_: (), shown=lambda *_: entry)
    monkeypatch.setattr(driver, "_moving", moving)
    monkeypatch.setattr(driver, "_exports", Mock(start=lambda *_: 1))
    if way == "shelved":
        mark = driver.tpm_state(new_instance).mark
    elif way == "cold":
        mark = driver.export_disks(new_instance, MOVE, KEY).secrets["tpm"]
    else:
        monkeypatch.setattr(driver._secrets, "defined_for_start", MagicMock())
        driver.power_on(new_instance)
        mark = driver.live_source(new_instance, MOVE, KEY).export.secrets["tpm"]
    assert mark == mark_of(used)


def test_the_secret_of_a_tpm_that_is_made_at_a_start_is_noted(driver: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    new_instance, kept = instance(), KeptSecrets()
    driver.use_secrets(kept)
    folder = driver._disks.folder(new_instance.uuid)
    folder.mkdir(parents=True)
    driver._disks.own(new_instance.uuid, "hv1", lambda: {"disk": "raw"})
    monkeypatch.setattr(tpm_files, "has_state", lambda *_: False)
    driver._secrets.give(Mock(), new_instance.uuid, [SecretKind.TPM])
    used = kept.made[new_instance.uuid, SecretKind.TPM]
    assert disk_owner.secrets_in_use(folder).marks == {"tpm": mark_of(used)}
    for _ in range(2):  # rebuilds that have replaced nothing
        kept.set_aside()
        kept.secrets_of(new_instance.uuid, [SecretKind.TPM], make=True)
    assert driver._secrets.passphrases(new_instance.uuid, [SecretKind.TPM]) == {SecretKind.TPM: used}


def test_a_guest_without_a_secret_has_no_mark() -> None:
    secrets = LibvirtSecrets(lambda _: disk_owner.SecretsInUse(marks={"disks": "a"}))
    secrets.use(KeptSecrets())
    assert secrets.marks("i", [SecretKind.DISKS, SecretKind.TPM]) == {"disks": "a"}
