"""A pool of daemon threads: unlike those of a ThreadPoolExecutor, they never keep the process from ending."""

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable

from minova import errors
from minova.concurrency import outside_waits

LOG = logging.getLogger(__name__)
Work = Callable[[], None]

# Seconds after which a thread without work ends.
IDLE_SECONDS = 60.0


class DaemonPool:
    """Runs up to `size` pieces of work at the same time, in the order of their arrival; size 0 is unlimited. Threads start on
    demand. Uncaught errors of work are logged.

    `stuck_after`: work that runs for more seconds no longer counts, so that other work can begin.
    """

    def __init__(self, name: str, size: int, stuck_after: float = math.inf) -> None:
        self._name = name
        self._size = size or math.inf
        self._stuck_after = stuck_after
        self._changed = threading.Condition()
        self._waiting: deque[Work] = deque()
        self._running: dict[int, float] = {}  # when each piece of work began, by the identifier of its thread
        self._idle = 0  # threads that run no work
        self._look_again: threading.Timer | None = None
        self._stopped = False

    def spawn(self, work: Work) -> bool:
        """Run the work as soon as a thread is free. Returns whether it was accepted: after `stop` it is dropped.

        Raises RuntimeError if no thread can be started and none runs that would take the work.
        """
        with self._changed:
            if self._stopped:
                return False
            self._waiting.append(work)
            try:
                self._start_threads()
            except RuntimeError:
                if not self._threads_that_count():
                    self._waiting.remove(work)
                    raise
                LOG.warning("No further thread of %s could be started", self._name)
            self._changed.notify()
        return True

    def stop(self, until: float) -> int:
        """Drop the work that waits for a thread, and wait until `until` (`time.monotonic`) for the other work. Returns how
        many pieces still run.
        """
        with self._changed:
            self._stopped = True
            while len(self._waiting) > self._idle:
                self._waiting.pop()
            self._changed.notify_all()
            seconds_left = min(max(0.0, until - time.monotonic()), threading.TIMEOUT_MAX)
            self._changed.wait_for(lambda: not self._unfinished(), seconds_left)
            return self._unfinished()

    def silent(self, seconds: float) -> list[str] | None:
        """Returns what the running work waits for, if nothing has come from outside for that long for any of it; None if some of it
        proceeds.
        """
        with self._changed:
            waits = [outside_waits.silent(thread, seconds) for thread in self._running]
            known_waits = [what for what in waits if what is not None]
            return None if self._waiting or len(known_waits) < len(waits) else known_waits

    # The caller of these four holds the lock.

    def _unfinished(self) -> int:
        return len(self._waiting) + len(self._running)

    def _start_threads(self) -> None:
        """Start the threads that the waiting work needs and the size allows."""
        while self._idle < len(self._waiting) and self._threads_that_count() < self._size:
            threading.Thread(target=self._run, name=self._name, daemon=True).start()
            self._idle += 1
        if self._idle < len(self._waiting) and self._look_again is None and self._stuck_after < math.inf:
            timer = threading.Timer(self._until_stuck(), self._end_idle)
            timer.daemon = True
            timer.start()
            self._look_again = timer

    def _threads_that_count(self) -> int:
        if self._stuck_after == math.inf:
            return self._idle + len(self._running)
        now = time.monotonic()
        return self._idle + sum(now - begun < self._stuck_after for begun in self._running.values())

    def _until_stuck(self) -> float:
        ages = [time.monotonic() - begun for begun in self._running.values()]
        return max(0.01, min((self._stuck_after - age for age in ages if age < self._stuck_after), default=0.0))

    def _end_idle(self) -> None:
        with self._changed:
            self._look_again = None
            if self._stopped:
                return
            before = self._idle
            self._start_threads()
            if self._idle > before:
                LOG.warning("%s: %d run for more than %g s", self._name, len(self._running), self._stuck_after)

    def _run(self) -> None:
        thread = threading.get_ident()
        while (work := self._next(thread)) is not None:
            try:
                work()
            except errors.Abandoned:
                LOG.info("%s: work is left as it is, for the next start", self._name)
            except errors.MinovaError as error:  # an outage, or a refusal with its reason
                LOG.log(errors.level_of(error), "%s: %s", self._name, error)
            except BaseException:
                LOG.exception("Error in %s", self._name)
            del work
            with self._changed:
                del self._running[thread]
                self._idle += 1
                if self._stopped:
                    self._changed.notify_all()

    def _next(self, thread: int) -> Work | None:
        """Returns None if this thread is to end: after `stop`, without work for long, or if other threads have taken its
        place while it was stuck.
        """
        with self._changed:
            awake = True
            while awake and not self._waiting and not self._stopped and self._threads_that_count() <= self._size:
                awake = self._changed.wait(IDLE_SECONDS)
            self._idle -= 1
            if not self._waiting or self._threads_that_count() >= self._size:
                self._changed.notify()  # the work may be another thread's
                return None
            self._running[thread] = time.monotonic()
            return self._waiting.popleft()
