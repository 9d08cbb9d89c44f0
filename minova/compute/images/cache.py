"""The image cache of this host. An image comes into it from the image service, or from another host that has it.

    image service --> downloads (one for all builds that wait) --+
                                                                 +--> cached_files
    another host  --> take_copy ---------------------------------+

Both are checked by the same rules before a disk is based on them.
"""

import threading
import time
from collections.abc import Callable
from pathlib import Path

from oslo_config import cfg

from minova import errors
from minova.compute.images.cached_files import CHECK_INTERVAL, CachedFiles, digest_of, digest_of_file, require_format
from minova.compute.images.downloads import CHUNK, Builds, ImageDownloads
from minova.compute.images.source import CopyWriter
from minova.compute.images.tokens import ImageToken
from minova.concurrency.outside_waits import waiting
from minova.objects.catalogue.image import Image
from minova.private_files import sync


class ImageUnwanted(Exception):
    """Every build that waited for this image has been cancelled."""


class _Fetch:
    """The download of one image into the cache: the number of builds that wait for it, and their `tokens` for it."""

    def __init__(self) -> None:
        self.waiting = 0
        self.tokens: list[ImageToken] = []
        self.done = threading.Event()
        self.thread: threading.Thread | None = None
        self.path: Path | None = None
        self.error: BaseException | None = None

    def require_wanted(self) -> None:
        """Raises ImageUnwanted if no build waits for the image any more."""
        if not self.waiting:
            raise ImageUnwanted

    def threads(self) -> tuple[int, ...]:
        """Returns the identifier of the thread that downloads."""
        identifier = None if self.thread is None else self.thread.ident
        return () if identifier is None else (identifier,)

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
        self._files = CachedFiles(self.folder, lambda: int(conf.free_space_reserve_mb) << 20)
        self._downloads = ImageDownloads(conf, pause=pause)
        self._fetches: dict[tuple[str, str], _Fetch] = {}
        self._lock = threading.Lock()

    def is_cached(self, image: Image) -> bool:
        """Whether `fetch` will most likely find the image in the cache. This does not check the digest of the file."""
        return self._files.has(image)

    def keep(self, image: Image) -> bool:
        """Keeps the image in the cache as long as one that was fetched now. Returns False if it is not there."""
        return self._files.keep(image)

    def require_there(self, image: Image, token: ImageToken | None = None) -> None:
        self._downloads.require_there(image, token)

    def fetch(self, image: Image, check: Callable[[], None] = lambda: None, token: ImageToken | None = None) -> Path:
        """Returns the checked file of the image, from the cache if it is there. `token` is used for the download.

        While it waits it calls `check` several times a second. An exception of `check` ends the wait and is raised.
        Raises ImageUnacceptable, DiskFull or ServiceUnavailable if the file cannot be had. Afterwards the kernel and the ramdisk of the
        image, if it has any, are in the cache, too.
        """
        for each in image.boot_files:
            self._file_of(each.as_image(), check, None if token is None else token.for_image(each.id))
        return self._file_of(image, check, token)

    def take_copy(self, image: Image, size: int, write: CopyWriter, check: Callable[[], None]) -> Path:
        """Returns the checked file of an image that another host has, with this size. `write` writes its bytes to a path; it is not called
        if the image is here. It ends before the disk is full, because the size is what the other host says. `check`: as of `fetch`.
        """
        require_format(image)
        if image.size not in {None, size}:
            raise errors.ImageUnacceptable(f"Image {image.id}: {image.size} bytes expected, {size} are there")

        def go_on() -> None:
            check()
            self._files.require_room(CHUNK)

        return self._files.get(
            image, lambda part: self._copy(part, image, size, lambda path: write(path, go_on)), check
        )

    def _copy(self, part: Path, image: Image, size: int, write: Callable[[Path], None]) -> None:
        self._files.require_room(size)
        part.touch()
        mode = part.stat().st_mode
        write(part)
        part.chmod(mode)
        sync(part)
        digest = digest_of_file(part, image)
        if digest != image.os_hash_value:
            raise errors.ImageUnacceptable(
                f"Image {image.id}: {image.os_hash_algo} expected {image.os_hash_value}, got {digest}"
            )

    def _file_of(self, image: Image, check: Callable[[], None], token: ImageToken | None) -> Path:
        digest = digest_of(image)
        require_format(image)
        fetch = self._join(image, digest, token)
        try:
            with waiting("the image service", of=fetch.threads):
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
                fetch.thread = threading.Thread(target=work, name="image", daemon=True)
                fetch.thread.start()
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
        builds = Builds(tokens=lambda: tuple(fetch.tokens), require_waiting=fetch.require_wanted)
        try:
            fetch.path = self._files.get(
                image,
                lambda part: self._downloads.save(image, part, builds, self._files.require_room),
                fetch.require_wanted,
            )
        except BaseException as error:  # noqa: BLE001  - the builds that wait raise it
            fetch.error = error
        with self._lock:
            # A build that comes from now on looks into the cache itself.
            if self._fetches.get((digest, image.id)) is fetch:
                del self._fetches[digest, image.id]
        fetch.done.set()
