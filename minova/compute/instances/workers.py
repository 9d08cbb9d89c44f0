"""The threads of a compute. The number of builds is bounded, removals do not wait for builds, and no work occupies a
thread while it waits for its turn.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable

import msgspec

from minova.concurrency.daemon_pool import DaemonPool, Work
from minova.concurrency.single_flight import SingleFlight

LOG = logging.getLogger(__name__)
Spawn = Callable[[Work], object]

REMOVALS = 10
# Seconds after which a removal counts as stuck: it no longer prevents other removals from starting.
STUCK_AFTER = 20.0


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
            self._end(instance_uuid)
            raise

    def _run(self, instance_uuid: str, item: _Item) -> None:
        with self._lock:
            if item.begun:
                return
            item.begun = True
        try:
            item.work()
        finally:
            self._end(instance_uuid)

    def _end(self, instance_uuid: str) -> None:
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


class GuestWorkers:
    """Runs builds, removals and starts of guests in pools of this host, or by `spawn` if it is given."""

    def __init__(self, max_concurrent_builds: int, spawn: Spawn | None, max_concurrent_guest_starts: int = 0) -> None:
        self._builds = DaemonPool("builds", max_concurrent_builds)
        self._removals = DaemonPool("removals", REMOVALS, STUCK_AFTER)
        self._questions = DaemonPool("questions", REMOVALS, STUCK_AFTER)
        self._guest_starts = DaemonPool("guest starts", max_concurrent_guest_starts)
        self._pools = (self._questions, self._guest_starts, self._builds, self._removals)
        self._queues = InstanceQueues()
        self._for_guest_starts: Spawn = spawn or self._guest_starts.spawn
        self._for_builds: Spawn = spawn or self._builds.spawn
        self._for_removals: Spawn = spawn or self._removals.spawn
        self._for_questions: Spawn = spawn or self._questions.spawn
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

    def ask(self, what: tuple[str, str], work: Work) -> None:
        """Ask a conductor something before work on the instance begins: other work, on this instance or others, is not waited for. The
        same question is in progress once at a time.
        """
        self._once(what, work, self._for_questions)

    def hurry(self, instance_uuid: str) -> None:
        """Let a cancelled build, or the start of a guest, that waits for a thread end in a thread of removals."""
        self._queues.hurry(instance_uuid, self._for_removals)

    def stop(self, seconds: float) -> int:
        """Begin no more work, and wait up to `seconds` for running work. Returns how many pieces of work still run."""
        until = time.monotonic() + seconds
        # All pools must refuse new work before this waits for any.
        for pool in self._pools:
            pool.stop(0.0)
        return sum(pool.stop(until) for pool in self._pools)

    def silent(self, seconds: float) -> list[str] | None:
        """As `DaemonPool.silent`, of all work."""
        silent_pools = [pool.silent(seconds) for pool in self._pools]
        known_waits = [waits for waits in silent_pools if waits is not None]
        return (
            sorted({what for waits in known_waits for what in waits}) if len(known_waits) == len(silent_pools) else None
        )
