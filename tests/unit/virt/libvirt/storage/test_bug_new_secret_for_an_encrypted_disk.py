"""A further disk of a guest whose disks were encrypted silently got another passphrase, if the first was not in the database."""

from pathlib import Path

import msgspec
import pytest

from minova.errors import HypervisorError
from minova.objects.catalogue.flavor import Flavor
from minova.objects.servers.instance import Instance
from minova.virt.libvirt.storage import disk_images, disk_owner
from minova.virt.libvirt.storage.disk_images import BaseImage
from minova.virt.libvirt.storage.disk_owner import DiskOwner
from minova.virt.libvirt.storage.disks import Disks

KEY = "0" * 64
ENCRYPTED = Instance(
    uuid="5d3a1f9e-2a0b-4f8e-9d5c-0c7a8b1f2e11",
    display_name="one",
    flavor=Flavor(
        flavorid="1", name="f", vcpus=1, memory_mb=64, root_gb=1, extra_specs={"hw:ephemeral_encryption": "true"}
    ),
)
PLAIN = msgspec.structs.replace(ENCRYPTED, flavor=msgspec.structs.replace(ENCRYPTED.flavor, extra_specs={}))


@pytest.mark.parametrize(
    ("instance", "root_key", "asked"), [(ENCRYPTED, KEY, [False]), (ENCRYPTED, None, []), (PLAIN, None, [])]
)
def test_a_further_disk_is_as_the_root_disk_and_gets_no_new_secret(
    tmp_path: Path, instance: Instance, root_key: str | None, asked: list[bool]
) -> None:
    """A guest of an earlier release has plain disks alone: a secret would say that they are encrypted."""
    make_flags: list[bool] = []

    def passphrase(instance_uuid: str, *, make: bool, **_: object) -> str:
        make_flags.append(make)
        return KEY

    disks = Disks(tmp_path, passphrase_of=passphrase)
    folder = disks.folder(instance.uuid)
    with disk_owner.locked(folder, make=True) as owner:
        owner.write(DiskOwner(host="one", attempt=1, formats={"disk": "qcow2"}))
    disk_images.empty(folder / "disk", 1 << 20, lambda part, size: None, root_key)
    assert disks.passphrase_beside(instance) == (KEY if asked else None)
    assert make_flags == asked


def test_no_disk_ends_plain_for_want_of_a_passphrase(tmp_path: Path) -> None:
    base = BaseImage(path=tmp_path / "base", disk_format="qcow2", virtual_size=1 << 20)
    with pytest.raises(HypervisorError, match="no passphrase"):
        Disks(tmp_path).make(ENCRYPTED, base, "one", 1)
    assert not Disks(tmp_path).folder(ENCRYPTED.uuid).exists()
