"""Several processes that serve one address: a parent that only starts them, and workers that share its listening
socket.

Workers are started, not forked: a forked child would lose or share the threads and connections of its parent. A restart
of a worker loses no connection, because the parent keeps the socket open.
"""

import contextlib
import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence

import msgspec
from oslo_config import cfg

from minova import errors, metrics
from minova.api.access.failure_table import FailureTable
from minova.api.access.throttle import MAX_ENTRIES
from minova.api.listener.service import STOP_WITHIN, Listen, bind

LOG = logging.getLogger(__name__)

# The environment variable by which a worker gets three file descriptors from its parent.
VARIABLE = "MINOVA_WORKER"
# Seconds between two checks of the workers, and before a worker that has ended is restarted.
LOOK = 0.2
RESTART_AFTER = 1.0
# Seconds that a worker has to stop, beyond those for its requests.
STOP_GRACE = 10.0


class ListenerWorker:
    """The resources that a worker has from its parent. Started as the last service of the worker, it reports to the
    parent that the worker serves.
    """

    def __init__(self, listening: socket.socket, control: socket.socket, failures: FailureTable) -> None:
        self.binary = "worker"
        self.listening = listening
        self.failures = failures
        self._control = control

    def stop_with_parent(self, stopping: threading.Event) -> None:
        """Stops this worker when the parent closes its end of the socket. The system closes it if the parent dies."""

        def wait() -> None:
            with contextlib.suppress(OSError):
                self._control.recv(1)
            stopping.set()

        threading.Thread(target=wait, name="parent", daemon=True).start()

    def start(self) -> None:
        with contextlib.suppress(OSError):
            self._control.send(b"r")

    def stop(self) -> None:
        """Does nothing: there is nothing to stop."""


def inherited() -> ListenerWorker | None:
    """Returns None if this process is not a worker. The processes that it starts are not workers either."""
    numbers = os.environ.pop(VARIABLE, None)
    if numbers is None:
        return None
    listening, control, failures = map(int, numbers.split())
    for number in (listening, control, failures):
        os.set_inheritable(number, False)
    return ListenerWorker(socket.socket(fileno=listening), socket.socket(fileno=control), FailureTable(0, failures))


class _Process(msgspec.Struct):
    """`control`: readable as soon as the worker serves.
    `hang_up`: SIGHUP is delayed until then, because it would end a process that is starting.
    """

    process: "subprocess.Popen[bytes]"
    control: socket.socket
    serves: bool = False
    hang_up: bool = False
    ended_at: float | None = None


class ListenerWorkers:
    """Starts `count` workers: Python with `command` and this process's arguments. Restarts a worker that ends."""

    def __init__(self, binary: str, command: Sequence[str], count: int, listen: Listen, conf: cfg.ConfigOpts) -> None:
        self.binary = binary
        self._command = [sys.executable, *command, *sys.argv[1:]]
        self._count = count
        self._listen = listen
        self._conf = conf
        self._listening: socket.socket | None = None
        self._failures = FailureTable(MAX_ENTRIES)
        self._figures = tempfile.TemporaryDirectory(prefix="minova-workers-", ignore_cleanup_errors=True)
        self._processes: list[_Process] = []
        self._stopping = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="workers", daemon=True)
        if conf.prometheus.enabled:
            metrics.show_workers(self._figures.name)

    def start(self) -> None:
        """Raises InvalidConfiguration if the address is not available, or if a worker cannot start. Workers report
        their own errors.
        """
        self._listening = bind(self._listen)
        self._processes = [self._start() for _ in range(self._count)]
        while not all(self._serves(process) for process in self._processes):
            if any(process.process.poll() is not None for process in self._processes):
                raise errors.InvalidConfiguration("A worker could not start; its log has the reason.")
            time.sleep(LOOK)
        self._conf.register_mutate_hook(lambda *_: self._hang_up())
        self._watcher.start()
        port = self._listening.getsockname()[1]
        LOG.info("%d workers of %s listen on %s:%s", self._count, self.binary, self._listen.host, port)

    def stop(self) -> None:
        """Stops the workers, which finish their requests."""
        self._stopping.set()
        if self._watcher.is_alive():
            self._watcher.join()
        if self._listening is not None:
            self._listening.close()
        for process in self._processes:
            process.control.close()
        until = time.monotonic() + STOP_WITHIN + STOP_GRACE
        for process in self._processes:
            try:
                process.process.wait(max(0.0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                LOG.warning("Worker %d does not stop and is ended", process.process.pid)
                process.process.kill()
                process.process.wait()
        self._figures.cleanup()

    def _start(self) -> _Process:
        assert self._listening is not None
        own, others = socket.socketpair()
        with others:
            shared = (self._listening.fileno(), others.fileno(), self._failures.file)
            environment = {**os.environ, VARIABLE: " ".join(map(str, shared))}
            if self._conf.prometheus.enabled:
                environment[metrics.WORKERS] = self._figures.name
            # Its own process group: Ctrl+C then reaches only the parent, which lets the workers finish their requests.
            process = subprocess.Popen(
                self._command, env=environment, pass_fds=shared, stdin=subprocess.DEVNULL, process_group=0
            )
        own.setblocking(False)
        return _Process(process, own)

    def _serves(self, worker: _Process) -> bool:
        if not worker.serves:
            with contextlib.suppress(BlockingIOError):
                worker.serves = worker.control.recv(1) == b"r"
            if worker.serves and worker.hang_up:
                worker.process.send_signal(signal.SIGHUP)
        return worker.serves

    def _watch(self) -> None:
        while not self._stopping.wait(LOOK):
            for number, worker in enumerate(self._processes):
                code = worker.process.poll()
                if code is None:
                    self._serves(worker)
                elif worker.ended_at is None:
                    LOG.error("Worker %d has ended with %d; another one takes its place", worker.process.pid, code)
                    worker.control.close()
                    worker.ended_at = time.monotonic()
                elif time.monotonic() - worker.ended_at > RESTART_AFTER:
                    self._processes[number] = self._start()

    def _hang_up(self) -> None:
        """Makes each worker read the configuration and the certificate again. A starting worker may have read them
        already.
        """
        for worker in self._processes:
            worker.hang_up = not worker.serves
            if worker.serves and worker.process.poll() is None:
                worker.process.send_signal(signal.SIGHUP)
