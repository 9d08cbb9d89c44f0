"""Fits the disks of a guest that is off to its flavor: after a resize, or a return to the earlier flavor.

root disk         grows; one that is larger than the flavor's stays, since the guest may use all of it
ephemeral disks   missing ones are made, smaller ones grow, larger ones stay
swap              made anew in another size
"""

import os
from pathlib import Path

from oslo_utils import units

from minova.objects.guests.local_disks import LocalDisk
from minova.objects.servers.instance import Instance
from minova.virt import programs
from minova.virt.libvirt.guest_files import disk_formats
from minova.virt.libvirt.storage import disk_images
from minova.virt.libvirt.storage.disk_images import Finish
from minova.virt.libvirt.storage.disk_owner import ROOT_DISK


def fit(folder: Path, instance: Instance, local: dict[str, LocalDisk], root_format: str, finish: Finish) -> None:
    """`local`: the ephemeral disks and the swap, by their names. Idempotent. Raises DiskFull or HypervisorError."""
    _grow_root(folder / ROOT_DISK, root_format, instance.flavor.root_gb * units.Gi, finish)
    for name, disk in local.items():
        path, size = folder / name, disk.size_mb * units.Mi
        now = path.stat().st_size if path.exists() else None
        if now is None or (disk.is_swap and now != size):
            disk_images.formatted(path, disk, name, finish)
        elif now < size:
            os.truncate(path, size)


def _grow_root(path: Path, written: str, size: int, finish: Finish) -> None:
    """A flavor without a size of its own leaves the disk as it is."""
    if disk_formats.virtual_size(path, written) < size:
        # The disk and what describes it.
        limits = programs.Limits(file_size=size + size // 8 + 64 * units.Mi)
        programs.run(["qemu-img", "resize", "-q", "-f", written, str(path), str(size)], limits)
        finish(path, size)
