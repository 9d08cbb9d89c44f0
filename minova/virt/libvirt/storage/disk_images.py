"""Makes one disk's file: on top of a base image, as a copy of it, or empty with a file system.

Each file is made under a temporary name, written to the disk of the host, and renamed, so that a file with its final name is complete,
also after a power cut. `finish` receives the file and its size before the renaming: it preallocates the file and gives QEMU access.
"""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path

import msgspec
from oslo_utils import units

from minova.errors import HypervisorError, ImageUnacceptable
from minova.image_format.inspected_files import inspect_once
from minova.objects.catalogue.flavor import LocalDisk
from minova.objects.catalogue.image import Image
from minova.objects.catalogue.image_fitness import unfit
from minova.objects.servers.instance import Instance
from minova.private_files import sync
from minova.virt import programs
from minova.virt.libvirt.guest_files.disk_formats import QCOW2, RAW, longest_file
from minova.virt.libvirt.storage import disk_keys
from minova.virt.libvirt.storage.disk_keys import DiskKey

# Limits for the copy of a whole image, which takes long.
_COPY_CPU, _COPY_WITHIN = 1800, 3600.0
_CHUNK = 16 * units.Mi
Finish = Callable[[Path, int], None]


class BaseImage(msgspec.Struct, frozen=True, kw_only=True):
    """An image's file on which an instance's disk can be based."""

    path: Path
    disk_format: str
    virtual_size: int

    @classmethod
    def of(cls, instance: Instance, path: Path | None, image: Image | None = None) -> "BaseImage":
        """Returns the base. `image` None: the instance's own image. Raises ImageUnacceptable if there is no image, if
        the file differs from its declared format, or if it is too large for the flavor.
        """
        image, flavor = image or instance.image, instance.flavor
        if image is None or path is None:
            raise ImageUnacceptable(f"Instance {instance.uuid} names no image to boot from")
        facts = inspect_once(path, image.disk_format)
        reasons = unfit(image, flavor, facts.virtual_size)
        if reasons:
            raise ImageUnacceptable(f"Image {image.id} does not fit flavor {flavor.name}: {'; '.join(reasons)}")
        return cls(path=path.absolute(), disk_format=facts.disk_format, virtual_size=facts.virtual_size)

    @classmethod
    def if_there(cls, instance: Instance, path: Path | None) -> "BaseImage | None":
        """As `of`; None if there is no such file."""
        return None if path is None or not path.exists() else cls.of(instance, path)


# Yields the path for a file in the making.
NewFile = Callable[[Path], AbstractContextManager[Path]]


class NewFiles:
    """A `NewFile` whose files get their final names together."""

    def __init__(self, parts: ExitStack) -> None:
        self._parts = parts
        self._made: list[tuple[Path, Path]] = []

    def __call__(self, path: Path) -> AbstractContextManager[Path]:
        part = self._parts.enter_context(_temporary(path.with_name(f"{path.name}.part")))
        self._made.append((part, path))
        return nullcontext(part)

    def sync(self) -> None:
        """Write all of them to the disk. What they replace may go then."""
        for part, _ in self._made:
            sync(part)

    def rename(self) -> None:
        """The last one first."""
        for part, path in reversed(self._made):
            part.rename(path)
        for folder in {path.parent for _, path in self._made}:
            sync(folder)


@contextmanager
def together() -> Iterator[NewFiles]:
    """The files are on the disk under their names when the block has ended. After an error nothing is left of any."""
    with ExitStack() as parts:
        files = NewFiles(parts)
        yield files
        files.sync()
        files.rename()


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """A `NewFile` that ends when its block does, as `together`."""
    with together() as new, new(path) as part:
        yield part


@contextmanager
def _temporary(path: Path) -> Iterator[Path]:
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)


def overlay(
    path: Path,
    base: BaseImage,
    size: int,
    record_inode: Callable[[int], None],
    finish: Finish,
    passphrase: str | None = None,
    new: NewFile = new_file,
) -> None:
    """Make a qcow2 disk on top of the base image. `record_inode` receives the inode of the disk before the renaming.

    With `-u` qemu-img does not open the base, which users have uploaded: its format and size are known from the
    inspection.
    """
    if not base.path.is_file():
        raise HypervisorError(f"Base image {base.path} is missing")
    command = ["qemu-img", "create", "-q", "-u", "-f", QCOW2, "-F", base.disk_format, "-b", str(base.path)]
    with new(path) as part:
        _create(part, command, size, passphrase)
        finish(part, size)
        record_inode(part.stat().st_ino)


def empty(path: Path, size: int, finish: Finish, passphrase: str | None) -> None:
    """Make a qcow2 disk without content."""
    with new_file(path) as part:
        _create(part, ["qemu-img", "create", "-q", "-f", QCOW2], size, passphrase)
        finish(part, size)


def _create(part: Path, command: list[str], size: int, passphrase: str | None) -> None:
    with disk_keys.opened(passphrase) as key:
        disk_keys.making(
            lambda: programs.write_with(
                part, [*command, *key.making], programs.RunLimits(), str(size), inherited=key.inherited
            )
        )


def raw_copy(
    path: Path, base: BaseImage, size: int, record_inode: Callable[[int], None], finish: Finish, new: NewFile = new_file
) -> None:
    """Make a raw disk with the content of the base image, sparse where the image has no data. `record_inode`: see `overlay`."""
    if not base.path.is_file():
        raise HypervisorError(f"Base image {base.path} is missing")
    with new(path) as part:
        if base.disk_format == RAW:
            copy(base.path, part)
        else:
            _convert(base, path, part, RAW, size)
        os.truncate(part, size)
        finish(part, size)
        record_inode(part.stat().st_ino)


def qcow2_copy(
    path: Path,
    base: BaseImage,
    size: int,
    record_inode: Callable[[int], None],
    finish: Finish,
    passphrase: str | None = None,
    new: NewFile = new_file,
) -> None:
    """Make a qcow2 disk with the content of the base image, on which it does not depend. `record_inode`: see `overlay`."""
    if not base.path.is_file():
        raise HypervisorError(f"Base image {base.path} is missing")
    with new(path) as part:
        with disk_keys.opened(passphrase) as key:
            _convert(base, path, part, QCOW2, longest_file(size), key)
            command = ["qemu-img", "resize", "-q", *key.opening(QCOW2)]
            programs.write_with(part, command, programs.RunLimits(), str(size), inherited=key.inherited, named=key.name)
        finish(part, size)
        record_inode(part.stat().st_ino)


def _convert(
    base: BaseImage, path: Path, part: Path, disk_format: str, file_size: int, key: DiskKey = disk_keys.PLAIN
) -> None:
    """Write the content of the base image to `part`. qemu-img parses the uploaded image as a user without rights: it gets a
    copy, beside `path`, that it may open.
    """
    with _temporary(path.with_name("base.part")) as source:
        copy(base.path, source)
        limits = programs.RunLimits(cpu=_COPY_CPU, within=_COPY_WITHIN, file_size=file_size)
        command = ["qemu-img", "convert", "-q", "-f", base.disk_format, "-O", disk_format, *key.making]
        disk_keys.making(lambda: programs.convert(source, part, command, limits, inherited=key.inherited))


def copy(source: Path, path: Path) -> None:
    """Copy a file; holes stay holes. Within one file system the copy may share blocks with the source."""
    path.touch(mode=0o600)
    with source.open("rb") as reader, path.open("r+b") as writer:
        size, at = os.fstat(reader.fileno()).st_size, 0
        os.ftruncate(writer.fileno(), size)
        while at < size:
            try:
                at = os.lseek(reader.fileno(), at, os.SEEK_DATA)
            except OSError:  # ENXIO: nothing but a hole is left
                return
            end = os.lseek(reader.fileno(), at, os.SEEK_HOLE)
            while at < end:
                copied = _copy_range(reader.fileno(), writer.fileno(), min(_CHUNK, end - at), at)
                if not copied:
                    return
                at += copied


def _copy_range(reader: int, writer: int, count: int, at: int) -> int:
    """Copy a range and return the number of bytes copied; 0 at the end of the file."""
    try:
        return os.copy_file_range(reader, writer, count, at, at)
    except OSError as error:
        if error.errno not in (errno.EXDEV, errno.EOPNOTSUPP, errno.ENOSYS):
            raise
        # The image cache may be on another file system.
        os.lseek(writer, at, os.SEEK_SET)
        return os.sendfile(writer, reader, at, count)


def formatted(
    path: Path,
    disk: LocalDisk,
    name: str,
    finish: Finish,
    passphrase: str | None = None,
    new: NewFile = new_file,
) -> None:
    """Make a raw file with a file system or swap area, or an encrypted qcow2 disk with it. The label of a file system is `ephemeral0`
    and so on.
    """
    size = disk.size_mb * units.Mi
    label = f"ephemeral{name.removeprefix('disk.eph')}"
    command = ["mkswap"] if disk.is_swap else [f"mkfs.{disk.guest_format}", "-q", "-F", "-L", label]
    with new(path) as part:
        if passphrase is None:
            _format(part, size, command)
        else:
            with _temporary(path.with_name("empty.part")) as empty_disk:
                _format(empty_disk, size, command)
                _encrypt(empty_disk, part, size, passphrase)
        finish(part, size)


def _format(path: Path, size: int, command: list[str]) -> None:
    with path.open("wb") as file:
        file.truncate(size)
    path.chmod(0o600)
    programs.write_with(path, command, programs.RunLimits(file_size=size))


def _encrypt(plain: Path, part: Path, size: int, passphrase: str) -> None:
    """`plain`: an empty file system, in which there are no secrets yet."""
    limits = programs.RunLimits(cpu=_COPY_CPU, within=_COPY_WITHIN, file_size=longest_file(size))
    with disk_keys.opened(passphrase) as key:
        command = ["qemu-img", "convert", "-q", *key.making, "-f", RAW, "-O", QCOW2]
        disk_keys.making(lambda: programs.convert(plain, part, command, limits, inherited=key.inherited))


def written(
    path: Path, write: Callable[[Path], None], grant_access: Callable[[Path], None], new: NewFile = new_file
) -> None:
    with new(path) as part:
        write(part)
        grant_access(part)


def preallocate(path: Path, size: int) -> None:
    """Allocate the space for a file of this size; its length does not change. Raises DiskFull, or HypervisorError
    if the file system cannot do it.
    """
    command = ["fallocate", "--keep-size", "--length", str(size)]
    programs.write_with(path, command, programs.RunLimits(file_size=size))
