"""The disks of instances, as files: INSTANCES/UUID/disk, disk.eph0 (eph1, ...), disk.swap, disk.config, console.log; disk.rescue while
rescued.

Each file is made under a temporary name and renamed, so that a file with its final name is complete. `disk_owner`
records which host owns the files if hosts share the folder.
"""

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, Protocol

import msgspec
from oslo_config import cfg
from oslo_utils import units

from minova.errors import GuestSecretMissing, HardwareNotOffered, HypervisorError, InvalidConfiguration
from minova.hardware.guest.features import encrypts_disks
from minova.objects.catalogue.flavor import LocalDisk
from minova.objects.catalogue.image import Image
from minova.objects.guests.guest_secrets import SecretKind
from minova.objects.guests.local_disks import FORMATS, local_disks
from minova.objects.servers.instance import Instance
from minova.private_files import make_folder
from minova.virt import programs
from minova.virt.disk_space import disk_full, require_room
from minova.virt.libvirt.guest_files import console_logs, disk_formats
from minova.virt.libvirt.guest_files.qemu_access import QemuAccess, QemuUser, folders_above
from minova.virt.libvirt.storage import boot_files, disk_images, disk_keys, disk_owner
from minova.virt.libvirt.storage.disk_images import BaseImage, NewFile, new_file
from minova.virt.libvirt.storage.disk_owner import DiskOwner, OwnerFile
from minova.virt.libvirt.storage.guest_folders import KEPT_OVERLAYS, OVERLAY, OVERLAY_RECORD, RESCUE_DISK
from minova.virt.libvirt.storage.owned_folders import OwnedFolders
from minova.virt.libvirt.xml.disk_xml import Disk
from minova.virt.libvirt.xml.guest import properties_of
from minova.virt.libvirt.xml.system_xml import BootFiles

LOG = logging.getLogger(__name__)
DRIVE = "disk.config"
SWAP_DISK = "disk.swap"
_PACKAGES = {
    "qemu-img": "qemu-utils",
    **{f"mkfs.{file_system}": "e2fsprogs" for file_system in FORMATS},
    "mkswap": "util-linux",
    "fallocate": "util-linux",
}


class WriteDrive(NamedTuple):
    """Writes a config drive into a file."""

    write: Callable[[Path], None]
    is_cd: bool


class DiskSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`images_type`: the format of new root disks, qcow2 (on top of the image) or raw (a copy). `preallocate`: take all space of new
    disks at once, and leave `reserve` bytes of the file system free.
    """

    images_type: str = disk_formats.QCOW2
    preallocate: bool = False
    reserve: int = 0

    @classmethod
    def of(cls, conf: cfg.ConfigOpts) -> "DiskSettings":
        images_type = conf.libvirt.images_type
        return cls(
            images_type=disk_formats.QCOW2 if images_type == "default" else images_type,
            preallocate=conf.preallocate_images == "space",
            reserve=conf.free_space_reserve_mb * units.Mi,
        )


_USUAL = DiskSettings()


class PassphraseOf(Protocol):
    """Returns that of the disks of an instance. `make`: a missing one is made. `marks`: of secrets, by kind, of disks that are on
    another host. Raises GuestSecretMissing.
    """

    def __call__(self, instance_uuid: str, *, make: bool, marks: Mapping[str, str] = ...) -> str: ...


def _no_passphrase(instance_uuid: str, *, make: bool, marks: Mapping[str, str] = MappingProxyType({})) -> str:
    raise HypervisorError(f"There is no passphrase for the disks of instance {instance_uuid}")


class Disks(OwnedFolders):
    """The disks of one host. Methods raise DiskFull, and HypervisorError if a program fails."""

    def __init__(
        self,
        instances_path: Path,
        settings: DiskSettings = _USUAL,
        passphrase_of: PassphraseOf = _no_passphrase,
    ) -> None:
        super().__init__(instances_path)
        self._passphrase_of = passphrase_of
        self._settings = settings

    def check(self) -> None:
        """Raises InvalidConfiguration if a program or the folder cannot be used."""
        programs.require(_PACKAGES)
        try:
            make_folder(self.path)
        except OSError as error:
            raise InvalidConfiguration(f"[DEFAULT] instances_path = {self.path}: {error.strerror}") from error
        if self._settings.preallocate:
            self._check_preallocation()

    def _check_preallocation(self) -> None:
        probe = self.path / f".preallocation-{os.getpid()}"
        try:
            disk_images.preallocate(probe, units.Mi)
        except HypervisorError as error:
            raise InvalidConfiguration(
                f"[DEFAULT] preallocate_images = space: not possible in {self.path}: {error}"
            ) from error
        finally:
            probe.unlink(missing_ok=True)

    def grant_access(self, user: QemuUser | None, state_path: Path) -> None:
        """Give QEMU's user access to the disks, including those of existing guests. Raises InvalidConfiguration if it
        cannot.
        """
        self._qemu = QemuAccess.of(user)
        self._qemu.search(folders_above(self.path, state_path.absolute()))

    def plan(self, instance: Instance, *, drive_is_cd: bool | None = None) -> tuple[Disk, ...]:
        """Returns the disks of the instance's flavor, and its config drive. `drive_is_cd` says whether the drive is a
        CD or a disk; None: as it was made.
        """
        folder = self.folder(instance.uuid)
        is_cd = disk_owner.drive_is_cd(folder) if drive_is_cd is None else drive_is_cd
        # Existing disks have the format in which they were made, whatever the settings say now.
        written = disk_owner.written_formats(folder) if drive_is_cd is None else {}
        encrypts = self.encrypts(instance) if drive_is_cd is not None else self._encrypts_more(instance)
        names: dict[str, str | None] = {disk_owner.ROOT_DISK: None}
        names |= {name: disk.bus for name, disk in named_disks(instance).items()}
        if instance.config_drive:
            names[DRIVE] = None
        return tuple(
            msgspec.structs.replace(
                self._disk(folder / name, written.get(name), encrypts=encrypts), is_cd=name == DRIVE and is_cd, bus=bus
            )
            for name, bus in names.items()
        )

    def are_there(self, instance: Instance) -> bool:
        """Whether all disks of the instance are complete here. The config drive can be made again."""
        paths = (Path(disk.path) for disk in self.plan(instance))
        return all(path.exists() for path in paths if path.name != DRIVE)

    def _disk(self, path: Path, written: str | None, *, encrypts: bool) -> Disk:
        """Only QEMU writes the header of a qcow2 disk, which says whether it is encrypted. The config drive is never encrypted: the guest's
        host has made it, from what the database knows. `encrypts`: whether a disk that does not exist yet will be.
        """
        encrypts = encrypts and path.name != DRIVE
        if written is None:
            driver_format = (
                disk_formats.QCOW2 if encrypts else disk_formats.format_of(path.name, self._settings.images_type)
            )
            return Disk(path=str(path), driver_format=driver_format, is_encrypted=encrypts)
        try:
            return self._written(path, written)
        except FileNotFoundError:
            return Disk(path=str(path), driver_format=written, is_encrypted=encrypts and written == disk_formats.QCOW2)

    def _written(self, path: Path, written: str) -> Disk:
        """Returns a disk that is there. Raises FileNotFoundError."""
        self._qemu.take_back(path)
        is_encrypted = written == disk_formats.QCOW2 and disk_formats.is_encrypted(path)
        return Disk(path=str(path), driver_format=written, is_encrypted=is_encrypted)

    @staticmethod
    def encrypts(instance: Instance) -> bool:
        """Whether new disks of the instance are encrypted."""
        return encrypts_disks(instance.flavor, properties_of(instance))

    def passphrase(
        self, instance: Instance, *, make: bool = False, marks: Mapping[str, str] = MappingProxyType({})
    ) -> str | None:
        """Returns that of the instance's disks; None if they are not encrypted. `make`: for disks that do not exist yet. `marks`: see
        `PassphraseOf`. Raises the errors of the source of secrets.
        """
        return self._passphrase_of(instance.uuid, make=make, marks=marks) if self.encrypts(instance) else None

    def known_passphrase(self, instance: Instance, marks: Mapping[str, str] = MappingProxyType({})) -> str | None:
        """Returns that of the instance's disks; None if none was made. Raises the other errors of the source of secrets."""
        try:
            return self.passphrase(instance, marks=marks)
        except GuestSecretMissing:
            return None

    def passphrase_beside(self, instance: Instance) -> str | None:
        """Returns that of a further disk; None if it is not encrypted."""
        return self.passphrase(instance) if self._encrypts_more(instance) else None

    def _encrypts_more(self, instance: Instance) -> bool:
        """Whether a further disk is encrypted: as the root disk is. A guest of an earlier release has plain disks alone, and no
        passphrase, until it is rebuilt.
        """
        try:
            return self.encrypts(instance) and self.root_disk(instance.uuid).is_encrypted
        except FileNotFoundError:
            return True

    def make(
        self,
        instance: Instance,
        base: BaseImage,
        host: str,
        attempt: int,
        write_drive: WriteDrive | None = None,
        passphrases: Mapping[SecretKind, str] = MappingProxyType({}),
        replaces: Callable[[], None] = lambda: None,
        *,
        copies_image: bool = False,
    ) -> None:
        """Make every disk anew. `write_drive` writes the config drive, if the instance has one. `passphrases`: of encrypted disks and of a
        TPM. After a failure the former disks are there, all of them. `replaces` is called once nothing but the renaming is left to do.
        `copies_image`: the root disk is not based on the image.

        Raises DisksOfAnotherHost if a later attempt on another host has made them. Raises as `require_room`.
        """
        passphrase = passphrases.get(SecretKind.DISKS)
        if passphrase is None and self.encrypts(instance):
            raise HypervisorError(f"There is no passphrase for the disks of instance {instance.uuid}")
        folder = self.folder(instance.uuid)
        what = f"Disks of instance {instance.uuid} in {self.path}"
        self.require_room(instance, base, copies_image=copies_image)
        drive_is_cd = write_drive is None or write_drive.is_cd
        formats = {Path(disk.path).name: disk.driver_format for disk in self.plan(instance, drive_is_cd=drive_is_cd)}
        local, root_size = named_disks(instance), instance.flavor.root_gb * units.Gi or base.virtual_size
        marks = {str(kind): disk_keys.mark_of(passphrase) for kind, passphrase in passphrases.items()}
        entry = DiskOwner(host=host, attempt=attempt, formats=formats, drive_is_cd=drive_is_cd, secrets=marks)
        with (
            disk_full(what),
            disk_owner.locked(folder, make=True) as owner,
            _taking_over(owner, entry) as (taken_entry, renames),
        ):
            self.share(folder, base)
            record_inode = lambda disk: owner.write(msgspec.structs.replace(taken_entry, disk=disk))  # noqa: E731
            root = folder / disk_owner.ROOT_DISK
            with disk_images.together() as new:
                # It is renamed last: until then the others are opened in the formats of their predecessors.
                if formats[root.name] == disk_formats.RAW:
                    disk_images.raw_copy(root, base, root_size, record_inode, self.finish, new)
                elif copies_image:
                    disk_images.qcow2_copy(root, base, root_size, record_inode, self.finish, passphrase, new)
                else:
                    disk_images.overlay(root, base, root_size, record_inode, self.finish, passphrase, new)
                for name, disk in local.items():
                    disk_images.formatted(folder / name, disk, name, self.finish, passphrase, new)
                if instance.config_drive and write_drive is not None:
                    disk_images.written(folder / DRIVE, write_drive.write, self._qemu.write, new)
                self._make_boot_files(what, folder, instance.image, base.path, new)
                new.sync()
                replaces()
                if instance.image is not None:
                    boot_files.remove_others(folder, instance.image)
                # They belong to the disk that is replaced.
                for path in (folder / OVERLAY, folder / OVERLAY_RECORD, *folder.glob(KEPT_OVERLAYS)):
                    path.unlink(missing_ok=True)
                renames()
            if taken_entry.former is not None:
                # The inode of the former disk may belong to another file by now.
                owner.write(msgspec.structs.replace(taken_entry, disk=disk_owner.inode(root), former=None))

    def make_boot_files(self, instance: Instance, image_path: Path | None) -> None:
        """Make the kernel and ramdisk of an instance that has come from another host. `image_path`: its image in the cache."""
        if image_path is not None:
            what = f"Kernel of instance {instance.uuid} in {self.path}"
            with disk_full(what):
                self._make_boot_files(what, self.folder(instance.uuid), instance.image, image_path)
                if instance.image is not None:
                    boot_files.remove_others(self.folder(instance.uuid), instance.image)

    def _make_boot_files(
        self,
        what: str,
        folder: Path,
        image: Image | None,
        image_path: Path,
        new: NewFile = new_file,
        *,
        rescue: bool = False,
    ) -> None:
        if image is not None:
            room = partial(self._require_room, what)
            boot_files.make(folder, image, image_path, self._qemu.read, room, new, rescue=rescue)

    def boot_files(self, instance: Instance, disks: Sequence[Disk]) -> BootFiles | None:
        """Returns what QEMU loads to boot the guest with these disks; None: the guest boots from a disk."""
        rescue = any(Path(disk.path).name == RESCUE_DISK for disk in disks)
        return boot_files.of(self.folder(instance.uuid), instance.image, rescue=rescue)

    def require_room(self, instance: Instance, base: BaseImage, *, copies_image: bool = False) -> None:
        """Raises DiskFull if new disks surely do not fit. Raises HardwareNotOffered if the image is larger than the whole file system
        here, and the flavor gives the disk no other size.
        """
        if not instance.flavor.root_gb and base.virtual_size > self.usage().total:
            # Placement counts no disk for such a flavor, so nothing else compares the image's size with the host's
            # disk.
            raise HardwareNotOffered(
                f"Image of virtual size {base.virtual_size} bytes: larger than the host's disk, and flavor "
                f"{instance.flavor.name} sets no other size"
            )
        what = f"Disks of instance {instance.uuid} in {self.path}"
        local, root_size = named_disks(instance), instance.flavor.root_gb * units.Gi or base.virtual_size
        with disk_full(what):
            size = root_size + sum(disk.size_mb * units.Mi for disk in local.values())
            room = self._room(base, size, copies_image=copies_image)
            self._require_room(what, room + _boot_size(instance.image, base.path))

    def _room(self, base: BaseImage, size: int, *, copies_image: bool) -> int:
        """Returns the bytes that new disks of `size` take at once. An image that is converted is there twice meanwhile."""
        is_raw = self._settings.images_type == disk_formats.RAW
        is_converted = base.disk_format != disk_formats.RAW if is_raw else copies_image
        image = base.path.stat().st_blocks * 512 if is_raw or copies_image else 0
        return (image if is_converted else 0) + (size if self._settings.preallocate else image)

    def _require_room(self, what: str, needed: int) -> None:
        """Raises DiskFull before anything is written that surely does not fit."""
        if needed:
            make_folder(self.path)
            require_room(self.path, needed, self._settings.reserve, what)

    def finish(self, part: Path, size: int) -> None:
        """Finish a new disk before the renaming."""
        if self._settings.preallocate:
            disk_images.preallocate(part, size)
        self._qemu.write(part)

    def make_rescue(self, instance: Instance, base: BaseImage, image: Image) -> None:
        """Make the disk from which a rescued guest boots anew, as large as its image, and its kernel and ramdisk. The root disk is not
        changed.
        """
        instance_uuid, passphrase = instance.uuid, self.passphrase_beside(instance)
        folder = self.folder(instance_uuid)
        path = folder / RESCUE_DISK
        written = disk_formats.format_of(RESCUE_DISK, self._settings.images_type)
        what = f"Rescue disk of instance {instance_uuid} in {self.path}"
        with disk_full(what), disk_owner.locked(folder) as owner:
            self._require_room(what, _boot_size(image, base.path))
            entry = owner.read()
            if entry is not None:  # a file of an older release is written at the next start of its host
                owner.write(msgspec.structs.replace(entry, formats={**entry.formats, RESCUE_DISK: written}))
            self.share(folder, base)
            disk_images.overlay(
                path,
                base,
                base.virtual_size,
                lambda inode: None,
                lambda part, size: self._qemu.write(part),
                passphrase,
            )
            self._make_boot_files(what, folder, image, base.path, rescue=True)
            boot_files.remove_others(folder, image, rescue=True)

    def rescue_disk(self, instance_uuid: str) -> Disk:
        """Returns the disk of `make_rescue`."""
        written = disk_formats.format_of(RESCUE_DISK, self._settings.images_type)
        return self._disk(self.folder(instance_uuid) / RESCUE_DISK, written, encrypts=False)

    def root_disk(self, instance_uuid: str) -> Disk:
        folder = self.folder(instance_uuid)
        written = disk_owner.written_formats(folder).get(disk_owner.ROOT_DISK)
        path = folder / disk_owner.ROOT_DISK
        return self._written(path, written or disk_formats.format_of(path.name, self._settings.images_type))

    def remove_rescue(self, instance_uuid: str) -> None:
        """Remove the rescue disk with its kernel. Idempotent. Raises HypervisorError if it cannot be removed."""
        folder = self.folder(instance_uuid)
        path = folder / RESCUE_DISK
        try:
            path.unlink(missing_ok=True)
            boot_files.remove(folder, rescue=True)
        except OSError as error:
            raise HypervisorError(f"{path} cannot be removed: {error.strerror or error}") from error

    def share(self, folder: Path, base: BaseImage) -> None:
        """Share the folders and the base image with QEMU's user. The console log is created here, because this process
        must be able to read it.
        """
        self._qemu.search((folder, base.path.parent))
        self._qemu.read(base.path)
        log = folder / console_logs.NAME
        log.touch(mode=0o600)
        self._qemu.write(log)

    def lost_base(self, instance_uuid: str) -> Path | None:
        """Returns the base image of the root disk if the file is gone; None if it is there, or if the disk has none."""
        base = self._base(instance_uuid)
        return None if base is None or base.exists() else base

    def image_files(self, instance: Instance) -> dict[str, Path]:
        """Returns {digest: file} of what the guest has of its image: the base of its root disk, its kernel and its ramdisk."""
        base = self._base(instance.uuid)
        files = boot_files.by_digest(self.folder(instance.uuid), instance.image)
        return files if base is None else {base.name: base, **files}

    def share_image_file(self, path: Path) -> bool:
        """Let QEMU's group read a file of `image_files`: libvirt leaves the kernel of a guest that is off to root. Returns whether it can
        be read.
        """
        if path.name in boot_files.NAMES:
            self._qemu.take_back(path)
        try:
            self._qemu.read(path)
        except OSError as error:
            LOG.warning("%s cannot be shared: %s", path, error)
            return False
        return os.access(path, os.R_OK)

    def share_base(self, instance_uuid: str) -> None:
        """Let QEMU read the base image of the root disk: it may have been fetched again."""
        base = self._base(instance_uuid)
        if base is not None and base.exists():
            self._qemu.read(base)

    def base_digest(self, instance_uuid: str) -> str | None:
        """Returns the digest of the image on which the root disk is based; None: it has none."""
        base = self._base(instance_uuid)
        return None if base is None else base.name

    def _base(self, instance_uuid: str) -> Path | None:
        folder = self.folder(instance_uuid)
        root = folder / disk_owner.ROOT_DISK
        self._qemu.take_back(root)
        # A disk without a recorded format is not read.
        name = disk_formats.backing_file(root, disk_owner.written_formats(folder).get(root.name) or disk_formats.RAW)
        return None if name is None else Path(name)

    @property
    def program_group(self) -> int | None:
        """The group as which a program without other rights reads the files; None if it needs the rights of this process."""
        return self._qemu.program_group

    @property
    def reserve(self) -> int:
        """The bytes of the file system that must stay free."""
        return self._settings.reserve

    def require_room_for(self, size: int, what: str) -> None:
        """Raises DiskFull if a new disk of this size does not fit: it takes its room now, or when its guest writes."""
        require_room(self.path, size if self._settings.preallocate else 0, self._settings.reserve, what)


@contextmanager
def _taking_over(owner: OwnerFile, entry: DiskOwner) -> Iterator[tuple[DiskOwner, Callable[[], None]]]:
    """Yields the entry as written, and a function to call before the first disk is renamed. After an error before that, this host's record
    of the former disks is there again.
    """
    former, is_renamed = owner.read(), False

    def renames() -> None:
        nonlocal is_renamed
        is_renamed = True

    taken_entry = owner.take(entry)
    try:
        yield taken_entry, renames
    except BaseException:
        if former is not None and former.host == entry.host and not is_renamed:
            owner.write(former)
        raise


def named_disks(instance: Instance) -> dict[str, LocalDisk]:
    """Returns the instance's ephemeral disks and its swap, by the names of their files."""
    disks = local_disks(instance)
    ephemeral = [disk for disk in disks if not disk.is_swap]
    disks_by_name = {f"disk.eph{number}": disk for number, disk in enumerate(ephemeral)}
    return {**disks_by_name, SWAP_DISK: disks[-1]} if len(disks) > len(ephemeral) else disks_by_name


def _boot_size(image: Image | None, image_path: Path) -> int:
    return 0 if image is None else boot_files.size(image, image_path)
