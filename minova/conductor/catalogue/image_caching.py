"""Lets the hosts of an aggregate fetch images into their caches.

A cached image only saves time, so no row is written: if the conductor dies, hosts that it has asked go on, the others fetch
the images when a server needs them. The conductor asks a host again and again until all is there: each of these requests
also begins again what the host has lost, for example by a restart, and brings new tokens.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping

from oslo_config import cfg

from minova import errors
from minova.concurrency.daemon_pool import DaemonPool
from minova.conductor.hosts.liveness import Liveness
from minova.conductor.notifications.aggregates import of_aggregate, of_host
from minova.conductor.tasks.worker import Spawn, TaskWorker
from minova.context import RequestContext
from minova.contracts.compute import ComputeApi
from minova.contracts.conductor.api.catalogue import ImageCachingApi
from minova.db.catalogue import aggregates
from minova.messaging.notifier import Notice, Notifier
from minova.objects.catalogue.aggregate import Aggregate
from minova.objects.catalogue.image import Image
from minova.objects.catalogue.image_caching import THERE, CacheStatus, WantedImage

LOG = logging.getLogger(__name__)
# Seconds between two requests to a host, and until a host has failed: Nova's long_rpc_timeout.
ASK_EVERY, WITHIN = 2.0, 1800.0
# Seconds for which a host has its place alone. A host that needs longer gives the place back after each question, so that others
# do not wait for one that fetches for ever.
TURN = 60.0


class _Caching:
    """The work for one request. Safe for threads."""

    def __init__(self, ctx: RequestContext, aggregate: Aggregate, images: tuple[Image, ...]) -> None:
        self.ctx = ctx
        self.aggregate = aggregate
        self.images = images
        self.left = len(aggregate.hosts)
        self.done = 0
        self.lock = threading.Lock()


class _HostPart:
    """The states of the images on one host, by their IDs. `began_at`: when it was first asked."""

    def __init__(self, host: str, images: tuple[Image, ...]) -> None:
        self.host = host
        self.outcome = dict.fromkeys((image.id for image in images), CacheStatus.FETCHING)
        self.began_at: float | None = None

    def images_to_ask(self, images: tuple[Image, ...]) -> list[Image]:
        return [image for image in images if self.outcome[image.id] is CacheStatus.FETCHING]

    def give_up(self, status: CacheStatus) -> None:
        self.outcome = {
            each: status if before is CacheStatus.FETCHING else before for each, before in self.outcome.items()
        }


class ImageCaching(ImageCachingApi):
    """`compute`: returns the client of a host. `token_for`: returns a token for the download of an image. `wait`: returns
    whether the service stops within these seconds.
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        worker: TaskWorker,
        liveness: Liveness,
        compute: Callable[[str], ComputeApi],
        token_for: Callable[[str], str | None],
        notifier: Notifier | None,
        *,
        host: str,
        wait: Callable[[float], bool],
        ticks: Callable[[], float] = time.monotonic,
        spawn: Spawn | None = None,
    ) -> None:
        self._worker = worker
        self._liveness = liveness
        self._compute = compute
        self._token_for = token_for
        self._notifier = notifier
        self._host = host
        self._wait = wait
        self._ticks = ticks
        self._spawn = spawn or DaemonPool("image caching", conf.image_cache.precache_concurrency).spawn

    def cache_images(self, ctx: RequestContext, aggregate_id: int, images: tuple[Image, ...]) -> None:
        with self._worker.db.read() as session:
            aggregate = aggregates.all_of(session).get(aggregate_id)
        if aggregate is None:
            raise errors.NotFound(f"Aggregate {aggregate_id} could not be found.")
        caching = _Caching(ctx, aggregate, images)
        self._notify_of_all(caching, "start")
        for host in aggregate.hosts:
            part = _HostPart(host, images)
            self._spawn(lambda part=part: self._cache_on(caching, part))  # type: ignore[misc]
        if not aggregate.hosts:
            self._notify_of_all(caching, "end")

    def _cache_on(self, caching: _Caching, part: _HostPart) -> None:
        """Works on the part of a host until it is done, or longer than its turn; then it goes on in a later turn."""
        try:
            is_done = self._is_done(caching, part)
        except BaseException:
            self._end(caching)
            raise
        if not is_done:
            self._spawn(lambda: self._cache_on(caching, part))
            return
        try:
            self._report(caching, part.host, part.outcome)
        finally:
            self._end(caching)

    def _end(self, caching: _Caching) -> None:
        with caching.lock:
            caching.left -= 1
            is_last = not caching.left
        if is_last:
            self._notify_of_all(caching, "end")

    def _is_done(self, caching: _Caching, part: _HostPart) -> bool:
        """Asks the host again and again until it has all images, or has failed, or its turn is over."""
        while True:
            if part.began_at is None:
                if part.host not in self._liveness.present_hosts():
                    part.give_up(CacheStatus.SKIPPED)
                    return True
                part.began_at = self._ticks()
            elif self._wait(ASK_EVERY):
                part.give_up(CacheStatus.ERROR)
                return True
            part.outcome |= self._ask_host(caching.ctx, part.host, part.images_to_ask(caching.images))
            if not part.images_to_ask(caching.images):
                return True
            age = self._ticks() - part.began_at
            if age >= WITHIN or part.host not in self._liveness.present_hosts():
                part.give_up(CacheStatus.ERROR)
                return True
            if age >= TURN:
                return False

    def _ask_host(self, ctx: RequestContext, host: str, images: list[Image]) -> dict[str, CacheStatus]:
        requested = tuple(WantedImage(image=image, tokens=self._tokens(image)) for image in images)
        try:
            statuses = self._compute(host).cache_images(ctx, images=requested)
        except errors.PeerTooOld:
            return dict.fromkeys((image.id for image in images), CacheStatus.UNSUPPORTED)
        except errors.MinovaError as error:  # it is asked again
            LOG.log(errors.level_of(error), "Host %s could not be asked to cache images: %s", host, error)
            return {}
        try:
            return {image.id: CacheStatus(status) for image, status in zip(images, statuses, strict=True)}
        except ValueError:
            LOG.warning("Host %s gives %d answers of %d images, or unknown ones", host, len(statuses), len(images))
            return dict.fromkeys((image.id for image in images), CacheStatus.ERROR)

    def _tokens(self, image: Image) -> dict[str, str]:
        ids = (image.id, *(each.id for each in image.boot_files))
        return {image_id: token for image_id in ids if (token := self._token_for(image_id)) is not None}

    def _report(self, caching: _Caching, host: str, outcome: Mapping[str, CacheStatus]) -> None:
        failed = {image_id: str(status) for image_id, status in outcome.items() if status not in THERE}
        if failed:
            LOG.warning("Images of aggregate %d are not cached on %s: %s", caching.aggregate.id, host, failed)
        with caching.lock:
            caching.done += 1
            payload = of_host(caching.aggregate, host, outcome, caching.done)
        self._notify(caching.ctx, "conductor", "progress", payload)

    def _notify_of_all(self, caching: _Caching, phase: str) -> None:
        # In Nova notifications of a whole aggregate name the API.
        self._notify(caching.ctx, "api", phase, of_aggregate(caching.aggregate))

    def _notify(self, ctx: RequestContext, service: str, phase: str, payload: Mapping[str, object]) -> None:
        if self._notifier is not None and self._notifier.versioned:
            event_type = f"aggregate.cache_images.{phase}"
            self._notifier.send(Notice(ctx, f"nova-{service}:{self._host}", event_type, payload, versioned=True))
