"""The files of base images on this host, each under the digest of its content.

    DIGEST.part --size, sha256, format--> DIGEST, then DIGEST.json (its mark: size, time, what is in it)

A file gets its final name only when it is complete, and a file that overlays refer to never changes. There is one lock
per image, which works across processes, since several computes may share a folder.
"""

import contextlib
import hashlib
import logging
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
from oslo_concurrency import lockutils

from minova import errors
from minova.codecs import Decoder
from minova.concurrency.outside_waits import waiting
from minova.image_format import inspected_files, inspection
from minova.image_format.inspection import ImageFacts
from minova.objects.catalogue.image import Image
from minova.objects.catalogue.image_fitness import format_refused
from minova.private_files import make_folder, sync_folder
from minova.virt.disk_space import disk_full, require_room

LOG = logging.getLogger(__name__)
ALGORITHMS = ("sha256", "sha512")
# Seconds between two checks whether work that waits for an image is still wanted.
CHECK_INTERVAL = 0.2
_DIGEST = re.compile(r"[0-9a-f]{64,128}")


class CachedFileMark(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a cached file when its digest was checked, and what the inspection found in it.

    `rules` is the version of the inspection rules; 0 if an older release wrote the mark without an inspection.
    `refused` is the reason why content of this digest is not served as `disk_format`. Then there is no file, and the
    image is not fetched again by the same rules.
    """

    size: int
    mtime_ns: int
    rules: int = 0
    disk_format: str = ""
    virtual_size: int = 0
    refused: str | None = None

    def is_of(self, path: Path) -> bool:
        status = path.stat()
        return (status.st_size, status.st_mtime_ns) == (self.size, self.mtime_ns)

    def facts(self, declared: str | None) -> ImageFacts | None:
        """Returns what an inspection by the same rules found, or None if the file has to be inspected."""
        if self.refused or (self.rules, self.disk_format) != (inspection.RULES, declared):
            return None
        return ImageFacts(disk_format=self.disk_format, virtual_size=self.virtual_size)

    def require_served(self, image: Image) -> None:
        """Raises ImageUnacceptable if these bytes were refused before."""
        if self.refused and (self.rules, self.disk_format) == (inspection.RULES, image.disk_format):
            raise errors.ImageUnacceptable(f"Image {image.id}: {self.refused}")


_MARK = Decoder(CachedFileMark)


class CachedFiles:
    """The folder of base images. Safe for threads and processes. `reserve` returns the bytes of its disk that stay free."""

    def __init__(self, folder: Path, reserve: Callable[[], int]) -> None:
        self.folder = folder
        self._reserve = reserve

    def has(self, image: Image) -> bool:
        """Whether the file of the image is there by its mark. This does not check the digest of the file."""
        try:
            path = self.folder / digest_of(image)
            mark = _read_mark(path)
            return mark is not None and mark.is_of(path)
        except (OSError, errors.ImageUnacceptable):
            return False

    def keep(self, image: Image) -> bool:
        """Keeps the file as long as one that is stored now. Returns False if it is not there."""
        if not self.has(image):
            return False
        digest = digest_of(image)
        try:
            with locked(self.folder, digest):
                if not self.has(image):  # a sweep may have removed it meanwhile
                    return False
                mark_file(self.folder / digest).touch()
        except OSError:
            return False
        return True

    def get(self, image: Image, write: Callable[[Path], None], check: Callable[[], None] = lambda: None) -> Path:
        """Returns the file of the image. If it is not there, `write` writes the bytes of the image, checked by their digest, to a path.
        Calls `check` several times a second while another thread or process writes the same file; an exception of `check` ends the wait.
        """
        digest = digest_of(image)
        path = self.folder / digest
        with disk_full(f"Image {image.id} cannot be kept in {self.folder}"):
            make_folder(self.folder)
            with locked_when_free(self.folder, digest, check):
                mark = _read_mark(path)
                if mark is not None:
                    mark.require_served(image)
                if not self._holds(path, mark, image):
                    self._store(path, image, write)
                mark_file(path).touch()  # it was requested now: see `sweep`
                return path

    def require_room(self, size: int) -> None:
        """Raises DiskFull before the disk is full, not after."""
        require_room(self.folder, size, self._reserve(), f"No room for an image in {self.folder}")

    def _holds(self, path: Path, mark: CachedFileMark | None, image: Image) -> bool:
        """Whether the cached file is the image: by its mark, or by its digest if the mark does not match the file.

        Inspects the file if the mark does not say what is in it.
        """
        try:
            size = path.stat().st_size
        except FileNotFoundError:
            return False
        if mark is None or not mark.is_of(path) or image.size not in {None, size}:
            if digest_of_file(path, image) != path.name:
                LOG.warning("Cached image %s was changed on disk (%d bytes): it is fetched again", path, size)
                return False
            mark = None
        facts = mark.facts(image.disk_format) if mark is not None else None
        if facts is None:
            _write_mark(path, _inspected(path, image))
        else:
            inspected_files.remember(path, facts)
        return True

    def _store(self, path: Path, image: Image, write: Callable[[Path], None]) -> None:
        part = path.with_name(f"{path.name}.part")
        try:
            write(part)
            facts = self._accepted(part, path, image)
            part.rename(path)
        finally:
            part.unlink(missing_ok=True)
        _write_mark(path, facts)
        sync_folder(path.parent)
        LOG.info("Image %s is cached: %d bytes", image.id, path.stat().st_size)

    def _accepted(self, part: Path, path: Path, image: Image) -> ImageFacts:
        """Returns what is in the checked bytes. Raises ImageUnacceptable, and records the refusal in the mark, if they
        must not be served.
        """
        try:
            return _inspected(part, image)
        except errors.ImageUnacceptable as error:
            status, declared = part.stat(), image.disk_format or ""
            mark = CachedFileMark(
                size=status.st_size, mtime_ns=status.st_mtime_ns, rules=inspection.RULES, disk_format=declared
            )
            with contextlib.suppress(OSError):  # a full disk: it is fetched and refused again
                _save_mark(path, msgspec.structs.replace(mark, refused=str(error.__cause__ or error)))
            raise


def digest_of(image: Image) -> str:
    """Returns the name in the cache. Raises ImageUnacceptable if the image has no bytes yet, or no digest to check
    them.
    """
    if image.os_hash_algo not in ALGORITHMS or not _DIGEST.fullmatch(image.os_hash_value or ""):
        raise errors.ImageUnacceptable(
            f"Image {image.id} has no os_hash_value by {' or '.join(ALGORITHMS)} to check it against"
        )
    return str(image.os_hash_value)


def require_format(image: Image) -> None:
    """Raises ImageUnacceptable for a format that is not served."""
    refused = format_refused(image.disk_format, image.container_format or "bare")
    if refused:
        raise errors.ImageUnacceptable(f"Image {image.id}: {refused}")


def digest_of_file(path: Path, image: Image) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, image.os_hash_algo or ALGORITHMS[0]).hexdigest()


def locked(folder: Path, digest: str) -> contextlib.AbstractContextManager[object]:
    return lockutils.lock(f"image-{digest}", external=True, lock_path=str(folder / "locks"), do_log=False)


@contextlib.contextmanager
def locked_if_free(folder: Path, digest: str) -> Iterator[bool]:
    """Takes the lock of `locked` without waiting for it. Yields whether it was free."""
    path = str(folder / "locks")
    with contextlib.ExitStack() as stack:
        name = f"image-{digest}"
        try:
            stack.enter_context(lockutils.lock(name, external=True, lock_path=path, do_log=False, blocking=False))
        except lockutils.AcquireLockFailedException:
            is_free = False
        else:
            is_free = True
        yield is_free


@contextlib.contextmanager
def locked_when_free(folder: Path, digest: str, check: Callable[[], None]) -> Iterator[None]:
    """Takes the lock of `locked`. Calls `check` several times a second while it waits; an exception of `check` ends the wait."""
    with contextlib.ExitStack() as stack:
        with waiting("another copy of the same image"):
            while not stack.enter_context(locked_if_free(folder, digest)):
                check()
                time.sleep(CHECK_INTERVAL)
        yield


def _inspected(path: Path, image: Image) -> ImageFacts:
    try:
        return inspected_files.inspect_once(path, image.disk_format)
    except errors.ImageUnacceptable as error:
        raise errors.ImageUnacceptable(f"Image {image.id}: {error}") from error


def mark_file(path: Path) -> Path:
    return path.with_name(f"{path.name}.json")


def _read_mark(path: Path) -> CachedFileMark | None:
    try:
        return _MARK.from_json(mark_file(path).read_bytes())
    except (FileNotFoundError, msgspec.MsgspecError):
        return None


def _write_mark(path: Path, facts: ImageFacts) -> None:
    status = path.stat()
    mark = CachedFileMark(
        size=status.st_size,
        mtime_ns=status.st_mtime_ns,
        rules=inspection.RULES,
        disk_format=facts.disk_format,
        virtual_size=facts.virtual_size,
    )
    _save_mark(path, mark)


def _save_mark(path: Path, mark: CachedFileMark) -> None:
    half = mark_file(path).with_suffix(".json.part")
    half.write_bytes(msgspec.json.encode(mark))
    half.rename(mark_file(path))
