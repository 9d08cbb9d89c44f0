"""What all private servers share: a folder, free ports, a keeper, waiting until they answer."""

from __future__ import annotations

import abc
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import ClassVar, Self

KEEPER = Path(__file__).with_name("keeper.py")
PORT_TAKEN = ("address already in use", "eaddrinuse")
# The keeper is told by signals; they arrive at once, but its Python may only be starting.
KEEPER_WITHIN = 60.0
END_WITHIN = 30.0


class ServerError(Exception):
    """A private server is missing, did not start, or did not stop; says which program and why."""


def free_ports(count: int) -> list[int]:
    """Different TCP ports of the loopback on which no process listens at this moment."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def free_range(count: int) -> tuple[int, int]:
    """The first and the last of so many TCP ports in a row on which no process listens at this moment.

    They are below those that the kernel gives to connections, so that no connection takes one in between.
    """
    for _ in range(100):
        first = 20_000 + secrets.randbelow(12_000)  # not `random`: its seed is that of the other tests
        with ExitStack() as stack, suppress(OSError):
            for port in range(first, first + count):
                stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
            return first, first + count - 1
    raise ServerError(f"there are no {count} free ports in a row")


def program(name: str, package: str, *places: str) -> str:
    """The path of a program; `places` are looked into before and after PATH. ServerError names its Debian package."""
    path = os.pathsep.join([*places, os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
    program_path = shutil.which(name, path=path)
    if program_path is None:
        raise ServerError(f"{name} is not installed: it is in the Debian package {package}")
    return program_path


def keeper_of(directory: Path) -> int | None:
    """The keeper of the server in `directory`, if it lives. The folder in its arguments tells it from a stranger."""
    try:
        pid = int((directory / "keeper.pid").read_text())
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError, ValueError):
        return None
    return pid if f"--directory={directory}".encode() in words else None


def end_server(directory: Path) -> None:
    """End the detached server in `directory` with all that it started; nothing to do when there is none.

    ServerError if it does not end.
    """
    deadline = time.monotonic() + END_WITHIN
    keeper = keeper_of(directory)
    if keeper is not None:
        os.kill(keeper, signal.SIGTERM)
    while keeper_of(directory) is not None:
        if time.monotonic() > deadline:
            raise ServerError(f"process {keeper} does not end")
        time.sleep(0.05)


class PrivateServer(abc.ABC):
    """One server in one folder; as a context manager it runs inside and leaves nothing behind.

    Without a directory it makes one, and removes it at the end. `stop`, `kill` and `start` in the middle keep the data.
    Ports are chosen at the first start and stay. `environment` has variables for the server, such as those of a SteppedClock.
    """

    name: ClassVar[str]
    ports_needed: ClassVar[int] = 0
    ready_within: ClassVar[float] = 180.0
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM
    # A server whose folder goes away with it need not say goodbye, unless it holds something outside of that folder.
    close_signal: ClassVar[signal.Signals] = signal.SIGKILL
    # Whether what the server started lives on when it is killed.
    outlived: ClassVar[bool] = False

    def __init__(self, directory: Path | None = None, environment: Mapping[str, str] | None = None) -> None:
        self.temporary = directory is None
        self._extra_environment = dict(environment or {})
        # Short, because the paths of Unix sockets end at 107 characters.
        self.directory = directory or Path(tempfile.mkdtemp(prefix=f"minova-{self.name}-"))
        self.directory.mkdir(parents=True, exist_ok=True)
        self.ports: list[int] = []
        self._keeper: subprocess.Popen[bytes] | None = None

    @abc.abstractmethod
    def prepare(self) -> None:
        """Write what the server needs before its first start."""

    @abc.abstractmethod
    def command(self) -> list[str]:
        """The program and its arguments. It must not fork away."""

    @abc.abstractmethod
    def answers(self) -> bool:
        """Whether the server is ready for its clients."""

    def environment(self) -> dict[str, str]:
        """The server's environment."""
        return dict(os.environ) | self._extra_environment

    def __enter__(self) -> Self:
        try:
            self.open()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int | None:
        """The process id of the server while it runs."""
        try:
            return int((self.directory / "server.pid").read_text())
        except (FileNotFoundError, ValueError):
            return None

    @property
    def log(self) -> str:
        """What the server has printed."""
        try:
            return (self.directory / "server.log").read_text(errors="replace")
        except FileNotFoundError:
            return ""

    def open(self, *, detached: bool = False) -> None:
        """First start. A detached server outlives this process; its keeper (keeper.pid) ends it on SIGTERM."""
        for last in (False, False, True):
            self.ports = free_ports(self.ports_needed)
            self.prepare()
            self._keep(detached)
            try:
                self._wait_ready()
                return
            except ServerError:
                # Between choosing a port and using it another program may have taken it.
                if last or not any(words in self.log.lower() for words in PORT_TAKEN):
                    raise
                self._end_keeper()
                (self.directory / "server.log").unlink()

    def start(self) -> None:
        """Start the server again on the same data and ports."""
        self._tell(signal.SIGHUP)
        self._wait_until(lambda: self.pid is not None, KEEPER_WITHIN, "was not started")
        self._wait_ready()

    def stop(self) -> None:
        """Stop the server politely; its data stay."""
        self._tell(signal.SIGUSR1)
        self._wait_until(lambda: self.pid is None, self.ready_within, "does not stop")

    def kill(self) -> None:
        """Kill the server as a power cut would; its data stay."""
        self._tell(signal.SIGUSR2)
        self._wait_until(lambda: self.pid is None, self.ready_within, "does not die")

    def close(self) -> None:
        """End the server and all it started; a folder made here is removed. May be called twice."""
        self._end_keeper()
        if self.temporary:
            shutil.rmtree(self.directory, ignore_errors=True)

    def _running_keeper(self) -> subprocess.Popen[bytes]:
        if self._keeper is None:
            raise ServerError(f"{self.name} is not open")
        return self._keeper

    def _keep(self, detached: bool) -> None:
        options = [f"--directory={self.directory}", f"--stop-signal={self.stop_signal.name}"]
        options += [f"--close-signal={self.close_signal.name}"]
        options += ["--detached"] if detached else []
        options += ["--kill-alone"] if self.outlived else []
        options += ["--remove"] if self.temporary else []
        started = self.directory / "started"
        started.unlink(missing_ok=True)
        with (self.directory / "server.log").open("ab") as log:
            self._keeper = subprocess.Popen(
                [sys.executable, "-I", str(KEEPER), *options, "--", *self.command()],
                stdin=subprocess.DEVNULL if detached else subprocess.PIPE,
                # Not ours: a reader that waits for their end would wait for the server's end.
                stdout=log,
                stderr=log,
                env=self.environment(),
                # A Ctrl-C in the terminal is for the tests; they then end the server.
                start_new_session=True,
            )
        self._wait_until(started.exists, KEEPER_WITHIN, "was not started")

    def _end_keeper(self) -> None:
        if self._keeper is None:
            return
        if self._keeper.stdin is not None:
            self._keeper.stdin.close()
        else:
            self._keeper.terminate()
        self._keeper.wait(timeout=30)
        self._keeper = None

    def _tell(self, number: signal.Signals) -> None:
        self._running_keeper().send_signal(number)

    def _wait_ready(self) -> None:
        deadline = time.monotonic() + self.ready_within
        while not self.answers():
            if self.pid is None:
                raise ServerError(f"{self.name} ended while starting\n{self._last_words()}")
            if time.monotonic() > deadline:
                raise ServerError(f"{self.name} is not ready after {self.ready_within:g} s\n{self._last_words()}")
            time.sleep(0.05)

    def _wait_until(self, condition: Callable[[], bool], seconds: float, complaint: str) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                raise ServerError(f"{self.name} {complaint} within {seconds:g} s\n{self._last_words()}")
            time.sleep(0.02)

    def _last_words(self) -> str:
        return "\n".join(self.log.splitlines()[-30:])
