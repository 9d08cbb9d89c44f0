"""The threads of a compute. The number of builds is bounded, removals do not wait for builds, and no work occupies a
thread while it waits for its turn.
"""

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable

import msgspec

from minova import errors
from minova.single_flight import SingleFlight

LOG = logging.getLogger(__name__)
Work = Callable[[], None]
Spawn = Callable[[Work], None]

REMOVALS = 10
# Seconds after which a removal counts as stuck: it no longer prevents other removals from starting.
STUCK_AFTER = 20.0


class Pool:
    """Runs up to `size` pieces of work at the same time, each in its own thread; 0 is unlimited.

    Work that runs longer than `stuck_after` seconds no longer counts. Uncaught errors of work are logged. The threads
    are daemons: the process may end while they work.
    """

    def __init__(self, name: str, size: int, stuck_after: float = math.inf) -> None:
        self._name = name
        self._size = size or math.inf
        self._stuck_after = stuck_after
        self._waiting: deque[Work] = deque()
        self._running: dict[object, float] = {}
        self._changed = threading.Condition()
        self._look_again: threading.Timer | None = None
        self._stopped = False

    def spawn(self, work: Work) -> None:
        """Run the work as soon as a thread is free. After `stop` no work begins: the next start finds open work. Raises
        RuntimeError if no thread can be started.
        """
        with self._changed:
            if self._stopped:
                return
            self._waiting.append(work)
            try:
                self._begin()
            except RuntimeError:
                if work in self._waiting:
                    self._waiting.remove(work)
                    raise

    def stop(self, until: float) -> int:
        """Begin no more work, and wait until `until` (`time.monotonic`) for running work. Returns how many pieces still
        run.
        """
        with self._changed:
            self._stopped = True
            self._waiting.clear()
            left = min(max(0.0, until - time.monotonic()), threading.TIMEOUT_MAX)
            self._changed.wait_for(lambda: not self._running, left)
            return len(self._running)

    def _begin(self) -> None:
        """Begin the work that may begin now. The caller holds the lock."""
        now = time.monotonic()
        while self._waiting and self._fresh(now) < self._size:
            token, work = object(), self._waiting[0]
            threading.Thread(target=self._run, args=(token, work), name=self._name, daemon=True).start()
            # The thread needs the lock to report its end, so it cannot do so before this entry exists.
            self._running[token] = now
            self._waiting.popleft()
        if self._waiting and self._look_again is None and self._stuck_after < math.inf:
            self._look_again = threading.Timer(self._until_stuck(now), self._look)
            self._look_again.daemon = True
            self._look_again.start()

    def _fresh(self, now: float) -> int:
        return sum(now - begun < self._stuck_after for begun in self._running.values())

    def _until_stuck(self, now: float) -> float:
        ages = [now - begun for begun in self._running.values()]
        return max(0.01, min(self._stuck_after - age for age in ages if age < self._stuck_after))

    def _look(self) -> None:
        with self._changed:
            self._look_again = None
            before = len(self._running)
            self._begin()
            if len(self._running) > before:
                LOG.warning("%s: %d run, some for more than %g s", self._name, len(self._running), self._stuck_after)

    def _run(self, token: object, work: Work) -> None:
        try:
            work()
        except errors.Abandoned:
            LOG.info("%s: work is left as it is, for the next start", self._name)
        except errors.MinovaError as error:  # an outage, or a refusal with its reason
            LOG.warning("%s: %s", self._name, error)
        except BaseException:
            LOG.exception("Error in %s", self._name)
        finally:
            with self._changed:
                self._running.pop(token, None)
                self._changed.notify_all()
                if not self._stopped:
                    self._begin()


class _Item(msgspec.Struct, eq=False):
    spawn: Spawn
    work: Work
    begun: bool = False


class InstanceQueues:
    """Runs the work for one instance piece by piece, in the order of arrival.

    Only the first piece of an instance is handed to its pool, so no piece occupies a thread while it waits for another.
    """

    def __init__(self) -> None:
        self._queues: dict[str, deque[_Item]] = {}
        self._lock = threading.Lock()

    def add(self, instance_uuid: str, spawn: Spawn, work: Work) -> None:
        """Raises the errors of `spawn` if this piece of work is the first of its instance."""
        item = _Item(spawn, work)
        with self._lock:
            queue = self._queues.setdefault(instance_uuid, deque())
            queue.append(item)
            first = len(queue) == 1
        if first:
            self._offer(instance_uuid, item, spawn)

    def hurry(self, instance_uuid: str, spawn: Spawn) -> None:
        """Offer work that waits for a thread to `spawn` as well; whichever thread is free first runs it."""
        with self._lock:
            queue = self._queues.get(instance_uuid)
            item = queue[0] if queue and not queue[0].begun else None
        if item is not None:
            spawn(lambda: self._run(instance_uuid, item))

    def _offer(self, instance_uuid: str, item: _Item, spawn: Spawn) -> None:
        try:
            spawn(lambda: self._run(instance_uuid, item))
        except BaseException:
            self._done(instance_uuid)
            raise

    def _run(self, instance_uuid: str, item: _Item) -> None:
        with self._lock:
            if item.begun:
                return
            item.begun = True
        try:
            item.work()
        finally:
            self._done(instance_uuid)

    def _done(self, instance_uuid: str) -> None:
        with self._lock:
            queue = self._queues[instance_uuid]
            queue.popleft()
            following = queue[0] if queue else None
            if following is None:
                del self._queues[instance_uuid]
        if following is not None:
            self._go_on(instance_uuid, following)

    def _go_on(self, instance_uuid: str, following: _Item) -> None:
        """Run the following work, in this thread if no other can be started: its sender has already received the answer
        that it was accepted.
        """
        try:
            following.spawn(lambda: self._run(instance_uuid, following))
        except RuntimeError as error:
            LOG.warning("The next work of instance %s is done in this thread: %s", instance_uuid, error)
            self._run(instance_uuid, following)


class Workers:
    """Runs builds, removals and starts of guests in pools of this host, or by `spawn` if it is given."""

    def __init__(self, max_concurrent_builds: int, spawn: Spawn | None, max_concurrent_guest_starts: int = 0) -> None:
        self._builds = Pool("builds", max_concurrent_builds)
        self._removals = Pool("removals", REMOVALS, STUCK_AFTER)
        self._guest_starts = Pool("guest starts", max_concurrent_guest_starts)
        self._queues = InstanceQueues()
        self._for_guest_starts: Spawn = spawn or self._guest_starts.spawn
        self._for_builds: Spawn = spawn or self._builds.spawn
        self._for_removals: Spawn = spawn or self._removals.spawn
        # The conductor repeats its request while a removal waits for its turn.
        self._once = SingleFlight(self._for_removals)

    def build(self, instance_uuid: str, work: Work) -> None:
        self._queues.add(instance_uuid, self._for_builds, work)

    def start_guest(self, instance_uuid: str, work: Work) -> None:
        """Start a guest after a boot of the host. Other work for the instance waits until that has ended."""
        self._queues.add(instance_uuid, self._for_guest_starts, work)

    def remove(self, what: tuple[str, str], work: Work) -> None:
        """Run a removal or an action. `what` is the kind of work and its instance; the same work is in progress once at
        a time.
        """
        self._once(what, work, lambda whole: self._queues.add(what[1], self._for_removals, whole))

    def hurry(self, instance_uuid: str) -> None:
        """Let a cancelled build, or the start of a guest, that waits for a thread end in a thread of removals."""
        self._queues.hurry(instance_uuid, self._for_removals)

    def stop(self, seconds: float) -> int:
        """Begin no more work, and wait up to `seconds` for running work. Returns how many pieces of work still run."""
        until = time.monotonic() + seconds
        pools = (self._guest_starts, self._builds, self._removals)
        # All pools must refuse new work before this waits for any.
        for pool in pools:
            pool.stop(0.0)
        return sum(pool.stop(until) for pool in pools)
