"""Fits the disks of a guest that is off to its flavor: after a resize, or a return to the earlier flavor.

root disk         grows; one that is larger than the flavor's stays, since the guest may use all of it
ephemeral disks   missing ones are made, smaller ones grow, larger ones stay
swap              made anew in another size
"""

import os
from collections.abc import Sequence
from pathlib import Path

from oslo_utils import units

from minova.objects.catalogue.flavor import LocalDisk
from minova.objects.servers.instance import Instance
from minova.virt import programs
from minova.virt.libvirt.guest_files import disk_formats
from minova.virt.libvirt.storage import disk_images, disk_keys
from minova.virt.libvirt.storage.disk_images import Finish
from minova.virt.libvirt.storage.disk_owner import ROOT_DISK
from minova.virt.libvirt.xml.disk_xml import Disk


def fit(
    disks: Sequence[Disk],
    instance: Instance,
    local: dict[str, LocalDisk],
    finish: Finish,
    passphrase: str | None,
) -> None:
    """`disks`: the guest's; `local`: the ephemeral ones and the swap, by their names. `passphrase`: of encrypted disks. Idempotent.
    Raises DiskFull or HypervisorError.
    """
    for planned in disks:
        path = Path(planned.path)
        key = passphrase if planned.is_encrypted else None
        disk = local.get(path.name)
        if path.name == ROOT_DISK:
            _grow(path, planned.driver_format, instance.flavor.root_gb * units.Gi, finish, key)
        elif disk is not None:
            _fit_local(path, disk, planned.driver_format, finish, key)


def makes_swap_anew(disks: Sequence[Disk], local: dict[str, LocalDisk]) -> bool:
    """Whether `fit` makes the guest's swap, which may have pages of its memory."""
    swaps = ((planned, disk) for planned in disks if (disk := local.get(Path(planned.path).name)) and disk.is_swap)
    return any(_is_made_anew(Path(planned.path), disk, planned.driver_format) for planned, disk in swaps)


def _is_made_anew(path: Path, disk: LocalDisk, written: str) -> bool:
    if not path.exists():
        return True
    return disk.is_swap and disk_formats.virtual_size(path, written) != disk.size_mb * units.Mi


def _fit_local(path: Path, disk: LocalDisk, written: str, finish: Finish, passphrase: str | None) -> None:
    size = disk.size_mb * units.Mi
    if _is_made_anew(path, disk, written):
        disk_images.formatted(path, disk, path.name, finish, passphrase)
    elif written == disk_formats.RAW and disk_formats.virtual_size(path, written) < size:
        os.truncate(path, size)
    else:
        _grow(path, written, size, finish, passphrase)


def _grow(path: Path, written: str, size: int, finish: Finish, passphrase: str | None) -> None:
    """A flavor without a size of its own leaves the root disk as it is."""
    if disk_formats.virtual_size(path, written) < size:
        limits = programs.RunLimits(file_size=disk_formats.longest_file(size))
        with disk_keys.opened(passphrase) as key:
            command = ["qemu-img", "resize", "-q", *key.opening(written), key.name.format(path), str(size)]
            programs.run(command, limits, inherited=key.inherited)
        finish(path, size)
