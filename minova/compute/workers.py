"""The threads of a compute: builds are bounded, removals do not wait for them."""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait

from minova.once import Once

LOG = logging.getLogger(__name__)
Spawn = Callable[[Callable[[], None]], None]

UNLIMITED = 10_000
REMOVALS = 10


class Pool:
    """Runs work in up to `size` threads; an error that a work lets through is logged."""

    def __init__(self, name: str, size: int) -> None:
        self._name = name
        self._executor = ThreadPoolExecutor(max_workers=size or UNLIMITED, thread_name_prefix=name)
        self._running: set[Future[None]] = set()
        self._lock = threading.Lock()
        self._stopped = False

    def spawn(self, work: Callable[[], None]) -> None:
        """After `stop` nothing is begun: what is open is found again at the next start."""
        with self._lock:
            if self._stopped:
                return
            future = self._executor.submit(work)
            self._running.add(future)
        future.add_done_callback(self._ended)

    def _ended(self, future: Future[None]) -> None:
        with self._lock:
            self._running.discard(future)
        if not future.cancelled() and future.exception() is not None:
            LOG.error("Error in %s", self._name, exc_info=future.exception())

    def stop(self, seconds: float) -> None:
        """Nothing new begins; what runs has so many seconds to end."""
        with self._lock:
            self._stopped = True
            begun = set(self._running)
        self._executor.shutdown(wait=False, cancel_futures=True)
        _, still = wait([future for future in begun if not future.cancelled()], timeout=seconds)
        if still:
            LOG.warning("%d of %s still run after %.0f s", len(still), self._name, seconds)


class Workers:
    """Where builds and removals run: pools of this host, or `spawn` when it is given."""

    def __init__(self, max_concurrent_builds: int, spawn: Spawn | None) -> None:
        builds, removals = Pool("builds", max_concurrent_builds), Pool("removals", REMOVALS)
        self._pools = (builds, removals)
        self.build: Spawn = spawn or builds.spawn
        # A removal waits for its instance's build and is asked for again meanwhile: one would hold every thread.
        self.remove = Once(spawn or removals.spawn)

    def stop(self, seconds: float) -> None:
        for pool in self._pools:
            pool.stop(seconds)
