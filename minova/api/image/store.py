"""The folder of the images' bytes. A file appears under its image's id only when it is whole and safe on disk.

An upload writes a `.part` file and holds a lock on it for as long as it lives, so that what a crash has left behind
can be told from what is still coming in, also when several processes share the folder.
"""

import errno
import fcntl
import hashlib
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import msgspec

from minova import errors

CHUNK_BYTES = 1 << 20
YOUNG = 5.0  # seconds


class Digest(msgspec.Struct, frozen=True, kw_only=True):
    """`size` in bytes; hex digests."""

    size: int
    md5: str
    sha256: str


class ImageStore:
    """The folder is made at the first upload."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)

    def path(self, image_id: str) -> Path:
        return self._folder / image_id

    def begin(self, image_id: str) -> "Upload":
        """DiskFull or ServiceUnavailable: the folder cannot be written to."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            return Upload(self._folder, image_id)
        except OSError as error:
            raise _told(error) from None

    def open(self, image_id: str) -> IO[bytes]:
        """NotFound: no bytes."""
        try:
            return self.path(image_id).open("rb")
        except FileNotFoundError:
            raise errors.NotFound(f"Image {image_id} has no data here.") from None

    def delete(self, image_id: str) -> None:
        self.path(image_id).unlink(missing_ok=True)

    def abandoned(self) -> Iterator[tuple[str, Path]]:
        """(image id, file) of uploads whose process has died, or could not tell how it ended."""
        for path in self._folder.glob("*.part"):
            with suppress(FileNotFoundError), path.open("rb") as file:
                # One that was made a moment ago may be about to be locked.
                if time.time() - path.stat().st_mtime > YOUNG and _locked(file):
                    yield path.name.partition(".")[0], path


class Upload:
    """As a context manager: whatever is not committed at its end is gone. `keep`: leave the `.part` file to be found."""

    keep = False

    def __init__(self, folder: Path, image_id: str) -> None:
        self._final = folder / image_id
        self.path = folder / f"{image_id}.{secrets.token_hex(8)}.part"
        self._file = self.path.open("xb")
        _locked(self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        # The lock goes with the file's closing, so the name must be gone before: or it would look abandoned.
        if not self.keep:
            self.path.unlink(missing_ok=True)
        self._file.close()

    def write(self, source: Iterator[bytes]) -> Digest:
        """All of `source`, flushed to the disk. DiskFull: there is no room."""
        # MD5 is what the Image API's `checksum` is; nothing relies on it for safety.
        md5, sha256, size = hashlib.md5(usedforsecurity=False), hashlib.sha256(), 0
        for chunk in source:
            md5.update(chunk)
            sha256.update(chunk)
            size += len(chunk)
            try:
                self._file.write(chunk)
            except OSError as error:
                raise _told(error) from None
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise _told(error) from None
        return Digest(size=size, md5=md5.hexdigest(), sha256=sha256.hexdigest())

    def commit(self) -> None:
        """Under its final name from now on, also after a power cut. The `.part` name stays until the end of the block."""
        # What stands there is of an earlier upload that never became active.
        self._final.unlink(missing_ok=True)
        os.link(self.path, self._final)
        folder = os.open(self._final.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _locked(file: IO[bytes]) -> bool:
    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _told(error: OSError) -> errors.MinovaError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return errors.DiskFull("There is no room left in the image store.")
    return errors.ServiceUnavailable(f"The image store cannot be written to: {error.strerror}.")
