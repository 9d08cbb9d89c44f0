"""Runs minova's executables as processes that need not import what another process has imported before: imports are most of the
CPU time of a command and of a start, and the tests have hundreds of both.

    python -m tests.integration.preloaded KIND FD

imports the executables of one kind, and forks for each that is asked for on the socket until its standard input ends. The
executables themselves are run by test_wheel.py, test_standalone.py, test_rolling_upgrade.py, the soak and others.
"""

import atexit
import contextlib
import ctypes
import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO, Any, Self

ROOT = Path(__file__).parents[2]
# What one process imports: the modules with a `main` of the executables.
KINDS = {
    "commands": {"minova": "minova.cli.main", "minova-manage": "minova.cmd.manage"},
    "services": {
        "minova-api": "minova.cmd.api",
        "minova-compute": "minova.cmd.compute",
        "minova-conductor": "minova.cmd.conductor",
        "minova-scheduler": "minova.cmd.scheduler",
        "minova-standalone": "minova.cmd.standalone",
    },
}
# Seconds that a command may take.
TIMEOUT = 180.0
PR_SET_PDEATHSIG = 1
_LONGEST_REQUEST = 1 << 20


def run(
    command: Sequence[Any], environment: Mapping[str, str] | None = None, timeout: float = TIMEOUT
) -> "subprocess.CompletedProcess[str]":
    """As subprocess.run with `capture_output` and `text`, without standard input."""
    with (
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
        Process(command, out, err, environment) as process,
    ):
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        return subprocess.CompletedProcess(list(command), code, _text(out), _text(err))


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


class Process:
    """What of subprocess.Popen the tests use. The process dies with this one, and not with the thread that starts it.

    `command`: the name of an executable, or a path that ends in it, and its arguments.
    """

    def __init__(
        self, command: Sequence[Any], out: IO[bytes], err: IO[bytes], environment: Mapping[str, str] | None = None
    ) -> None:
        words = [str(word) for word in command]
        name = Path(words[0]).name
        kind = next(kind for kind, executables in KINDS.items() if name in executables)
        program = {
            "name": name,
            "words": words,
            "environment": dict(environment or os.environ),
            "folder": str(Path.cwd()),
        }
        self.returncode: int | None = None
        self._words = words
        self._lock = threading.Lock()
        self._connection = _server(kind).connect()
        socket.send_fds(self._connection, [json.dumps(program).encode() + b"\n"], [out.fileno(), err.fileno()])
        self._answers = self._connection.makefile("rb")
        self.pid = int(self._answers.readline())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._answers.close()
        self._connection.close()

    def __del__(self) -> None:
        self.__exit__()

    def poll(self) -> int | None:
        """The exit code, if it has ended."""
        with self._lock:
            if self.returncode is None and select.select([self._connection], [], [], 0)[0]:
                # Its watcher died without a word: the process died with it.
                self.returncode = int(self._answers.readline() or -signal.SIGKILL)
                self.__exit__()
            return self.returncode

    def wait(self, timeout: float) -> int:
        """Its exit code, or the number of its signal below zero. Raises subprocess.TimeoutExpired."""
        until = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > until:
                raise subprocess.TimeoutExpired(self._words, timeout)
            time.sleep(0.01)
        return code

    def send_signal(self, number: signal.Signals) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)


class _Server:
    """Ends with this process, which has the only other end of its standard input."""

    def __init__(self, kind: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="minova-preloaded-")
        self._path = str(Path(self._folder.name) / "socket")
        listening = socket.socket(socket.AF_UNIX)
        with listening:
            listening.bind(self._path)
            listening.listen(64)
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.integration.preloaded", kind, str(listening.fileno())],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                pass_fds=[listening.fileno()],
                # A process that forks may have no threads.
                env=dict(os.environ) | {"OPENBLAS_NUM_THREADS": "1"},
            )
        atexit.register(self.close)

    def connect(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(self._path)
        return connection

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)
        self._folder.cleanup()


_start = threading.Lock()


def _server(kind: str) -> _Server:
    with _start:
        return _started(kind)


@cache
def _started(kind: str) -> _Server:
    return _Server(kind)


# -- the process that has imported them --------------------------------------------------------------------------------


def serve(kind: str, listening: socket.socket) -> None:
    # Ctrl-C at the terminal of the tests is for pytest and the executables. Those between them tell how they end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    mains = {name: importlib.import_module(module).main for name, module in KINDS[kind].items()}
    if kind == "commands":
        commands = importlib.import_module("minova.cli.commands")
        for module in pkgutil.walk_packages(commands.__path__, f"{commands.__name__}."):
            importlib.import_module(module.name)
    gc.collect()
    gc.freeze()
    # Nothing waits for the processes that watch over others.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        ready, _, _ = select.select([listening, sys.stdin], [], [])
        if sys.stdin in ready:
            return
        connection, _ = listening.accept()
        with connection:
            if os.fork() == 0:
                listening.close()
                watch(connection, mains)


def watch(connection: socket.socket, mains: Mapping[str, Any]) -> None:
    """Run what is asked for, and tell its process id and exit code. Raises SystemExit in that process, and ends in this one."""
    _die_with_the_parent()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    request, files, _, _ = socket.recv_fds(connection, _LONGEST_REQUEST, 2)
    while not request.endswith(b"\n"):
        request += connection.recv(_LONGEST_REQUEST)
    pid = os.fork()
    if pid == 0:
        connection.close()
        _die_with_the_parent()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        program = json.loads(request)
        _become(program, *files)
        sys.exit(mains[program["name"]]())
    with contextlib.suppress(OSError):
        connection.sendall(f"{pid}\n".encode())
    _, status = os.waitpid(pid, 0)
    with contextlib.suppress(OSError):
        connection.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def _become(asked: dict[str, Any], out: int, err: int) -> None:
    with Path(os.devnull).open() as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(out, 1)
    os.dup2(err, 2)
    os.close(out)
    os.close(err)
    os.environ.clear()
    os.environ.update(asked["environment"])
    os.chdir(asked["folder"])
    sys.argv = asked["words"]


def _die_with_the_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    serve(sys.argv[1], socket.socket(fileno=int(sys.argv[2])))
