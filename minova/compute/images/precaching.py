"""Images that are fetched into the cache of this host before a server needs them, one after the other."""

import logging
import threading
import time
from collections.abc import Callable, Sequence

from minova import errors
from minova.compute.images.source import ImageSource
from minova.compute.images.tokens import ImageToken
from minova.objects.catalogue.image_caching import CacheStatus, WantedImage

LOG = logging.getLogger(__name__)
# Seconds that an outcome is kept for a conductor that asks again, because its answer was lost.
KEPT = 120.0
# Seconds that an outcome is kept which no conductor has asked for. They ask hosts in turn, for half an hour at most.
UNTOLD = 3600.0


class _Precaching:
    """An image that is fetched, or was. `ended_at`: None while it is fetched; `told_at`: when a conductor first got the outcome."""

    def __init__(self, tokens: dict[str, str]) -> None:
        self.tokens = tokens
        self.status = CacheStatus.FETCHING
        self.ended_at: float | None = None
        self.told_at: float | None = None

    def end(self, status: CacheStatus, now: float) -> None:
        self.status, self.ended_at = status, now

    def is_over(self, now: float) -> bool:
        """Whether no conductor asks any more."""
        if self.ended_at is None:
            return False
        return now - self.ended_at > UNTOLD if self.told_at is None else now - self.told_at > KEPT

    def token(self, image_id: str) -> ImageToken:
        """The newest token that a conductor has sent for the image, its kernel or its ramdisk."""
        return ImageToken.of_build(self._newest, image_id, self.tokens.get(image_id))

    def _newest(self, image_id: str) -> str:
        if image_id not in self.tokens:
            raise errors.ServiceUnavailable(f"no conductor gave a token for image {image_id}")
        return self.tokens[image_id]


class Precaching:
    """Safe for threads. `spawn`: runs one piece of work after the other in the background. `ticks`: seconds, monotonic.
    `check` raises to end a download.
    """

    def __init__(
        self,
        images: ImageSource,
        spawn: Callable[[Callable[[], None]], object],
        *,
        check: Callable[[], None],
        ticks: Callable[[], float] = time.monotonic,
    ) -> None:
        self._images = images
        self._spawn = spawn
        self._check = check
        self._ticks = ticks
        self._lock = threading.Lock()
        # Keys are request and image, so that a later request repeats fetches that have failed for an earlier one.
        self._known: dict[tuple[str | None, str], _Precaching] = {}

    def statuses(self, request_id: str | None, images: Sequence[WantedImage]) -> tuple[CacheStatus, ...]:
        """Begins to fetch the images that are not here, unless it has begun. Returns how far each image is."""
        with self._lock:
            now = self._ticks()
            self._forget(now)
            return tuple(self._status(request_id, each, now) for each in images)

    def _forget(self, now: float) -> None:
        over = [key for key, fetch in self._known.items() if fetch.is_over(now)]
        for key in over:
            del self._known[key]

    def _status(self, request_id: str | None, requested: WantedImage, now: float) -> CacheStatus:
        key = (request_id, requested.image.id)
        fetch = self._known.get(key)
        if fetch is not None:
            fetch.tokens = requested.tokens
            if fetch.ended_at is not None and fetch.told_at is None:
                fetch.told_at = now
            return fetch.status
        # Whether its kernel and ramdisk are there is seen when they are fetched.
        if not requested.image.boot_files and self._images.keep(requested.image):
            return CacheStatus.EXISTING
        fetch = self._known[key] = _Precaching(requested.tokens)
        try:
            self._spawn(lambda: self._fetch(fetch, requested))
        except RuntimeError:  # no thread can be started
            del self._known[key]
            return CacheStatus.ERROR
        return fetch.status

    def _fetch(self, fetch: _Precaching, requested: WantedImage) -> None:
        status = CacheStatus.ERROR
        try:
            self._images.fetch(requested.image, self._check, fetch.token(requested.image.id))
            status = CacheStatus.CACHED
        except errors.MinovaError as error:
            LOG.warning("Image %s is not cached: %s", requested.image.id, error)
        finally:
            fetch.end(status, self._ticks())
