"""Several processes that serve one address: a parent that only starts them, and workers that share its listening socket.

Workers are started, not forked: threads and connections of a parent would be lost or shared in a forked child. A restarted worker loses
no connection, since the parent keeps the socket open.
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

# What a worker is told of its parent: three file descriptors.
VARIABLE = "MINOVA_WORKER"
# Seconds between two looks at the workers, and before a worker that has ended is started again.
LOOK = 0.2
RESTART_AFTER = 1.0
# Seconds that a worker has to stop, beyond those of its requests.
STOP_GRACE = 10.0


class Worker:
    """In a worker: what it has of its parent. As a service, which starts last, it tells the parent that this worker serves."""

    def __init__(self, listening: socket.socket, control: socket.socket, failures: FailureTable) -> None:
        self.binary = "worker"
        self.listening = listening
        self.failures = failures
        self._control = control

    def stop_with_parent(self, stopping: threading.Event) -> None:
        """The parent closes its end to stop this worker, and the system closes it when the parent dies."""

        def wait() -> None:
            with contextlib.suppress(OSError):
                self._control.recv(1)
            stopping.set()

        threading.Thread(target=wait, name="parent", daemon=True).start()

    def start(self) -> None:
        with contextlib.suppress(OSError):
            self._control.send(b"r")

    def stop(self) -> None:
        """Nothing runs."""


def inherited() -> Worker | None:
    """None in a process that is no worker. Processes that this one starts are none either."""
    numbers = os.environ.pop(VARIABLE, None)
    if numbers is None:
        return None
    listening, control, failures = map(int, numbers.split())
    for number in (listening, control, failures):
        os.set_inheritable(number, False)
    return Worker(socket.socket(fileno=listening), socket.socket(fileno=control), FailureTable(0, failures))


class _Process(msgspec.Struct):
    """`control` is readable once the worker serves. `hang_up`: SIGHUP waits until then, because it would end a process that starts."""

    process: "subprocess.Popen[bytes]"
    control: socket.socket
    serves: bool = False
    hang_up: bool = False
    ended_at: float | None = None


class Workers:
    """Starts `count` workers: Python with `command` and this process's arguments. One that ends is started again."""

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
        """Raises InvalidConfiguration for an address that is not available. Workers say themselves what else is wrong."""
        self._listening = bind(self._listen)
        self._processes = [self._start() for _ in range(self._count)]
        while not all(self._serves(process) for process in self._processes):
            if any(process.process.poll() is not None for process in self._processes):
                raise errors.InvalidConfiguration("A worker could not start; it has told the reason.")
            time.sleep(LOOK)
        self._conf.register_mutate_hook(lambda *_: self._hang_up())
        self._watcher.start()
        port = self._listening.getsockname()[1]
        LOG.info("%d workers of %s listen on %s:%s", self._count, self.binary, self._listen.host, port)

    def stop(self) -> None:
        """Workers finish their requests."""
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
            # A process group of its own: Ctrl+C reaches the parent alone, which lets the workers finish their requests.
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
        """Each worker reads the configuration and the certificate again. One that starts may have read them already."""
        for worker in self._processes:
            worker.hang_up = not worker.serves
            if worker.serves and worker.process.poll() is None:
                worker.process.send_signal(signal.SIGHUP)
