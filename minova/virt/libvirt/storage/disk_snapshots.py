"""Copies the root disk of a guest that may run.

    disk <-- the guest        disk, read only <-- snapshot.overlay <-- the guest       disk <-- the guest
                     set_aside                          |          settle: block commit
                                                  copy: qemu-img convert

The overlay beside the disk shows that a snapshot is open, and the domain's definition shows whether the guest's last
writes are in the overlay. `settle` checks both. It may be called at any time: after a crash at any step, and before any
other use of the disk.

    overlay   the domain          settle
    none      any                 nothing
    there     runs from it        block commit, and the guest goes over to the disk; the overlay is removed
    there     off, names it       `qemu-img commit`, the domain is defined with the disk, the overlay is removed
    there     names the disk      the overlay is removed: it was not used yet, or is committed
    there     has saved memory    nothing: that memory belongs to the overlay
"""

import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import libvirt

from minova.errors import HypervisorError
from minova.virt import disk_space, programs
from minova.virt.libvirt.guest_files import disk_formats
from minova.virt.libvirt.storage.disk_owner import ROOT_DISK, written_formats
from minova.virt.libvirt.storage.disks import OVERLAY, Disks

LOG = logging.getLogger(__name__)
# Time limit in seconds for a commit, which copies what the guest has written since the snapshot; and seconds between
# two checks of it.
COMMIT_WITHIN, POLL = 600.0, 0.1
MB = 1 << 20
_TAKE = (
    libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_DISK_ONLY
    | libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_NO_METADATA
    | libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_REUSE_EXT
    | libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_ATOMIC
)
_COMMIT = libvirt.VIR_DOMAIN_BLOCK_COMMIT_ACTIVE | libvirt.VIR_DOMAIN_BLOCK_COMMIT_SHALLOW


class DiskSnapshots:
    """Methods take a domain that is ours; errors of libvirt are raised as they are. `reserve` returns the bytes that
    must stay free in the file system.
    """

    def __init__(self, disks: Disks, reserve: Callable[[], int]) -> None:
        self._disks = disks
        self._reserve = reserve

    def is_open(self, instance_uuid: str) -> bool:
        return self._overlay(instance_uuid).exists()

    def open_ones(self) -> tuple[str, ...]:
        """Returns instances with open snapshots, of all hosts that share the folder."""
        return self._disks.aside()

    def require_room(self, instance_uuid: str, path: Path) -> None:
        """Raises DiskFull if a copy may not fit beside the bytes that must stay free."""
        disk = self._disks.folder(instance_uuid) / ROOT_DISK
        written = self._format(instance_uuid)
        held = _allocated(disk)
        base = disk_formats.backing_file(disk, written)
        if base is not None:
            held += _allocated(Path(base))
        wanted = min(held, disk_formats.virtual_size(disk, written))
        disk_space.require_room(path.parent, wanted, self._reserve(), f"No room for a snapshot in {path.parent}")

    def set_aside(self, domain: Any, take: Callable[[str, int], None]) -> None:
        """Make the guest write into the overlay from now on. Raises DiskFull and the errors of `take`; then the guest
        writes as before.

        `take` takes a snapshot by libvirt, with this XML and these flags.
        """
        uuid = domain.UUIDString()
        disk, overlay = self._disks.folder(uuid) / ROOT_DISK, self._overlay(uuid)
        written = self._format(uuid)
        size = str(disk_formats.virtual_size(disk, written))
        command = ["qemu-img", "create", "-q", "-u", "-f", "qcow2", "-F", written, "-b", str(disk)]
        programs.write_with(overlay, command, programs.Limits(), size)
        self._disks.share_written(overlay)
        take(_snapshot_xml(domain.XMLDesc(0), disk, overlay), _TAKE)

    def copy(self, instance_uuid: str, path: Path, check: Callable[[], None]) -> None:
        """Copy the disk with its backing files, while no guest writes to it."""
        disk, written = self._disks.folder(instance_uuid) / ROOT_DISK, self._format(instance_uuid)
        size = disk_formats.virtual_size(disk, written)
        limits = programs.Limits(cpu=24 * 3600, file_size=size + size // 8 + 64 * MB)
        self._disks.take_back(disk)
        programs.copy_with(
            path, disk, ["qemu-img", "convert", "-q", "-f", written, "-O", "qcow2", str(disk)], limits, check
        )

    def settle(self, domain: Any, check: Callable[[], None] = lambda: None) -> None:
        """Settle as in the table above. Raises HypervisorError if the overlay is still in use; then it stays.
        `check` is called while a guest switches to its disk; an exception of it ends the wait, not the commit.
        """
        uuid = domain.UUIDString()
        disk, overlay = self._disks.folder(uuid) / ROOT_DISK, self._overlay(uuid)
        if not overlay.exists():
            return
        if domain.isActive():
            target = _target_of(domain.XMLDesc(0), overlay)
            if target is not None:
                _commit(domain, target, check)
        if not domain.isActive() and domain.hasManagedSaveImage():
            return
        inactive = domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE | libvirt.VIR_DOMAIN_XML_SECURE)
        if _target_of(inactive, overlay) is not None:
            if not domain.isActive():
                self._commit_offline(overlay)
            domain.connect().defineXML(_with_disk(inactive, overlay, disk, self._format(uuid)))
        overlay.unlink(missing_ok=True)

    def _commit_offline(self, overlay: Path) -> None:
        """Commits the overlay to its backing disk. Idempotent."""
        self._disks.take_back(overlay)
        size = disk_formats.virtual_size(overlay, disk_formats.QCOW2)
        limits = programs.Limits(cpu=24 * 3600, file_size=size + size // 8 + 64 * MB)
        programs.run(["qemu-img", "commit", "-q", "-d", "-f", "qcow2", str(overlay)], limits)

    def _overlay(self, instance_uuid: str) -> Path:
        return self._disks.folder(instance_uuid) / OVERLAY

    def _format(self, instance_uuid: str) -> str:
        formats = written_formats(self._disks.folder(instance_uuid))
        return formats.get(ROOT_DISK, disk_formats.FORMATS[ROOT_DISK])


def write_empty(path: Path, size: int) -> None:
    """Write an image without data, for guests that have no disks."""
    programs.write_with(path, ["qemu-img", "create", "-q", "-f", "qcow2"], programs.Limits(), str(size))


def _allocated(path: Path) -> int:
    return path.stat().st_blocks * 512


def _commit(domain: Any, target: str, check: Callable[[], None]) -> None:
    """Commit the overlay and switch the guest to the disk. If a killed process has started a commit, wait for that
    one.
    """
    until = time.monotonic() + COMMIT_WITHIN
    if not domain.blockJobInfo(target):
        domain.blockCommit(target, None, None, 0, _COMMIT)
    while not _is_ready(domain.XMLDesc(0), target):
        if not domain.blockJobInfo(target):
            raise HypervisorError(f"The commit of the snapshot of {domain.name()} has ended early")
        if time.monotonic() >= until:
            raise HypervisorError(f"The snapshot of {domain.name()} is not committed within {COMMIT_WITHIN:g} s")
        check()
        time.sleep(POLL)
    domain.blockJobAbort(target, libvirt.VIR_DOMAIN_BLOCK_JOB_ABORT_PIVOT)


def _disks_of(xml: str) -> list[ET.Element]:
    return ET.fromstring(xml).findall("devices/disk")


def _source(disk: ET.Element) -> str:
    element = disk.find("source")
    return "" if element is None else element.get("file", "")


def _name(disk: ET.Element) -> str:
    element = disk.find("target")
    return "" if element is None else element.get("dev", "")


def _target_of(xml: str, path: Path) -> str | None:
    """Returns the guest's name of the disk that has this file, or None."""
    return next((_name(disk) for disk in _disks_of(xml) if _source(disk) == os.fspath(path)), None)


def _is_ready(xml: str, target: str) -> bool:
    return any(_name(disk) == target and disk.find("mirror[@ready='yes']") is not None for disk in _disks_of(xml))


def _snapshot_xml(xml: str, disk: Path, overlay: Path) -> str:
    snapshot = ET.Element("domainsnapshot")
    parts = ET.SubElement(snapshot, "disks")
    for known in _disks_of(xml):
        if _source(known) != os.fspath(disk):
            ET.SubElement(parts, "disk", name=_name(known), snapshot="no")
            continue
        part = ET.SubElement(parts, "disk", name=_name(known), snapshot="external", type="file")
        ET.SubElement(part, "driver", type="qcow2")
        ET.SubElement(part, "source", file=os.fspath(overlay))
    return ET.tostring(snapshot, encoding="unicode")


def _with_disk(xml: str, overlay: Path, disk: Path, written: str) -> str:
    """Returns the definition with the disk in place of the overlay."""
    root = ET.fromstring(xml)
    for known in root.findall("devices/disk"):
        source, driver = known.find("source"), known.find("driver")
        if source is None or driver is None or _source(known) != os.fspath(overlay):
            continue
        source.set("file", os.fspath(disk))
        driver.set("type", written)
        for chain in known.findall("backingStore"):
            known.remove(chain)
    return ET.tostring(root, encoding="unicode")
