"""Waits for servers, and shows each change of their states."""

import os
import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TextIO

from minova.backoff import Backoff
from minova.cli.client import COMPUTE, Client, Json, part
from minova.cli.errors import ApiError, CliError, Unreachable
from minova.cli.output.columns import printable
from minova.cli.output.servers import HOST, STATE, TASK_STATE, fault_text

# Often at first, since most changes come soon, then less often.
POLLS = Backoff(first=0.1, longest=1.0, factor=1.5)
STATE_WIDTH = 36  # letters: the longest task state and a short host name
PATIENCE = 60.0  # seconds without any response of the API before the wait is given up

Ask = Callable[[], list[Json]]


class ServerGone(Exception):
    """The server no longer exists."""


class TimedOut(Exception):
    """The time limit has passed. The text contains the states of the servers."""


class Progress:
    """Prints progress as plain lines: one for each change."""

    def __init__(self, out: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._out = out
        self._clock = clock
        self._began = clock()
        self._shown: dict[str, str] = {}

    @staticmethod
    def on(out: TextIO) -> "Progress":
        """Returns live progress on a terminal, plain lines anywhere else."""
        return TerminalProgress(out) if out.isatty() and os.environ.get("TERM") != "dumb" else Progress(out)

    def show(self, servers: Sequence[Json]) -> None:
        for server in servers:
            state = printable(_state(server))
            if self._shown.get(server["id"]) != state:
                self._shown[server["id"]] = state
                print(f"{self._elapsed():6.1f} s  {printable(server['name'])}: {state}", file=self._out, flush=True)

    def say(self, line: str) -> None:
        """Prints a line about the wait itself."""
        print(f"{self._elapsed():6.1f} s  {line}", file=self._out, flush=True)

    def _elapsed(self) -> float:
        return self._clock() - self._began


class TerminalProgress(Progress):
    """Shows one line for each server, rewritten in place. If there are too many, only those that are not done yet, and
    a sum.
    """

    _lines = 0

    def show(self, servers: Sequence[Json]) -> None:
        size = shutil.get_terminal_size()
        lines = self._table(servers, max(size.lines - 2, 1), size.columns)
        # Move the cursor up over the previous lines; each line is cleared to its end before it is written.
        up = f"\x1b[{self._lines}A" if self._lines else ""
        text = "".join(f"\x1b[2K{line[: size.columns - 1]}\n" for line in lines)
        self._out.write(f"{up}\r{text}\x1b[J")
        self._out.flush()
        self._lines = len(lines)

    def say(self, line: str) -> None:
        super().say(line)
        self._lines = 0

    def _table(self, servers: Sequence[Json], room: int, columns: int) -> list[str]:
        shown_servers = list(servers)
        total = []
        if len(shown_servers) > room:
            shown_servers = [server for server in shown_servers if not _has_built(server)][: room - 1]
            total = [_sum(servers) + f"  {self._elapsed():.1f} s"]
        longest = max((len(server["name"]) for server in shown_servers), default=0)
        width = max(min(longest, columns - STATE_WIDTH - 12), 8)
        return [self._line(server, width) for server in shown_servers] + total

    def _line(self, server: Json, width: int) -> str:
        name = printable(server["name"])[:width]
        return f"{name:<{width}}  {printable(_state(server)):<{STATE_WIDTH}}  {self._elapsed():.1f} s"


def wait_for_builds(ask: Ask, servers: Sequence[Json], progress: Progress, timeout: float) -> list[Json]:
    """Polls until no server is in BUILD. Returns the servers in their order. Raises ServerGone, or TimedOut after `timeout`
    seconds.
    """
    deadline = time.monotonic() + timeout
    waits = POLLS.pauses()
    progress.show(servers)
    while waiting := [server for server in servers if not _has_built(server)]:
        if time.monotonic() >= deadline:
            raise TimedOut(_where(waiting))
        time.sleep(min(next(waits), max(deadline - time.monotonic(), 0)))
        now = {server["id"]: server for server in _current(ask, progress, deadline)}
        if missing := [server["name"] for server in servers if server["id"] not in now]:
            raise ServerGone(", ".join(missing))
        servers = [now[server["id"]] for server in servers]
        progress.show(servers)
    return list(servers)


def wait_until_gone(client: Client, server: Json, progress: Progress, timeout: float) -> None:
    """Polls until the server is gone. Raises CliError if its deletion failed, or TimedOut."""
    deadline = time.monotonic() + timeout
    for pause in POLLS.pauses():
        try:
            (server,) = _current(one_server(client.without_retries(), server["id"]), progress, deadline)
        except ServerGone:
            return
        if server["status"] == "DELETED" or (server["status"] == "SOFT_DELETED" and server.get(TASK_STATE) is None):
            return
        if server["status"] == "ERROR" and server.get(TASK_STATE) is None and fault_text(server):
            raise CliError(f"Server {server['name']} was not deleted: {fault_text(server)}")
        progress.show([server])
        if time.monotonic() >= deadline:
            reason = fault_text(server)
            raise TimedOut(_where([server]) + (f": {reason.rstrip('.')}" if reason else ""))
        time.sleep(min(pause, max(deadline - time.monotonic(), 0)))


def wait_for_status(client: Client, server: Json, progress: Progress, timeout: float) -> Json:
    """Polls until no task is in progress, whatever the status is meanwhile. Returns the server in that state. Raises
    ServerGone, or TimedOut.
    """
    deadline = time.monotonic() + timeout
    for pause in POLLS.pauses():
        (server,) = _current(one_server(client.without_retries(), server["id"]), progress, deadline)
        progress.show([server])
        if server.get(TASK_STATE) is None:
            return server
        if time.monotonic() >= deadline:
            raise TimedOut(_where([server]))
        time.sleep(min(pause, max(deadline - time.monotonic(), 0)))
    raise AssertionError("the pauses do not end")


def failed_action(server: Json, done: str, reason: str | None = None) -> str:
    """Returns the error text for an action that failed. If `reason` is None, it comes from the server's fault, if there
    is one.
    """
    reason = printable(reason or fault_text(server) or "the host could not do it").rstrip(".")
    return f"Server {printable(server['name'])} ({server['id']}) was not {done}, it is {server['status']}: {reason}."


def failures(servers: Iterable[Json]) -> list[str]:
    """Returns one line for each failed server: the reason, and the command that explains it."""
    return [
        f"Server {printable(server['name'])} ({server['id']}) failed: "
        f"{printable(fault_text(server) or 'the API gives no reason').rstrip('.')}. "
        f"See 'minova server explain {server['id']}'."
        for server in servers
        if server["status"] == "ERROR"
    ]


def one_server(client: Client, uuid: str) -> Ask:
    """Returns a function that polls this server. It raises ServerGone if the server no longer exists."""

    def ask() -> list[Json]:
        try:
            return [dict(client.get(f"{COMPUTE}/servers/{part(uuid)}")["server"])]
        except ApiError as error:
            if error.status == 404:
                raise ServerGone(uuid) from None
            raise

    return ask


def _current(ask: Ask, progress: Progress, deadline: float) -> list[Json]:
    """Returns the current servers. Waits up to PATIENCE seconds for an API that does not answer."""
    patience = min(time.monotonic() + PATIENCE, deadline)
    announced = False
    while True:
        try:
            return ask()
        except Unreachable as lost:
            if time.monotonic() >= patience:
                raise
            if not announced:
                progress.say(f"{lost} Still waiting.")
                announced = True
            time.sleep(POLLS.longest)


def _has_built(server: Json) -> bool:
    """Whether the build has ended. After it any status may follow: the guest may shut itself down, and other users may
    reboot it.
    """
    return server["status"] != "BUILD" and server.get(TASK_STATE) != "deleting"


def _state(server: Json) -> str:
    """Returns a state such as `BUILD spawning on host1`."""
    doing = server.get(TASK_STATE)
    host = server.get(HOST)
    words = [str(server["status"]), str(doing) if doing else "", f"on {host}" if host else ""]
    return " ".join(filter(None, words))


def _where(servers: Sequence[Json]) -> str:
    first = servers[0]
    state = f"{first['name']} is {_state(first)} ({first.get(STATE)})"
    return state if len(servers) == 1 else f"{len(servers)} servers are not done, {state}"


def _sum(servers: Sequence[Json]) -> str:
    counts: dict[str, int] = {}
    for server in servers:
        counts[server["status"]] = counts.get(server["status"], 0) + 1
    return "  ".join(f"{status} {count}" for status, count in sorted(counts.items()))
