"""Images that are fetched into the cache of this host before a server needs them, one after the other."""

import logging
import threading
import time
from collections.abc import Callable, Sequence

from minova import errors
from minova.compute.images.source import Images
from minova.compute.images.tokens import ImageToken
from minova.objects.catalogue.image_caching import CacheStatus, WantedImage

LOG = logging.getLogger(__name__)
# Seconds that an outcome is kept for a conductor that asks again, because its answer was lost.
KEPT = 120.0


class _Wanted:
    """An image that is fetched, or was. `asked`: when a conductor last asked for it."""

    def __init__(self, tokens: dict[str, str], asked: float) -> None:
        self.tokens = tokens
        self.asked = asked
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
        images: Images,
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
        self._known: dict[tuple[str | None, str], _Wanted] = {}

    def statuses(self, request_id: str | None, wanted: Sequence[WantedImage]) -> tuple[CacheStatus, ...]:
        """Begins to fetch the images that are not here, unless it has begun. Returns how far each image is."""
        with self._lock:
            now = self._ticks()
            self._forget(now)
            return tuple(self._status(request_id, each, now) for each in wanted)

    def _forget(self, now: float) -> None:
        over = [key for key, known in self._known.items() if self._is_over(known, now)]
        for key in over:
            del self._known[key]

    def _is_over(self, known: _Wanted, now: float) -> bool:
        return known.status is not CacheStatus.FETCHING and now - known.asked > KEPT

    def _status(self, request_id: str | None, wanted: WantedImage, now: float) -> CacheStatus:
        key = (request_id, wanted.image.id)
        known = self._known.get(key)
        if known is not None:
            known.tokens, known.asked = wanted.tokens, now
            return known.status
        # Whether its kernel and ramdisk are there is seen when they are fetched.
        if not wanted.image.boot_files and self._images.is_cached(wanted.image):
            return CacheStatus.EXISTING
        known = self._known[key] = _Wanted(wanted.tokens, now)
        try:
            self._spawn(lambda: self._fetch(known, wanted))
        except RuntimeError:  # no thread can be started
            del self._known[key]
            return CacheStatus.ERROR
        return known.status

    def _fetch(self, known: _Wanted, wanted: WantedImage) -> None:
        status = CacheStatus.ERROR
        try:
            self._images.fetch(wanted.image, self._check, known.token(wanted.image.id))
            status = CacheStatus.CACHED
        except errors.MinovaError as error:
            LOG.warning("Image %s is not cached: %s", wanted.image.id, error)
        finally:
            known.status = status
