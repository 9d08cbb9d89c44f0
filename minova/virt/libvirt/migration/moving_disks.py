"""The disks of a guest that moves: what its source serves, how its destination fetches them and makes them its own.

INSTANCES/UUID/owner.json   names this host and attempt before the first byte is fetched, so that the files have an owner
INSTANCES/UUID/NAME.part    being fetched
INSTANCES/UUID/NAME         complete
"""

import logging
from collections.abc import Callable, Collection, Iterator
from functools import partial
from pathlib import Path

import msgspec

from minova.concurrency.side_work import together
from minova.errors import DisksOfAnotherHost, HypervisorError, ImageUnacceptable, NotFound
from minova.objects.guests.guest_secrets import SecretKind
from minova.objects.servers.disk_export import DiskExport, ExportedFile, TransferKey
from minova.objects.servers.instance import Instance
from minova.objects.servers.live_migration import LiveSource
from minova.virt import programs
from minova.virt.disk_space import disk_full, require_room
from minova.virt.libvirt.guest_files import console_logs, disk_formats, image_locks
from minova.virt.libvirt.migration import libvirt_files
from minova.virt.libvirt.migration.export_server import ExportedDisk
from minova.virt.libvirt.migration.file_bounds import FileBounds
from minova.virt.libvirt.migration.file_fetch import fetch
from minova.virt.libvirt.storage import disk_images, disk_keys, disk_owner, fitting
from minova.virt.libvirt.storage.disk_images import BaseImage
from minova.virt.libvirt.storage.disk_owner import DiskOwner, OwnerFile
from minova.virt.libvirt.storage.disks import DRIVE, Disks, WriteDrive, named_disks
from minova.virt.libvirt.xml.secrets_xml import kinds_of

LOG = logging.getLogger(__name__)
# A file as the source describes it to the destination, and the file that the source serves.
ServedFile = tuple[ExportedFile, ExportedDisk]
_LOGS = (console_logs.NAME, console_logs.PREVIOUS)


class MovingDisks:
    def __init__(self, disks: Disks) -> None:
        self._disks = disks

    # -- source --------------------------------------------------------------------------------------------------------

    def files(self, instance: Instance, more: tuple[Path, ...] = ()) -> tuple[ServedFile, ...]:
        """Returns the files to serve: the disks, except the config drive, the console logs, and `more`."""
        folder = self._disks.folder(instance.uuid)
        formats = disk_owner.written_formats(folder)
        disks = [Path(disk.path) for disk in self._disks.plan(instance) if Path(disk.path).name != DRIVE]
        logs = [path for path in (folder / name for name in _LOGS) if path.exists()]
        return tuple(self._files([*disks, *logs, *more], formats))

    def files_beside(self, instance: Instance) -> tuple[ServedFile, ...]:
        """Returns the files of a running guest to serve: those that libvirt does not copy in a live migration."""
        folder = self._disks.folder(instance.uuid)
        drive = [folder / DRIVE] if instance.config_drive and disk_owner.drive_is_cd(folder) else []
        logs = [path for path in (folder / name for name in _LOGS) if path.exists()]
        return tuple(self._files([*drive, *logs], disk_owner.written_formats(folder)))

    def image_files(self, instance: Instance, digests: Collection[str] | None = None) -> tuple[ServedFile, ...]:
        """Shares what is here of the guest's image, and returns it, to serve under the digests: see `DiskExport.images`. `digests`: only
        these files. A file that cannot be shared is left out.
        """
        return tuple(
            (ExportedFile(name=digest, export=digest, size=path.stat().st_size), ExportedDisk(digest, path))
            for digest, path in self._disks.image_files(instance).items()
            if (digests is None or digest in digests) and self._disks.share_image_file(path)
        )

    def require_images(self, instance: Instance, digests: Collection[str]) -> None:
        """Raises ImageUnacceptable if one of these files of its image, which the guest has, cannot be served."""
        for digest, path in self._disks.image_files(instance).items():
            if digest in digests and not self._disks.share_image_file(path):
                raise ImageUnacceptable(
                    f"Instance {instance.uuid} needs {path}, which cannot be read, and the image service does not have it any more"
                )

    def _files(self, paths: list[Path], formats: dict[str, str]) -> Iterator[ServedFile]:
        for path in paths:
            self._disks.take_back(path)
            self._disks.share_written(path)
            written = formats.get(path.name)
            based = written == disk_formats.QCOW2 and disk_formats.backing_file(path, written) is not None
            size = path.stat().st_size
            yield (
                ExportedFile(name=path.name, export=path.name, size=size, format=written, based=based),
                ExportedDisk(path.name, path),
            )

    def require_movable(self, instance: Instance, host: str) -> None:
        """Raises ImageUnacceptable if the root disk is not based on the image of the server's row, and no other host has the disks, too:
        each destination would refuse it.
        """
        base, image = self._disks.base_digest(instance.uuid), instance.image
        row = None if image is None else image.os_hash_value
        if base is not None and row is not None and not self._disks.has_other_hosts(host):
            _require_base(instance, base, row)

    def mark_shown(self, instance_uuid: str, migration_uuid: str) -> DiskOwner:
        """Write into the owner record that the disks are shown to the destination of this migration. Returns the record as it stands
        there: a host whose file system is full can be emptied all the same, if no other host shares the disks. Idempotent.

        Raises NotFound if no host is recorded as owner of the disks.
        """
        try:
            with disk_owner.locked(self._disks.folder(instance_uuid)) as owner:
                entry = owner.read()
                if entry is not None and entry.shown != migration_uuid:
                    try:
                        owner.write(shown_entry := msgspec.structs.replace(entry, shown=migration_uuid))
                        entry = shown_entry
                    except OSError as error:
                        LOG.warning("The owner record of instance %s cannot be written: %s", instance_uuid, error)
        except FileNotFoundError:
            entry = None
        if entry is None:
            raise NotFound(f"Instance {instance_uuid} has no disks with a recorded owner on this host")
        return entry

    # -- destination ---------------------------------------------------------------------------------------------------

    def shares(self, instance_uuid: str, export: DiskExport) -> bool:
        """Whether the source's disks are those in the folder here: what the source has written into the owner record for this
        migration stands there.
        """
        entry = disk_owner.read(self._disks.folder(instance_uuid))
        record = None if entry is None else (entry.host, entry.attempt, entry.shown)
        return bool(export.shown) and record == (export.host, export.attempt, export.shown)

    def sees_locks(self, instance_uuid: str, names: Collection[str]) -> bool:
        """Whether this host sees that another process has each of these disks open as QEMU does. While the source's QEMU runs the guest on
        them, that says whether its locks reach as far as here: they do not on NFS that is mounted with `nolock` or local locks.
        """
        folder = self._disks.folder(instance_uuid)
        try:
            return bool(names) and all(image_locks.is_open(folder / Path(name).name) for name in names)
        except OSError as error:
            LOG.warning("The locks of the disks of instance %s cannot be seen: %s", instance_uuid, error)
            return False

    def fetch(
        self,
        instance: Instance,
        host: str,
        attempt: int,
        export: DiskExport,
        key: TransferKey,
        base: BaseImage | None,
        bounds: FileBounds,
        check: Callable[[], None],
    ) -> None:
        """Fetch the files that are not complete. Raises DisksOfAnotherHost if a later attempt has the folder, HypervisorError if
        the folder is another host's or `bounds` does not allow a file, DiskFull, and as `file_fetch.fetch`.
        """
        _require_same_image(instance, export, base)
        files = tuple(map(bounds.of, export.files))
        folder = self._disks.folder(instance.uuid)
        if base is None and any(file.based for file in export.files):
            raise ImageUnacceptable(f"The disk of instance {instance.uuid} is based on an image that is not here")
        what = f"Disks of instance {instance.uuid} in {self._disks.path}"
        with disk_full(what):
            passphrase = self._disks.known_passphrase(instance, export.secrets)
            described = bounds.formats({file.name: file.format for file in files}, encrypted=passphrase is not None)
            formats = self._begin(instance, host, attempt, export, described)
            for file in (msgspec.structs.replace(file, format=formats.get(file.name)) for file in files):
                path = folder / libvirt_files.arriving(_checked_name(file.name), attempt)
                if not path.exists():
                    self._require_room(what, file)
                    finish = lambda part, file=file: self._finish(part, file, base, bounds, passphrase)  # noqa: E731
                    fetch(path, export, file, key, finish, check)
            with disk_owner.locked(folder) as owner:
                entry = _require_own(owner, host, attempt)
                owner.write(msgspec.structs.replace(entry, disk=disk_owner.inode(folder / disk_owner.ROOT_DISK)))
            if base is not None:
                self._disks.share(folder, base)
            self._fit(instance)

    def make_targets(
        self,
        instance: Instance,
        host: str,
        attempt: int,
        source: LiveSource,
        formats: dict[str, str],
        key: TransferKey,
        base: BaseImage | None,
        check: Callable[[], None],
    ) -> None:
        """Make the disks into which libvirt copies those of a running guest, and fetch the files that it does not copy. A file
        that is there is this attempt's, and complete: a QEMU that awaits the guest may have it open. `formats`: of the disks, as the
        source describes them. Raises as `fetch`.
        """
        folder, what = self._disks.folder(instance.uuid), f"Disks of instance {instance.uuid} in {self._disks.path}"
        if self._disks.encrypts(instance) and SecretKind.DISKS in kinds_of(source.xml):
            passphrase = self._disks.passphrase(instance, marks=source.export.secrets)
        else:
            passphrase = self._disks.known_passphrase(instance, source.export.secrets)
        _require_same_image(instance, source.export, base)
        bounds = FileBounds(instance, base)
        files = tuple(map(bounds.beside, source.export.files))
        for name, size in source.sizes.items():
            bounds.require_disk(name, size)
        with disk_full(what):
            described = bounds.formats(
                {name: formats.get(name) for name in (*source.sizes, *(exported.name for exported in files))},
                encrypted=passphrase is not None,
            )
            opened = self._begin(instance, host, attempt, source.export, described)

            def fetch_file(file: ExportedFile) -> None:
                path = folder / _checked_name(file.name)
                if not path.exists():
                    self._require_room(what, file)
                    fetch(path, source.export, file, key, self._disks.share_written, check)

            def make_disks() -> None:
                for name, size in source.sizes.items():
                    path = folder / _checked_name(name)
                    if not path.exists():
                        self._disks.require_room_for(size, what)
                        self._make_target(path, opened[name], size, source.export, base, passphrase)

            # Each is a small file, whose program and its TLS take longer than its bytes.
            together("moved disks", [make_disks, *(partial(fetch_file, file) for file in files)])
            with disk_owner.locked(folder) as owner:
                entry = _require_own(owner, host, attempt)
                owner.write(msgspec.structs.replace(entry, disk=disk_owner.inode(folder / disk_owner.ROOT_DISK)))
        if base is not None:
            self._disks.share(folder, base)

    def _make_target(
        self,
        path: Path,
        written: str,
        size: int,
        export: DiskExport,
        base: BaseImage | None,
        passphrase: str | None,
    ) -> None:
        if written != disk_formats.QCOW2:
            with disk_images.new_file(path) as part:
                with part.open("wb") as file:
                    part.chmod(0o600)
                    file.truncate(size)
                self._disks.finish(part, size)
        elif path.name == disk_owner.ROOT_DISK and _is_based(export):
            if base is None:
                raise ImageUnacceptable(f"{path.name} is based on an image that is not here")
            disk_images.overlay(path, base, size, lambda inode: None, self._disks.finish, passphrase)
        else:
            disk_images.empty(path, size, self._disks.finish, passphrase)

    def own(self, instance_uuid: str, host: str, attempt: int) -> None:
        """Make the disks that are here this host's, in this attempt. Raises as `take_over`."""
        try:
            with disk_owner.locked(self._disks.folder(instance_uuid)) as owner:
                owner.hand_over(host, attempt)
        except FileNotFoundError:
            raise NotFound(f"Instance {instance_uuid} has no disks on this host") from None

    def fetch_beside(
        self,
        instance_uuid: str,
        attempt: int,
        export: DiskExport,
        key: TransferKey,
        bounds: FileBounds,
        check: Callable[[], None],
    ) -> None:
        """Fetch what libvirt keeps elsewhere, of a guest whose disks both hosts share. Raises as `fetch`."""
        folder = self._disks.folder(instance_uuid)
        for file in export.files:
            name = libvirt_files.arriving(file.name, attempt)
            if name != file.name and not (folder / name).exists():
                bounds.of(file)
                self._require_room(f"Files of instance {instance_uuid} in {self._disks.path}", file)
                fetch(folder / name, export, file, key, lambda part: None, check)

    def _require_room(self, what: str, file: ExportedFile) -> None:
        """Raises DiskFull. Holes of a raw disk stay holes."""
        if file.format == disk_formats.RAW:
            self._disks.require_room_for(file.size, what)
        else:
            require_room(self._disks.path, file.size, self._disks.reserve, what)

    def _begin(
        self, instance: Instance, host: str, attempt: int, export: DiskExport, formats: dict[str, str]
    ) -> dict[str, str]:
        """Own the folder, and remove what an earlier attempt has left in it. Returns the recorded formats: what this attempt has recorded
        stays, whatever the source says now, because QEMU opens the disks so.
        """
        folder = self._disks.folder(instance.uuid)
        with disk_owner.locked(folder, make=True) as owner:
            entry = self._disks.settled_record(owner, host, instance)
            present_files = [path for path in folder.iterdir() if path.name not in {disk_owner.OWNER, disk_owner.PART}]
            if entry is None and present_files:
                raise HypervisorError(f"There are files in {folder}, and no host is recorded as their owner")
            if entry is not None and entry.attempt > attempt:
                raise DisksOfAnotherHost(f"The disks in {folder} are of attempt {entry.attempt} on host {entry.host}")
            if entry is not None and entry.host != host:
                raise HypervisorError(f"The disks in {folder} are of host {entry.host}, and not those of this move")
            if entry is not None and entry.attempt == attempt:
                return owner.note_formats(formats)
            for path in present_files:
                path.unlink()
            owner.write(
                DiskOwner(
                    host=host,
                    attempt=attempt,
                    formats=formats,
                    drive_is_cd=export.drive_is_cd,
                    addresses=export.addresses,
                    secrets=export.secrets,
                )
            )
            return formats

    def _finish(
        self, part: Path, file: ExportedFile, base: BaseImage | None, bounds: FileBounds, passphrase: str | None
    ) -> None:
        if file.format == disk_formats.QCOW2:
            disk_formats.require_own_kind(part, encrypted=passphrase is not None)
            bounds.require_disk(file.name, disk_formats.virtual_size(part, file.format))
            based = ["-F", base.disk_format, "-b", str(base.path)] if base is not None and file.based else ["-b", ""]
            with disk_keys.opened(passphrase) as key:
                programs.write_with(
                    part,
                    ["qemu-img", "rebase", "-q", "-u", *key.opening(disk_formats.QCOW2), *based],
                    programs.RunLimits(file_size=file.size + (64 << 20)),
                    named=key.name,
                    inherited=key.inherited,
                )
        self._disks.share_written(part)

    def take_over(self, instance: Instance, host: str, attempt: int, write_drive: WriteDrive) -> None:
        """Make the disks that are here this host's, in this attempt, and fit them to the instance. Idempotent.

        Raises NotFound if there are none, DisksOfAnotherHost if a later attempt has made them, HypervisorError if a QEMU on another host has
        them open.
        """
        folder = self._disks.folder(instance.uuid)
        if not (folder / disk_owner.ROOT_DISK).exists():
            raise NotFound(f"Instance {instance.uuid} has no disks on this host")
        with disk_full(f"Disks of instance {instance.uuid} in {self._disks.path}"):
            with disk_owner.locked(folder) as owner:
                self._disks.require_closed(folder / disk_owner.ROOT_DISK, owner.read(), host)
                handed_over = owner.hand_over(host, attempt)
                owner.write(msgspec.structs.replace(handed_over, drive_is_cd=write_drive.is_cd))
            self._fit(instance)
            if instance.config_drive:
                disk_images.written(folder / DRIVE, write_drive.write, self._disks.share_written)

    def attempt_of(self, instance_uuid: str) -> int | None:
        """Returns the attempt that has the disks; None if that is not recorded."""
        entry = disk_owner.read(self._disks.folder(instance_uuid))
        return None if entry is None else entry.attempt

    def makes_swap_anew(self, instance: Instance) -> bool:
        """Whether `take_over` makes the guest's swap in another size."""
        return fitting.makes_swap_anew(self._disks.plan(instance), named_disks(instance))

    def _fit(self, instance: Instance) -> None:
        disks, passphrase = self._disks.plan(instance), self._disks.passphrase_beside(instance)
        # Of what a host makes itself: the root disk has come with a format.
        formats = {name: disk.driver_format for disk in disks if (name := Path(disk.path).name) != disk_owner.ROOT_DISK}
        with disk_owner.locked(self._disks.folder(instance.uuid)) as owner:
            owner.note_formats(formats)
        fitting.fit(disks, instance, named_disks(instance), self._disks.finish, passphrase)


def _require_same_image(instance: Instance, export: DiskExport, base: BaseImage | None) -> None:
    """The destination puts a disk on top of the image that the server's row names. Another image would change what is in
    it. Raises ImageUnacceptable.
    """
    if export.base is not None and base is not None:
        _require_base(instance, export.base, base.path.name)


def _require_base(instance: Instance, base: str, row: str) -> None:
    if base != row:
        raise ImageUnacceptable(
            f"The root disk of instance {instance.uuid} is based on another image than the server's: an earlier release has "
            "unshelved it, or a rebuild has failed. Shelve and unshelve it first, or rebuild it"
        )


def _is_based(export: DiskExport) -> bool:
    """Whether the source's root disk is on top of an image. QEMU copies no zeros that the source has not written: the bytes of an image
    below the target would show there. Raises HypervisorError if the source does not say.
    """
    if export.base is None and export.based is None:
        raise HypervisorError(f"Host {export.host} does not say whether the root disk is based on an image")
    return export.base is not None or export.based is True


def _require_own(owner: OwnerFile, host: str, attempt: int) -> DiskOwner:
    entry = owner.read()
    if entry is None or (entry.host, entry.attempt) != (host, attempt):
        raise DisksOfAnotherHost("The folder of the disks has become another attempt's while they were fetched")
    return entry


def _checked_name(name: str) -> str:
    """Returns the name of a file in the folder. Raises HypervisorError for a name that leads elsewhere."""
    if name in {"", ".", "..", disk_owner.OWNER} or "/" in name or name.endswith(".part"):
        raise HypervisorError(f"The source serves a file {name!r}, which no guest has")
    return name
