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


class _Fetch:
    """An image that is fetched, or was. `asked`: when a conductor last asked for it."""

    def __init__(self, tokens: dict[str, str], asked_at: float) -> None:
        self.tokens = tokens
        self.asked_at = asked_at
        self.status = CacheStatus.FETCHING

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
        # By the request and the image: a later request tries again what has failed for an earlier one.
        self._known: dict[tuple[str | None, str], _Fetch] = {}

    def statuses(self, request_id: str | None, images: Sequence[WantedImage]) -> tuple[CacheStatus, ...]:
        """Begins to fetch the images that are not here, unless it has begun. Returns how far each image is."""
        with self._lock:
            now = self._ticks()
            self._forget(now)
            return tuple(self._status(request_id, each, now) for each in images)

    def _forget(self, now: float) -> None:
        over = [key for key, fetch in self._known.items() if self._is_over(fetch, now)]
        for key in over:
            del self._known[key]

    def _is_over(self, fetch: _Fetch, now: float) -> bool:
        return fetch.status is not CacheStatus.FETCHING and now - fetch.asked_at > KEPT

    def _status(self, request_id: str | None, requested: WantedImage, now: float) -> CacheStatus:
        key = (request_id, requested.image.id)
        fetch = self._known.get(key)
        if fetch is not None:
            fetch.tokens, fetch.asked_at = requested.tokens, now
            return fetch.status
        # Whether its kernel and ramdisk are there is seen when they are fetched.
        if not requested.image.boot_files and self._images.keep(requested.image):
            return CacheStatus.EXISTING
        fetch = self._known[key] = _Fetch(requested.tokens, now)
        try:
            self._spawn(lambda: self._fetch(fetch, requested))
        except RuntimeError:  # no thread can be started
            del self._known[key]
            return CacheStatus.ERROR
        return fetch.status

    def _fetch(self, fetch: _Fetch, requested: WantedImage) -> None:
        status = CacheStatus.ERROR
        try:
            self._images.fetch(requested.image, self._check, fetch.token(requested.image.id))
            status = CacheStatus.CACHED
        except errors.MinovaError as error:
            LOG.warning("Image %s is not cached: %s", requested.image.id, error)
        finally:
            fetch.status = status
