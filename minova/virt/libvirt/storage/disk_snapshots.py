"""Copies the root disk of a guest that may run.

    disk <-- the guest        disk, read only <-- snapshot.overlay <-- the guest       disk <-- the guest
                     set_aside                          |          settle: block commit
                                                  copy: qemu-img convert

The files say which of them has the guest's last writes. The record beside them (`snapshot_record`) is written before each
step. A domain may be lost or defined anew, so its definition is asked only where the record leaves a question. `settle`
may be called at any time: after a crash at any step, before any other use of the disk, and before a domain is defined.

    the guest            record                settle
    runs from overlay    any                   block commit, record `pivoting`, the guest goes over, the overlay is removed
    runs from its disk   pivoting, committed   the overlay is removed
    runs from its disk   open, none            an overlay without data is removed; any other is set aside, with a warning
    is off               open                  `qemu-img commit`, record `committed`, the overlay is removed
    is off               committed             the overlay is removed
    is off               pivoting, none        as `open` if the domain names the overlay. If it names the disk, as
                                               `committed` (none: the overlay is set aside). Without a domain: the overlay
                                               is removed if it equals the disk; if not, an operator must decide
    has saved memory     any                   nothing: that memory belongs to the overlay

The overlay is complete when it gets its name, before the record `open`. One without the name of its disk in it is removed: an earlier
release was interrupted while it made it.

Before an overlay of a guest that does not run from it is touched, its locks must show that no QEMU has it open.
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
from minova.virt.libvirt.guest_files import disk_formats, image_locks
from minova.virt.libvirt.storage import disk_images, snapshot_record
from minova.virt.libvirt.storage.disk_owner import ROOT_DISK, written_formats
from minova.virt.libvirt.storage.disks import Disks
from minova.virt.libvirt.storage.guest_folders import KEPT_OVERLAYS, OVERLAY, OVERLAY_RECORD
from minova.virt.libvirt.storage.snapshot_record import SnapshotStep

LOG = logging.getLogger(__name__)
# Time limit in seconds for a commit, which copies what the guest has written since the snapshot; and seconds between
# two checks of it.
COMMIT_WITHIN, POLL = 600.0, 0.1
_TAKE = (
    libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_DISK_ONLY
    | libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_NO_METADATA
    | libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_REUSE_EXT
    | libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_ATOMIC
)
# Bytes of a qcow2 file with five clusters: before the first of data come its header, two of reference counts, and two of addresses.
_WITH_DATA = 5 << 16
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

    def has_kept(self, instance_uuid: str) -> bool:
        """Whether there are writes beside the disk that no record explains."""
        return bool(self._kept_overlays(instance_uuid))

    def require_none_kept(self, instance_uuid: str, host: str) -> None:
        """Raises HypervisorError if writes that are in no disk would be lost with the folder when the guest leaves this host."""
        kept_snapshots = self._kept_overlays(instance_uuid)
        if kept_snapshots and not self._disks.has_other_hosts(host):
            raise HypervisorError(
                f"Writes of instance {instance_uuid} may be in {kept_snapshots[0]} alone. Compare it with the disk (qemu-img compare), and remove "
                "it once it is not needed"
            )

    def _kept_overlays(self, instance_uuid: str) -> list[Path]:
        return sorted(self._disks.folder(instance_uuid).glob(KEPT_OVERLAYS))

    def open_ones(self) -> tuple[str, ...]:
        """Returns instances with open snapshots, of all hosts that share the folder."""
        return self._disks.with_open_snapshot()

    def require_room(self, instance_uuid: str, path: Path) -> None:
        """Raises DiskFull if a copy may not fit beside the bytes that must stay free."""
        disk = self._disks.folder(instance_uuid) / ROOT_DISK
        written = self._format(instance_uuid)
        allocated_bytes = _allocated(disk)
        base = disk_formats.backing_file(disk, written)
        if base is not None:
            allocated_bytes += _allocated(Path(base))
        size = min(allocated_bytes, disk_formats.virtual_size(disk, written))
        disk_space.require_room(path.parent, size, self._reserve(), f"No room for a snapshot in {path.parent}")

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
        with disk_images.new_file(overlay) as part:
            programs.write_with(part, command, programs.RunLimits(), size)
            self._disks.share_written(part)
        snapshot_record.write(overlay.parent, SnapshotStep.OPEN)
        take(_snapshot_xml(domain.XMLDesc(0), disk, overlay), _TAKE)

    def copy(self, instance_uuid: str, path: Path, check: Callable[[], None]) -> None:
        """Copy the disk with its backing files, while no guest writes to it."""
        disk, written = self._disks.folder(instance_uuid) / ROOT_DISK, self._format(instance_uuid)
        size = disk_formats.virtual_size(disk, written)
        limits = programs.RunLimits(cpu=24 * 3600, file_size=disk_formats.longest_file(size))
        self._disks.take_back(disk)
        programs.copy_with(
            path, disk, ["qemu-img", "convert", "-q", "-f", written, "-O", "qcow2", str(disk)], limits, check
        )

    def settle(self, instance_uuid: str, domain: Any | None, check: Callable[[], None] = lambda: None) -> None:
        """Settle as in the table above. `domain` is None if there is none. Raises HypervisorError if the overlay is still
        in use, or if an operator must decide; then it stays.

        `check` is called while a guest switches to its disk; an exception of it ends the wait, not the commit.
        """
        folder, overlay = self._disks.folder(instance_uuid), self._overlay(instance_uuid)
        if not overlay.exists():
            snapshot_record.remove(folder)
            return
        if domain is not None and domain.isActive():
            target = _target_of(domain.XMLDesc(0), overlay)
            if target is not None:
                _commit(domain, target, check)
                snapshot_record.write(folder, SnapshotStep.PIVOTING)
                domain.blockJobAbort(target, libvirt.VIR_DOMAIN_BLOCK_JOB_ABORT_PIVOT)
        self._disks.take_back(overlay)
        if domain is not None and not domain.isActive() and domain.hasManagedSaveImage():
            return
        if image_locks.is_open(overlay):
            raise HypervisorError(f"A QEMU still has {overlay} open: it is left as it is until that guest is off")
        if _is_half_made(overlay):
            LOG.warning("%s was never used by a guest, and is removed: its making was interrupted", overlay)
        elif domain is not None and domain.isActive():
            self._leave_running(domain, folder)
        else:
            self._settle_off(instance_uuid, domain, folder)
        self._name_disk(instance_uuid, domain)
        overlay.unlink(missing_ok=True)
        snapshot_record.remove(folder)

    def _leave_running(self, domain: Any, folder: Path) -> None:
        """The guest runs from its disk: keep what its overlay has, unless the guest has it, too."""
        if snapshot_record.read(folder) in {SnapshotStep.PIVOTING, SnapshotStep.COMMITTED}:
            return
        if disk_formats.holds_data(folder / OVERLAY):
            _set_aside_for_good(folder, f"{domain.name()} was started from its disk by other means than minova")

    def _settle_off(self, instance_uuid: str, domain: Any | None, folder: Path) -> None:
        step = snapshot_record.read(folder)
        if step is SnapshotStep.COMMITTED:
            return
        if step is SnapshotStep.OPEN or self._is_newer(instance_uuid, domain, step):
            self._commit_offline(folder / OVERLAY)
            snapshot_record.write(folder, SnapshotStep.COMMITTED)

    def _is_newer(self, instance_uuid: str, domain: Any | None, step: SnapshotStep | None) -> bool:
        """Whether the overlay of a guest that is off has its last writes, where the record does not say it. Raises
        HypervisorError if that cannot be known.
        """
        folder = self._disks.folder(instance_uuid)
        if domain is None:
            self._require_equal(folder, self._format(instance_uuid))
            return False
        if _target_of(_inactive(domain), folder / OVERLAY) is not None:
            return True
        if step is None and disk_formats.holds_data(folder / OVERLAY):
            _set_aside_for_good(
                folder, "no record says whether its writes are on the disk, and the domain names the disk"
            )
        return False

    def _require_equal(self, folder: Path, written: str) -> None:
        """Raises HypervisorError if the overlay differs from the disk."""
        disk, overlay = folder / ROOT_DISK, folder / OVERLAY
        self._disks.take_back(disk)
        command = ["qemu-img", "compare", "-q", "-f", "qcow2", "-F", written, str(overlay), str(disk)]
        if programs.run(command, programs.RunLimits(cpu=24 * 3600), answers=(0, 1)):
            raise HypervisorError(
                f"The domain of instance {folder.name} is lost, and nothing says whether {overlay} or {disk} has its last "
                f"writes. To keep those of the overlay: qemu-img commit -f qcow2 {overlay}. Then, or to keep those of the "
                f"disk, remove {OVERLAY} and {OVERLAY_RECORD} and start the server"
            )

    def _name_disk(self, instance_uuid: str, domain: Any | None) -> None:
        """Define the domain with the disk if it names the overlay."""
        overlay = self._overlay(instance_uuid)
        if domain is None or _target_of(inactive := _inactive(domain), overlay) is None:
            return
        disk = self._disks.folder(instance_uuid) / ROOT_DISK
        domain.connect().defineXML(_with_disk(inactive, overlay, disk, self._format(instance_uuid)))

    def _commit_offline(self, overlay: Path) -> None:
        """Commits the overlay to its backing disk. Idempotent."""
        self._disks.take_back(overlay.with_name(ROOT_DISK))
        size = disk_formats.virtual_size(overlay, disk_formats.QCOW2)
        limits = programs.RunLimits(cpu=24 * 3600, file_size=disk_formats.longest_file(size))
        programs.run(["qemu-img", "commit", "-q", "-d", "-f", "qcow2", str(overlay)], limits)

    def _overlay(self, instance_uuid: str) -> Path:
        return self._disks.folder(instance_uuid) / OVERLAY

    def _format(self, instance_uuid: str) -> str:
        formats = written_formats(self._disks.folder(instance_uuid))
        return formats.get(ROOT_DISK, disk_formats.FORMATS[ROOT_DISK])


def write_empty(path: Path, size: int) -> None:
    """Write an image without data, for guests that have no disks."""
    programs.write_with(path, ["qemu-img", "create", "-q", "-f", "qcow2"], programs.RunLimits(), str(size))


def _allocated(path: Path) -> int:
    return path.stat().st_blocks * 512


def _commit(domain: Any, target: str, check: Callable[[], None]) -> None:
    """Commit the overlay, until the guest can go over to the disk. If a killed process has started a commit, wait for
    that one.
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


def _is_half_made(overlay: Path) -> bool:
    """Whether an earlier release was interrupted while it made the overlay, under its final name: qemu-img names the disk last. An overlay
    with a cluster of data is longer.
    """
    return overlay.stat().st_size < _WITH_DATA and disk_formats.backing_file(overlay, disk_formats.QCOW2) is None


def _set_aside_for_good(folder: Path, why: str) -> None:
    """Rename the overlay, so that nothing uses it any more and nothing in it is lost."""
    number = 1
    while (kept_path := folder / f"snapshot.kept-{number}").exists():
        number += 1
    (folder / OVERLAY).rename(kept_path)
    LOG.warning("Writes of a guest may be in %s alone, which is kept: %s", kept_path, why)


def _inactive(domain: Any) -> str:
    return str(domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE | libvirt.VIR_DOMAIN_XML_SECURE))


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
    for element in _disks_of(xml):
        if _source(element) != os.fspath(disk):
            ET.SubElement(parts, "disk", name=_name(element), snapshot="no")
            continue
        part = ET.SubElement(parts, "disk", name=_name(element), snapshot="external", type="file")
        ET.SubElement(part, "driver", type="qcow2")
        ET.SubElement(part, "source", file=os.fspath(overlay))
    return ET.tostring(snapshot, encoding="unicode")


def _with_disk(xml: str, overlay: Path, disk: Path, written: str) -> str:
    """Returns the definition with the disk in place of the overlay."""
    root = ET.fromstring(xml)
    for element in root.findall("devices/disk"):
        source, driver = element.find("source"), element.find("driver")
        if source is None or driver is None or _source(element) != os.fspath(overlay):
            continue
        source.set("file", os.fspath(disk))
        driver.set("type", written)
        for chain in element.findall("backingStore"):
            element.remove(chain)
    return ET.tostring(root, encoding="unicode")
