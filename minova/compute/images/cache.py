"""The base images of this host. Each is fetched once over HTTP, checked, and stored under the digest of its content.

    image service --> DIGEST.part --size, sha256, format--> DIGEST, then DIGEST.json (its mark: size, time, what is in it)

A file gets its final name only when it is complete, and a file that overlays refer to never changes. There is one lock
per image, which works across processes, since several computes may share a cache.
"""

import contextlib
import hashlib
import logging
import math
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec
import urllib3
from oslo_concurrency import lockutils
from oslo_config import cfg

from minova import errors
from minova.backoff import Backoff
from minova.codecs import Decoder
from minova.compute.images.tokens import ImageToken, tokens_to_try
from minova.image_format import inspected_files, inspection
from minova.image_format.inspection import ImageFacts
from minova.image_tokens import SCHEME
from minova.objects.catalogue.image import Image
from minova.objects.catalogue.image_fitness import format_refused
from minova.private_files import make_folder, sync, sync_folder
from minova.virt.disk_space import disk_full, require_room

LOG = logging.getLogger(__name__)
CHUNK = 1 << 20
BACKOFF = Backoff(first=0.4, longest=5.0)
# Seconds between two checks whether a build that waits for an image is still wanted.
CHECK_INTERVAL = 0.2
ALGORITHMS = ("sha256", "sha512")
_DIGEST = re.compile(r"[0-9a-f]{64,128}")
_UUID_LIKE = re.compile(r"[0-9A-Za-z-]{1,64}")


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


class DownloadFailed(Exception):
    """A failed download that may succeed when it is tried again."""


class DownloadMismatch(DownloadFailed):
    """The downloaded bytes are not the bytes of the image."""


class ImageUnwanted(Exception):
    """Every build that waited for this image has been cancelled."""


class _Fetch:
    """The download of one image into the cache: the number of builds that wait for it, and their `tokens` for it."""

    def __init__(self) -> None:
        self.waiting = 0
        self.tokens: list[ImageToken] = []
        self.done = threading.Event()
        self.path: Path | None = None
        self.error: BaseException | None = None

    def require_wanted(self) -> None:
        """Raises ImageUnwanted if no build waits for the image any more."""
        if not self.waiting:
            raise ImageUnwanted

    def result(self) -> Path:
        if self.error is not None:
            raise self.error
        assert self.path is not None
        return self.path


class ImageCache:
    """Safe for threads and processes. `pause` waits the given number of seconds between tries.

    Builds that want the same image wait together for one download in a separate thread. The download ends when no build
    waits for it any more.
    """

    def __init__(self, conf: cfg.ConfigOpts, *, pause: Callable[[float], None] = time.sleep) -> None:
        self.folder = Path(conf.instances_path) / conf.image_cache_subdirectory_name
        self._url = conf.glance.endpoint_override.rstrip("/")
        self._tries = conf.glance.num_retries + 1
        self._pause = pause
        self._conf = conf
        self._fetches: dict[tuple[str, str], _Fetch] = {}
        self._lock = threading.Lock()
        self._password = _password(conf)
        self._http = urllib3.PoolManager(
            timeout=urllib3.Timeout(connect=conf.glance.timeout, read=conf.glance.timeout),
            retries=False,
            ca_certs=conf.glance.cafile or None,
            headers={"User-Agent": "minova-compute"},
        )

    def is_cached(self, image: Image) -> bool:
        """Whether `fetch` will most likely find the image in the cache. This does not check the digest of the file."""
        try:
            path = self.folder / _digest(image)
            mark = _read_mark(path)
            return mark is not None and mark.is_of(path)
        except (OSError, errors.ImageUnacceptable):
            return False

    def keep(self, image: Image) -> bool:
        """Keeps the image in the cache as long as one that was fetched now. Returns False if it is not there."""
        if not self.is_cached(image):
            return False
        digest = _digest(image)
        try:
            with locked(self.folder, digest):
                if not self.is_cached(image):  # a sweep may have removed it meanwhile
                    return False
                mark_file(self.folder / digest).touch()
        except OSError:
            return False
        return True

    def require_there(self, image: Image, token: ImageToken | None = None) -> None:
        fetch = _Fetch()
        fetch.waiting = 1
        fetch.tokens = [] if token is None else [token]
        self._with_retries(fetch, image, lambda: self._inspect(fetch, image))

    def fetch(self, image: Image, check: Callable[[], None] = lambda: None, token: ImageToken | None = None) -> Path:
        """Returns the checked file of the image, from the cache if it is there. `token` is used for the download.

        While it waits it calls `check` several times a second. An exception of `check` ends the wait and is raised.
        Raises ImageUnacceptable, DiskFull or ServiceUnavailable if the file cannot be had. Afterwards the kernel and the ramdisk of the
        image, if it has any, are in the cache, too.
        """
        for each in image.boot_files:
            self._file_of(each.as_image(), check, None if token is None else token.for_image(each.id))
        return self._file_of(image, check, token)

    def take_copy(self, image: Image, size: int, write: Callable[[Path], None]) -> Path:
        """Returns the file of an image whose bytes another host has. `write` writes them to a path unless they are here."""
        _require_format(image)
        if image.size not in {None, size}:
            raise errors.ImageUnacceptable(f"Image {image.id}: {image.size} bytes expected, {size} are there")
        return self._cached(image, lambda part: self._copy(part, image, size, write))

    def _copy(self, part: Path, image: Image, size: int, write: Callable[[Path], None]) -> None:
        self._require_room(size)
        part.touch()
        mode = part.stat().st_mode
        write(part)
        part.chmod(mode)
        sync(part)
        found = _digest_of(part, image)
        if found != image.os_hash_value:
            raise errors.ImageUnacceptable(
                f"Image {image.id}: {image.os_hash_algo} expected {image.os_hash_value}, got {found}"
            )

    def _file_of(self, image: Image, check: Callable[[], None], token: ImageToken | None) -> Path:
        digest = _digest(image)
        _require_format(image)
        fetch = self._join(image, digest, token)
        try:
            while not fetch.done.wait(CHECK_INTERVAL):
                check()
        finally:
            self._leave((digest, image.id), fetch, token)
        return fetch.result()

    def _join(self, image: Image, digest: str, token: ImageToken | None) -> _Fetch:
        key = (digest, image.id)
        with self._lock:
            running_fetch = self._fetches.get(key)
            fetch = running_fetch or self._fetches.setdefault(key, _Fetch())
            fetch.waiting += 1
            if token is not None:
                fetch.tokens.append(token)
        if running_fetch is None:
            work = lambda: self._run(fetch, image, digest)  # noqa: E731
            try:
                threading.Thread(target=work, name="image", daemon=True).start()
            except RuntimeError:  # no thread can be started
                self._leave(key, fetch, token)
                raise
        return fetch

    def _leave(self, key: tuple[str, str], fetch: _Fetch, token: ImageToken | None) -> None:
        with self._lock:
            fetch.waiting -= 1
            if token is not None:
                fetch.tokens.remove(token)
            if not fetch.waiting and self._fetches.get(key) is fetch:
                del self._fetches[key]

    def _run(self, fetch: _Fetch, image: Image, digest: str) -> None:
        try:
            fetch.path = self._cached(image, lambda part: self._download(fetch, part, image))
        except BaseException as error:  # noqa: BLE001  - the builds that wait raise it
            fetch.error = error
        with self._lock:
            # A build that comes from now on looks into the cache itself.
            if self._fetches.get((digest, image.id)) is fetch:
                del self._fetches[digest, image.id]
        fetch.done.set()

    def _cached(self, image: Image, write: Callable[[Path], None]) -> Path:
        """Returns the file in the cache. If it is not there, `write` writes the bytes of the image, checked by their digest, to a path."""
        digest = _digest(image)
        path: Path = self.folder / digest
        with disk_full(f"Image {image.id} cannot be kept in {self.folder}"):
            make_folder(self.folder)
            with locked(self.folder, digest):
                mark = _read_mark(path)
                if mark is not None:
                    mark.require_served(image)
                if not self._holds(path, mark, image):
                    self._store(path, image, write)
                mark_file(path).touch()  # it was requested now: see `sweep`
                return path

    def _holds(self, path: Path, mark: CachedFileMark | None, image: Image) -> bool:
        """Whether the cached file is the image: by its mark, or by its digest if the mark does not match the file.

        Inspects the file if the mark does not say what is in it.
        """
        try:
            size = path.stat().st_size
        except FileNotFoundError:
            return False
        if mark is None or not mark.is_of(path) or image.size not in {None, size}:
            if _digest_of(path, image) != path.name:
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

    # -- download --------------------------------------------------------------------------------------------------

    def _download(self, fetch: _Fetch, part: Path, image: Image) -> None:
        self._with_retries(fetch, image, lambda: self._try(fetch, part, image))

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

    def _with_retries(self, fetch: _Fetch, image: Image, attempt: Callable[[], None]) -> None:
        for number in range(1, self._tries + 1):
            fetch.require_wanted()
            try:
                attempt()
                return
            except (DownloadFailed, urllib3.exceptions.HTTPError) as error:
                LOG.warning("Download %d of %d of image %s failed: %s", number, self._tries, image.id, error)
                last = error
            if number < self._tries:
                self._pause(BACKOFF.pause(number))
        if isinstance(last, DownloadMismatch):
            raise errors.ImageUnacceptable(f"Image {image.id}: {last}") from last
        # The URL of the image service is only logged: the text of the exception becomes the fault of the server, which
        # users read.
        LOG.error("Image %s cannot be fetched from %s: %s", image.id, self._url, last)
        raise errors.ServiceUnavailable(f"Image {image.id} cannot be fetched from the image service.") from last

    def _inspect(self, fetch: _Fetch, image: Image) -> None:
        with self._get(self._address(image), fetch) as response:
            self._refuse_status(response.status, image, fetch)
            length = response.headers.get("Content-Length")
            if length is not None and image.size is not None and length != str(image.size):
                raise DownloadMismatch(f"{image.size} bytes expected, {length} are there")
            if image.size and not response.read(1):
                raise DownloadFailed("no byte came")

    def _address(self, image: Image) -> str:
        # The id comes from the image service itself, but an id that would change the path must not get into a URL.
        if not _UUID_LIKE.fullmatch(image.id):
            raise errors.ImageUnacceptable(f"Image id {image.id!r} is none")
        return f"{self._url}/v2/images/{image.id}/file"

    def _try(self, fetch: _Fetch, part: Path, image: Image) -> None:
        with self._get(self._address(image), fetch) as response, part.open("wb") as file:
            self._refuse_status(response.status, image, fetch)
            self._require_room(image.size or 0)
            digest = _save(response, file, image, lambda: self._go_on(fetch))
            file.flush()
            os.fsync(file.fileno())
        if digest != image.os_hash_value:
            raise DownloadMismatch(f"{image.os_hash_algo} expected {image.os_hash_value}, got {digest}")

    def _go_on(self, fetch: _Fetch) -> None:
        fetch.require_wanted()
        self._require_room(CHUNK)

    def _require_room(self, size: int) -> None:
        """Raises DiskFull before the disk is full, not after."""
        reserve = int(self._conf.free_space_reserve_mb) << 20
        require_room(self.folder, size, reserve, f"No room for an image in {self.folder}")

    @contextlib.contextmanager
    def _get(self, url: str, fetch: _Fetch) -> Iterator[urllib3.BaseHTTPResponse]:
        """Yields the response to the first credentials that the image service accepts, or else the response to the last
        ones.
        """
        response = None
        for credentials in self._credentials(fetch):
            if response is not None:
                response.close()
            headers = {**self._http.headers, **credentials}
            response = self._http.request("GET", url, preload_content=False, redirect=False, headers=headers)
            if response.status != 401:
                break
        assert response is not None
        try:
            yield response
        finally:
            # A connection whose response was not read to its end cannot be reused.
            response.close()

    def _credentials(self, fetch: _Fetch) -> Iterator[dict[str, str]]:
        """Yields headers to try in turn: the configured password, or else tokens. Without either it yields empty
        headers, since an image service may need no credentials.
        """
        if self._password:
            yield self._password
            return
        none_given = True
        for token in tokens_to_try(lambda: tuple(fetch.tokens)):
            none_given = False
            yield {"Authorization": f"{SCHEME}{token}"}
        if none_given:
            yield {}

    def _refuse_status(self, status: int, image: Image, fetch: _Fetch) -> None:
        if status == 200:
            return
        if status in {404, 410}:
            raise errors.ImageWithheld(f"Image {image.id} is not at the image service (HTTP {status})")
        if status == 403 and not self._password and any(token.value for token in tuple(fetch.tokens)):
            # The token was accepted; the image may not be downloaded.
            raise errors.ImageWithheld(f"Image {image.id} has been deactivated")
        if status in {401, 403}:
            raise errors.ServiceUnavailable(
                f"The image service refuses image {image.id} (HTTP {status}): {self._advice(fetch)}"
            )
        raise DownloadFailed(f"HTTP {status}")

    def _advice(self, fetch: _Fetch) -> str:
        if self._password:
            return "see [glance] username and password"
        if any(token.value for token in tuple(fetch.tokens)):
            return "it does not accept the token of the conductor. Is it an API of this release, with the conductors' database?"
        return (
            "no conductor gave a token for it. Conductors of 0.1.0 have none: upgrade them, or set [glance] username and "
            "password until then"
        )


def _password(conf: cfg.ConfigOpts) -> dict[str, str]:
    if not conf.glance.username:
        return {}
    return {
        "Authorization": urllib3.make_headers(basic_auth=f"{conf.glance.username}:{conf.glance.password or ''}")[
            "authorization"
        ]
    }


def _digest(image: Image) -> str:
    """Returns the name in the cache. Raises ImageUnacceptable if the image has no bytes yet, or no digest to check
    them.
    """
    if image.os_hash_algo not in ALGORITHMS or not _DIGEST.fullmatch(image.os_hash_value or ""):
        raise errors.ImageUnacceptable(
            f"Image {image.id} has no os_hash_value by {' or '.join(ALGORITHMS)} to check it against"
        )
    return str(image.os_hash_value)


def _require_format(image: Image) -> None:
    """Raises ImageUnacceptable for a format that is not served."""
    refused = format_refused(image.disk_format, image.container_format or "bare")
    if refused:
        raise errors.ImageUnacceptable(f"Image {image.id}: {refused}")


def _digest_of(path: Path, image: Image) -> str:
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


def _save(response: urllib3.BaseHTTPResponse, file: BinaryIO, image: Image, check: Callable[[], None]) -> str:
    """Saves the response and returns its digest. Raises DownloadFailed if too many or too few bytes came. `check` may raise
    between two chunks.
    """
    digest = hashlib.new(image.os_hash_algo or ALGORITHMS[0])
    limit = math.inf if image.size is None else image.size
    for chunk in response.stream(CHUNK, decode_content=False):
        check()
        digest.update(chunk)
        file.write(chunk)
        if file.tell() > limit:
            raise DownloadMismatch(f"size expected {image.size} bytes, got more")
    if image.size is not None and file.tell() != image.size:
        raise DownloadFailed(f"size expected {image.size} bytes, got {file.tell()}")
    return digest.hexdigest()


def _inspected(path: Path, image: Image) -> ImageFacts:
    try:
        return inspected_files.inspect_once(path, image.disk_format)
    except errors.ImageUnacceptable as error:
        raise errors.ImageUnacceptable(f"Image {image.id}: {error}") from error


# -- marks -------------------------------------------------------------------------------------------------------------


_MARK = Decoder(CachedFileMark)


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
