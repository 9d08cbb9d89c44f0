"""Which files of a moving guest its destination takes, how large they may be, and in which format it opens them. A source may be in
the hands of an attacker: it would fill the disks of the destination, or let QEMU there follow the file names in a header. Pure.
"""

import math
from collections.abc import Mapping

import msgspec
from oslo_utils import units

from minova.errors import HypervisorError
from minova.objects.catalogue.flavor import Flavor
from minova.objects.guests.guest_secrets import MAX_STATE
from minova.objects.servers.disk_export import ExportedFile
from minova.objects.servers.instance import Instance
from minova.virt.config_drive.file_systems import VFAT_SIZE
from minova.virt.libvirt.guest_files import console_logs, tpm_files
from minova.virt.libvirt.guest_files.disk_formats import QCOW2, RAW
from minova.virt.libvirt.migration.libvirt_files import MEMORY, VARIABLES
from minova.virt.libvirt.storage.disk_images import BaseImage
from minova.virt.libvirt.storage.disk_owner import ROOT_DISK
from minova.virt.libvirt.storage.disks import DRIVE, named_disks

# Disks consist of sectors, so that one may be a little larger than its image.
_ROUNDED = units.Mi
_LOGS = (console_logs.NAME, console_logs.PREVIOUS)
# What a source serves of a running guest: libvirt copies the disks themselves.
_BESIDE = frozenset({DRIVE, *_LOGS})
# libvirt empties logs, and so does minova-compute: a larger one is cut.
LARGEST_LOG = 64 * units.Mi
# The largest firmware, that of aarch64, has 64 MiB of variables.
_LARGEST_VARIABLES = 128 * units.Mi
# Video memory and the state of devices.
_BESIDE_MEMORY = units.Gi


class FileBounds:
    """`before`: the flavor with which the source has made the disks; None: the instance's. `base`: the image below the root disk."""

    def __init__(self, instance: Instance, base: BaseImage | None, before: Flavor | None = None) -> None:
        of_source = msgspec.structs.replace(instance, flavor=before or instance.flavor)
        self._disks: Mapping[str, float] = {
            **_local(instance),
            **{name: max(size, _local(instance).get(name, 0)) for name, size in _local(of_source).items()},
            ROOT_DISK: max(_root(instance, base), _root(of_source, base)),
            DRIVE: VFAT_SIZE,
        }
        memory = of_source.flavor.memory_mb * units.Mi
        self._others: dict[str, float] = {
            **dict.fromkeys(_LOGS, math.inf),
            VARIABLES.beside: _LARGEST_VARIABLES,
            **dict.fromkeys(tpm_files.BESIDE.values(), float(MAX_STATE)),
            MEMORY.beside: memory + memory // 8 + _BESIDE_MEMORY,
        }

    def of(self, file: ExportedFile) -> ExportedFile:
        """Returns a file of a guest that is off, as it is fetched. Raises HypervisorError for a name that no guest has, for the config
        drive, which the destination makes, and for a file that is too large.
        """
        if file.name == DRIVE:
            raise _unknown(file)
        return self._within_bounds(file)

    def beside(self, file: ExportedFile) -> ExportedFile:
        """Returns a file that libvirt does not copy of a running guest, as it is fetched. Raises as `of`, and for any disk: a fetched
        one would have the source's header.
        """
        if file.name not in _BESIDE:
            raise _unknown(file)
        return self._within_bounds(file)

    def _within_bounds(self, file: ExportedFile) -> ExportedFile:
        if file.name in self._disks:
            # What describes the disk is in the file, too.
            most = self._disks[file.name] * 9 / 8 + 64 * units.Mi
        elif file.name in self._others:
            most = self._others[file.name]
        else:
            raise _unknown(file)
        _require(file.name, file.size, most)
        return msgspec.structs.replace(file, size=min(file.size, LARGEST_LOG)) if file.name in _LOGS else file

    def require_disk(self, name: str, size: int) -> None:
        """Raises HypervisorError if the guest has no such disk, or a smaller one. `size`: as the guest sees it."""
        if name not in self._disks:
            raise HypervisorError(f"The source describes a disk {name!r}, which this guest does not have")
        _require(name, size, self._disks[name] + _ROUNDED)

    def formats(self, described: Mapping[str, str | None], *, encrypted: bool) -> dict[str, str]:
        """Returns the formats in which the destination opens the disks among these files. `described`: what the source says of each.
        `encrypted`: whether the guest has a passphrase for its disks. Raises HypervisorError for a format in which minova does not
        make this disk.
        """
        return {
            name: _format(name, written, encrypted=encrypted and name != DRIVE)
            for name, written in described.items()
            if name in self._disks
        }


def _format(name: str, written: str | None, *, encrypted: bool) -> str:
    """A resize of an earlier release recorded no format of the disks that it added."""
    formats = {DRIVE: (RAW,)}.get(name, (QCOW2,) if encrypted else (RAW, QCOW2))
    if written is None and name != ROOT_DISK:
        return formats[0]
    if written is None or written not in formats:
        raise HypervisorError(f"The source describes {name} in the format {written}, in which minova does not make it")
    return written


def _unknown(file: ExportedFile) -> HypervisorError:
    return HypervisorError(f"The source serves a file {file.name!r}, which does not move with this guest")


def _local(instance: Instance) -> dict[str, int]:
    return {name: disk.size_mb * units.Mi for name, disk in named_disks(instance).items()}


def _root(instance: Instance, base: BaseImage | None) -> float:
    """A disk without a size in its flavor is as large as its image, which a host may no longer have."""
    size = instance.flavor.root_gb * units.Gi
    if not size and base is None:
        return math.inf
    return max(size, 0 if base is None else base.virtual_size)


def _require(name: str, size: int, most: float) -> None:
    if size > most:
        raise HypervisorError(
            f"{name} at the source has {size} bytes, and in a guest of this flavor at most {most:.0f}"
        )
