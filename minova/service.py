"""The life of a service: start order, RPC server, periodic tasks, heartbeat and graceful stop.

init_host -> pre_start_hook -> RPC server listens -> post_start_hook -> periodic tasks and heartbeat
"""

import logging
import os
import random
import signal
import stat
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import msgspec

from minova import errors
from minova.backoff import Backoff
from minova.context import service_context
from minova.log import bound_request
from minova.outages import HAS_REASON, Failures, kind_of
from minova.safe_mode import SafeMode

LOG = logging.getLogger(__name__)
T = TypeVar("T")

# Seconds that a stop waits for messages in progress and for periodic tasks.
SERVER_STOP = 1.0
PERIODIC_STOP = 0.5
# Seconds within which a process notices a request to stop.
STOP_NOTICED = 0.2
BACKOFF = Backoff(first=1.0, longest=10.0)


class PeriodicTask(msgspec.Struct, frozen=True, kw_only=True):
    """`work` runs every `interval` seconds, jittered by a tenth. It may return a new interval for the following runs.
    After an error, the next try comes after `interval` at the latest.

    `in_safe_mode`: it also runs in safe mode, because it removes nothing and changes no server, guest or image.
    """

    name: str
    interval: float
    work: Callable[[], float | None]
    at_once: bool = False
    in_safe_mode: bool = False


def unless_safe(task: PeriodicTask, safe_mode: SafeMode) -> PeriodicTask:
    """Returns the task as it runs in a process with this safe mode: most tasks are skipped while it is on."""
    if task.in_safe_mode:
        return task
    return msgspec.structs.replace(task, work=lambda: task.work() if safe_mode.reason is None else None)


class Manager(Protocol):
    """What a service's package provides. Each method is called once, in this order.

    A manager may have a `safe_mode`; most of its periodic tasks are skipped while that is on.
    """

    def init_host(self) -> None: ...

    def pre_start_hook(self) -> None: ...

    def post_start_hook(self) -> None: ...

    def periodic_tasks(self) -> Sequence[PeriodicTask]: ...

    def stop(self) -> None:
        """Accept no new work; finish or hand back the work in progress."""
        ...


class Runnable(Protocol):
    """Anything that `run` can start and stop."""

    binary: str

    def start(self) -> None: ...

    def stop(self) -> None: ...


class RpcService:
    """One manager behind one RPC topic.

    `stopping`: shared by everything that waits in this process.
    `leave`: called first when the service stops. It immediately hands over the work that others can continue.
    """

    def __init__(
        self,
        binary: str,
        manager: Manager,
        server: Callable[[], Any],
        stopping: threading.Event,
        *,
        leave: Callable[[], None] = lambda: None,
    ) -> None:
        self.binary = binary
        self.stopping = stopping
        self._manager = manager
        self._make_server = server
        self._leave = leave
        self._server: Any = None
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        self._manager.init_host()
        self._manager.pre_start_hook()
        self._server = self._make_server()
        until_available("Message broker", self._server.start, self.stopping)
        self._manager.post_start_hook()
        safe_mode: SafeMode = getattr(self._manager, "safe_mode", None) or SafeMode()
        for each in self._manager.periodic_tasks():
            self._threads.append(start_periodic(unless_safe(each, safe_mode), self.stopping))
        LOG.info("%s started", self.binary)

    def stop(self) -> None:
        """Call `leave`; stop listening, so that no new messages arrive; then stop the periodic tasks; then the
        manager's own work.

        The time for messages in progress and for periodic tasks is limited, because each of them may wait for a broker,
        a database or a caller that is gone. Unfinished work is continued from the rows, as after a crash.
        """
        self.stopping.set()
        self._leave()
        if self._server is not None:
            # A server of oslo.messaging without messages notices its stop after up to 5 s: that is nothing to warn of.
            within(SERVER_STOP, f"the RPC server of {self.binary}", self._stop_server, level=logging.DEBUG)
        until = time.monotonic() + PERIODIC_STOP
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))
        self._manager.stop()
        LOG.info("%s stopped", self.binary)

    @property
    def waits_for_work(self) -> bool:
        """Whether its stop waits for work that still proceeds. A manager without `waits_for_work` never does."""
        waits: bool = getattr(self._manager, "waits_for_work", False)
        return waits

    @property
    def failure(self) -> str | None:
        """Returns why the manager has requested a stop of the process. A manager without `failure` never does."""
        reason: str | None = getattr(self._manager, "failure", None)
        return reason

    def _stop_server(self) -> None:
        self._server.stop()
        self._server.wait()


def within(seconds: float, what: str, work: Callable[[], None], *, level: int = logging.WARNING) -> bool:
    """Runs `work` in a thread, and abandons that thread after `seconds`. Returns whether the work has ended. `level`: of the log line that it has not."""

    def guarded() -> None:
        try:
            work()
        except (errors.ServiceUnavailable, errors.Abandoned) as error:
            LOG.warning("%s did not stop cleanly: %s", what, str(error) or type(error).__name__)
        except Exception:
            LOG.exception("%s did not stop cleanly", what)

    thread = threading.Thread(target=guarded, name=f"stop {what}", daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        LOG.log(level, "%s has not ended within %.1f s and is left behind", what, seconds)
    return not thread.is_alive()


class FailureLog:
    """The log lines of repeated work: its failures that get one (`minova.outages`), and the first success after them.

    `failure`: how the log line of a failure begins, before its reason; default: the name of the work.
    """

    def __init__(self, name: str, failure: str | None = None) -> None:
        self._name = name
        self._failure = failure
        self._failures = Failures()

    def failed(self, error: Exception, *, exc_info: bool = False, level: int = logging.WARNING) -> None:
        """`level`: the level of the log line; with a traceback it is ERROR, and for a repeated failure DEBUG."""
        level = logging.ERROR if exc_info else level
        kind = f"{level} {type(error).__name__} {kind_of(error) if exc_info else ''}"
        level = level if self._failures.note(kind) else logging.DEBUG
        if exc_info:
            LOG.log(level, self._failure or f"Error during {self._name}", exc_info=error)
        else:
            LOG.log(level, "%s: %s", self._failure or self._name, error)

    def worked(self) -> None:
        failures = self._failures
        if failures.count:
            LOG.info("%s works again after %.1f s and %d failures", self._name, failures.lasted, failures.count)
            failures.clear()


def start_periodic(task: PeriodicTask, stopping: threading.Event) -> threading.Thread:
    thread = threading.Thread(target=run_periodic, args=(task, stopping), name=task.name, daemon=True)
    thread.start()
    return thread


def run_periodic(task: PeriodicTask, stopping: threading.Event) -> None:
    """The thread of one periodic task. An error is logged, and the task is tried again next time."""
    interval = task.interval
    failing = FailureLog(task.name)
    wait = 0.0 if task.at_once else interval
    while not stopping.wait(wait * random.uniform(0.9, 1.0)):
        ctx = service_context()
        with bound_request(ctx):
            wait = min(interval, task.interval)
            try:
                wait = interval = task.work() or interval
                failing.worked()
            except errors.MinovaError as error:  # an outage, or a refusal with its reason
                failing.failed(error, level=errors.level_of(error))
            except errors.Abandoned:
                LOG.info("%s: work is left as it is, for the next start", task.name)
                return
            except Exception as error:  # noqa: BLE001  - it is logged, and tried again
                failing.failed(error, exc_info=True)


def until_available(what: str, ask: Callable[[], T], stopping: threading.Event) -> T:
    """Repeats `ask` until it succeeds. Logs the failures that get a line (`minova.outages`), and the success after them. Raises
    ServiceUnavailable if the process stops meanwhile.
    """
    failures = Failures()
    for delay in BACKOFF.pauses():
        try:
            answer = ask()
        except errors.ServiceUnavailable as error:
            reason = errors.explained(error)
            level = logging.WARNING if failures.note(kind_of(reason)) else logging.DEBUG
            LOG.log(level, "%s: %s; trying again until it works", what, reason, extra={HAS_REASON: True})
        else:
            if failures.count:
                LOG.info("%s: works after %.1f s", what, failures.lasted)
            return answer
        if stopping.wait(delay):
            raise errors.ServiceUnavailable(f"{what}: stopped while waiting")
    raise AssertionError("unreachable")


def run(
    services: Sequence[Runnable],
    stopping: threading.Event,
    ready: Callable[[], None] = lambda: None,
    alive: Callable[[], None] = lambda: None,
) -> None:
    """Start all services in order, wait until `stopping` is set, stop all in reverse order. If one fails to start, all
    started so far are stopped. `alive` is called all the time while they run.

    Raises MinovaError if a service has requested the stop because it cannot continue.
    """
    started: list[Runnable] = []
    try:
        for service in services:
            started.append(service)
            service.start()
        ready()
        # This thread must not wait for `stopping`. The signal handlers run in this thread (between two sleeps, if
        # another thread has received the signal) and set `stopping`, whose lock this thread would hold at the beginning
        # of a wait.
        while not stopping.is_set():
            alive()
            time.sleep(STOP_NOTICED)
    except errors.ServiceUnavailable:
        if not stopping.is_set():
            raise
    finally:
        stopping.set()
        for service in reversed(started):
            _stop(service)
    failures = [failure for service in services if (failure := getattr(service, "failure", None)) is not None]
    if failures:
        raise errors.MinovaError(failures[0])


def _stop(service: Runnable) -> None:
    """A service that fails to stop must not keep the others from stopping."""
    try:
        service.stop()
    except Exception:
        LOG.exception("%s did not stop cleanly", service.binary)


def on_hangup(work: Callable[[], None]) -> None:
    """Runs `work` after SIGHUP, in a thread of its own, because a signal handler must not wait for a lock."""
    requested = threading.Event()

    def serve() -> None:
        while requested.wait():
            requested.clear()
            try:
                work()
            except Exception:
                LOG.exception("Error after SIGHUP")

    threading.Thread(target=serve, name="hangup", daemon=True).start()
    signal.signal(signal.SIGHUP, lambda number, frame: requested.set())


def in_foreground() -> bool:
    """Returns whether the process runs in the foreground of a terminal. Then SIGHUP means that the terminal is gone."""
    try:
        return os.getpgrp() == os.tcgetpgrp(sys.stderr.fileno())
    except (OSError, ValueError):
        return False


def stop_on_signals(stopping: threading.Event, *more: signal.Signals) -> threading.Event:
    """SIGTERM, SIGINT and `more` request a graceful stop. A second signal ends the process at once. After SIGHUP nothing is written to
    the terminal any more. Returns what is set by the first signal: a process may also stop because it has failed.
    """
    signalled = threading.Event()

    def ask(number: int, _frame: object) -> None:
        if number == signal.SIGHUP:
            _leave_terminal()
        if stopping.is_set():
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        signalled.set()
        stopping.set()

    for number in (signal.SIGTERM, signal.SIGINT, *more):
        signal.signal(number, ask)
    return signalled


def _leave_terminal() -> None:
    """The terminal is gone. Python would end with an error because of what it could not write there."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (1, 2):
        if stat.S_ISCHR(os.fstat(stream).st_mode):
            os.dup2(nowhere, stream)
    os.close(nowhere)
