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
from minova.log import level_of
from minova.messaging.notifier import Notice, Notifier
from minova.objects.catalogue.aggregate import Aggregate
from minova.objects.catalogue.image import Image
from minova.objects.catalogue.image_caching import THERE, CacheStatus, WantedImage

LOG = logging.getLogger(__name__)
# Seconds between two requests to a host, and until a host has failed: Nova's long_rpc_timeout.
ASK_EVERY, WITHIN = 2.0, 1800.0


class _Caching:
    """The work for one request. Safe for threads."""

    def __init__(self, ctx: RequestContext, aggregate: Aggregate, images: tuple[Image, ...]) -> None:
        self.ctx = ctx
        self.aggregate = aggregate
        self.images = images
        self.left = len(aggregate.hosts)
        self.done = 0
        self.lock = threading.Lock()


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
            self._spawn(lambda host=host: self._cache_on(caching, host))  # type: ignore[misc]
        if not aggregate.hosts:
            self._notify_of_all(caching, "end")

    def _cache_on(self, caching: _Caching, host: str) -> None:
        try:
            if host in self._liveness.present_hosts():
                self._report(caching, host, self._outcome(caching, host))
            else:
                LOG.info("Images of aggregate %d are not cached on %s, which is down", caching.aggregate.id, host)
        finally:
            with caching.lock:
                caching.left -= 1
                is_last = not caching.left
            if is_last:
                self._notify_of_all(caching, "end")

    def _outcome(self, caching: _Caching, host: str) -> Mapping[str, CacheStatus]:
        """Asks the host until it has all images, or has failed. Returns what has become of each, by its ID."""
        outcome = dict.fromkeys((image.id for image in caching.images), CacheStatus.FETCHING)
        until = self._ticks() + WITHIN
        while left := [image for image in caching.images if outcome[image.id] is CacheStatus.FETCHING]:
            outcome |= self._asked(caching.ctx, host, left)
            if CacheStatus.FETCHING not in outcome.values():
                break
            if self._ticks() >= until or host not in self._liveness.present_hosts() or self._wait(ASK_EVERY):
                return {
                    each: CacheStatus.ERROR if status is CacheStatus.FETCHING else status
                    for each, status in outcome.items()
                }
        return outcome

    def _asked(self, ctx: RequestContext, host: str, images: list[Image]) -> dict[str, CacheStatus]:
        requested = tuple(WantedImage(image=image, tokens=self._tokens(image)) for image in images)
        try:
            statuses = self._compute(host).cache_images(ctx, images=requested)
        except errors.PeerTooOld:
            return dict.fromkeys((image.id for image in images), CacheStatus.UNSUPPORTED)
        except errors.MinovaError as error:  # it is asked again
            LOG.log(level_of(error), "Host %s could not be asked to cache images: %s", host, error)
            return {}
        return {image.id: CacheStatus(status) for image, status in zip(images, statuses, strict=True)}

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
