"""The folder of the images' bytes. A file gets its image's id as its name only when it is complete and synced to disk.

IMAGES/ID                    the bytes
IMAGES/.records/ID.json      the record of the image, once it was active: the database may lose it, after a restore

An upload writes a `.part` file and holds a lock on it. A `.part` file without a lock is left from a crash; this holds
for several processes with one folder, too.
"""

import errno
import fcntl
import hashlib
import logging
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import msgspec

from minova import errors
from minova.codecs import Decoder
from minova.objects.catalogue.image import Image
from minova.private_files import make_folder

CHUNK_BYTES = 1 << 20
RECORDS = ".records"
YOUNG = 5.0  # seconds


LOG = logging.getLogger(__name__)
_IMAGE = Decoder(Image)


class Digest(msgspec.Struct, frozen=True, kw_only=True):
    """`size` in bytes; the digests are hexadecimal."""

    size: int
    md5: str
    sha256: str


class ImageTooLarge(errors.MinovaError):
    code = 413


class StoreLimits(msgspec.Struct, frozen=True, kw_only=True):
    """In bytes. `size_cap`: the largest image.
    `reserve`: the space that uploads leave free in the file system of the store.
    """

    size_cap: int = 1 << 40
    reserve: int = 0

    def require(self, folder: Path, size: int, more: int) -> None:
        """Raises ImageTooLarge or DiskFull if an upload of `size` bytes may not write `more` bytes."""
        if size + more > self.size_cap:
            raise ImageTooLarge(
                f"The image is larger than {self.size_cap} bytes, the most that an image may have here."
            )
        if more > shutil.disk_usage(folder).free - self.reserve:
            raise errors.DiskFull("There is no room left in the image store.")


class ImageStore:
    """Makes the folder at the first upload. Calls `limits` for each upload."""

    def __init__(self, folder: str, limits: Callable[[], StoreLimits] = StoreLimits) -> None:
        self._folder = Path(folder)
        self._limits = limits

    def path(self, image_id: str) -> Path:
        return self._folder / image_id

    def begin(self, image_id: str, announced: int | None = None) -> "Upload":
        """Begins an upload. `announced`: its expected bytes.

        Raises ImageTooLarge or DiskFull if there is no room for them, ServiceUnavailable if the folder is not writable.
        Raises Conflict if the image has been active: then its bytes stay as they are.
        """
        limits = self._limits()
        if self.record(image_id) is not None:
            raise errors.Conflict(
                f"The store has the data of image {image_id}, and the database is older: minova-manage unexpected list shows it."
            )
        try:
            make_folder(self._folder)
            limits.require(self._folder, 0, announced or 0)
            return Upload(self._folder, image_id, limits)
        except OSError as error:
            raise _store_error(error) from None

    def require_room(self, size: int) -> None:
        """Raises ImageTooLarge or DiskFull if there is no room for `size` bytes."""
        self._limits().require(self._folder, 0, size)

    def open(self, image_id: str) -> IO[bytes]:
        """Raises NotFound if the image has no bytes."""
        try:
            return self.path(image_id).open("rb")
        except FileNotFoundError:
            raise errors.NotFound(f"Image {image_id} has no data here.") from None

    def delete(self, image_id: str) -> None:
        self.path(image_id).unlink(missing_ok=True)
        self._record_file(image_id).unlink(missing_ok=True)

    def size(self, image_id: str) -> int | None:
        """Returns the bytes of the image's data; None if there are none."""
        try:
            return self.path(image_id).stat().st_size
        except FileNotFoundError:
            return None

    def record(self, image_id: str) -> Image | None:
        """Returns the record that is kept beside the bytes; None if there is none, or it cannot be read."""
        try:
            return _IMAGE.from_json(self._record_file(image_id).read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError) as error:
            LOG.warning("The record of image %s cannot be read: %s", image_id, error)
            return None

    def keep_record(self, image: Image) -> None:
        """Keeps the record of an image beside its bytes. One that cannot be written is logged."""
        path = self._record_file(image.id)
        half = path.with_suffix(f".{secrets.token_hex(8)}")
        try:
            make_folder(path.parent)
            with half.open("wb") as file:
                file.write(msgspec.json.encode(image))
                file.flush()
                os.fsync(file.fileno())
            half.rename(path)
        except OSError as error:
            LOG.warning("The record of image %s cannot be kept: %s", image.id, error)

    def _record_file(self, image_id: str) -> Path:
        return self._folder / RECORDS / f"{image_id}.json"

    def complete(self) -> Iterator[str]:
        """Yields the ids of the images whose bytes are here, except files that are younger than YOUNG."""
        for path in self._folder.glob("*"):
            with suppress(FileNotFoundError):
                if path.suffix != ".part" and path.is_file() and time.time() - path.stat().st_mtime > YOUNG:
                    yield path.name

    def abandoned_uploads(self) -> Iterator[tuple[str, Path]]:
        """Yields (image id, file) of uploads whose process died or did not get the conductor's answer."""
        for path in self._folder.glob("*.part"):
            with suppress(FileNotFoundError), path.open("rb") as file:
                # A young file may not be locked yet.
                if time.time() - path.stat().st_mtime > YOUNG and _locked(file):
                    yield path.name.partition(".")[0], path

    def partial_images(self) -> set[str]:
        """Returns the ids of the images of which a part is here."""
        return {path.name.partition(".")[0] for path in self._folder.glob("*.part")}

    def stop_upload(self, image_id: str) -> None:
        """Frees the space of an upload, in whichever process it runs. Its next write raises NotFound."""
        for path in self._folder.glob(f"{image_id}.*.part"):
            with suppress(FileNotFoundError):
                os.truncate(path, 0)
                path.unlink()

    def is_coming(self, image_id: str, beside: Path) -> bool:
        """Whether a process writes the bytes of the image now, into another file than `beside`."""
        for path in self._folder.glob(f"{image_id}.*.part"):
            with suppress(FileNotFoundError), path.open("rb") as file:
                if path != beside and not _locked(file):
                    return True
        return False


class Upload:
    """A context manager that removes the `.part` file at its end. `keep`: leaves that file for recovery."""

    keep = False

    def __init__(self, folder: Path, image_id: str, limits: StoreLimits) -> None:
        self._limits = limits
        self._final = folder / image_id
        self.path = folder / f"{image_id}.{secrets.token_hex(8)}.part"
        self._file = self.path.open("xb")
        _locked(self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        # Removes the file before closing it. Closing releases the lock, and the file would look abandoned for a moment.
        if not self.keep:
            self.path.unlink(missing_ok=True)
        self._file.close()

    def write(self, source: Iterator[bytes]) -> Digest:
        """Writes and syncs all of `source`. Raises ImageTooLarge or DiskFull as soon as it exceeds a limit, NotFound after
        `stop_upload`.
        """
        # The Image API's `checksum` is an MD5; nothing relies on it for security.
        md5, sha256, size = hashlib.md5(usedforsecurity=False), hashlib.sha256(), 0
        for chunk in source:
            # Checked for each chunk: the length may not be announced, and other uploads write, too.
            self._limits.require(self._final.parent, size, len(chunk))
            self._require_whole()
            md5.update(chunk)
            sha256.update(chunk)
            size += len(chunk)
            try:
                self._file.write(chunk)
            except OSError as error:
                raise _store_error(error) from None
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise _store_error(error) from None
        self._require_whole()
        return Digest(size=size, md5=md5.hexdigest(), sha256=sha256.hexdigest())

    def _require_whole(self) -> None:
        status = os.fstat(self._file.fileno())
        # On NFS an open file keeps a link.
        if status.st_nlink == 0 or status.st_size < self._file.raw.tell():
            raise _deleted()

    def commit(self) -> None:
        """Gives the file its final name, durably. The `.part` name stays until the end of the block."""
        # An existing file is left from an earlier upload that never became active.
        self._final.unlink(missing_ok=True)
        try:
            os.link(self.path, self._final)
        except FileNotFoundError:
            raise _deleted() from None
        folder = os.open(self._final.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _deleted() -> errors.NotFound:
    return errors.NotFound("The image was deleted during its upload.")


def _locked(file: IO[bytes]) -> bool:
    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _store_error(error: OSError) -> errors.MinovaError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return errors.DiskFull("There is no room left in the image store.")
    return errors.ServiceUnavailable(f"The image store cannot be written to: {error.strerror}.")
