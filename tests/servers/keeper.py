"""Keeps one server and everything it starts, and ends it all when its owner goes away.

    python keeper.py --directory DIR [--remove] [--detached] ... -- COMMAND

The owner holds the write end of the keeper's standard input and never writes: when the owner closes it, or dies in
whatever way, the keeper reads the end of it and finishes. A detached keeper has no owner and finishes on SIGTERM only.

    SIGHUP    start the server again if it is not running
    SIGUSR1   stop the server politely
    SIGUSR2   kill the server, and what it started unless told otherwise
    SIGTERM   finish: stop the server, kill what it left behind, remove the folder if asked to

The process ids stand in DIR/keeper.pid, and in DIR/server.pid while the server runs. DIR/started appears with the first
start, however short the server's life is.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """Grandchildren whose parent died become ours, not those of process 1: that is how none of them can get lost."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER) failed")


def parents() -> dict[int, int]:
    """The parent of every process that is not a zombie."""
    parent_by_pid = {}
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        try:
            stat = Path(entry.path, "stat").read_text()
        except OSError:
            continue
        # The command name stands in parentheses and may itself hold spaces and parentheses.
        state, parent = stat.rpartition(")")[2].split()[:2]
        if state != "Z":
            parent_by_pid[int(entry.name)] = int(parent)
    return parent_by_pid


def descendants(ancestor: int) -> set[int]:
    """All living processes below `ancestor`."""
    parent_of = parents()
    family = {ancestor}
    while True:
        more = {pid for pid, parent in parent_of.items() if parent in family} - family
        if not more:
            return family - {ancestor}
        family |= more


class Keeper:
    def __init__(self, options: argparse.Namespace) -> None:
        self.directory = Path(options.directory)
        self.command: list[str] = options.command
        self.stop_signal = signal.Signals[options.stop_signal]
        self.close_signal = signal.Signals[options.close_signal]
        self.grace: float = options.grace
        self.remove: bool = options.remove
        self.kill_alone: bool = options.kill_alone
        self.detached: bool = options.detached
        self.pid_file = self.directory / "server.pid"
        self.server: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        if self.server is not None:
            return
        with (self.directory / "server.log").open("ab") as log:
            # The server dies with its keeper, should anyone kill the keeper itself.
            self.server = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *self.command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.directory,
            )
        self.pid_file.write_text(f"{self.server.pid}\n")

    def send(self, number: signal.Signals) -> None:
        if self.server is not None:
            self.server.send_signal(number)

    def reap(self) -> None:
        """Notice the end of the server and of every adopted orphan."""
        if self.server is not None and self.server.poll() is not None:
            self.server = None
            self.pid_file.unlink(missing_ok=True)
        while True:
            try:
                # The server itself is left to Popen, which would otherwise miss its exit code.
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if ended is None or (self.server is not None and ended.si_pid == self.server.pid):
                return
            os.waitpid(ended.si_pid, 0)

    def kill(self) -> None:
        """As a crash; a daemon's guests outlive that, other servers' helpers only get in the way of a new start."""
        if self.kill_alone:
            self.send(signal.SIGKILL)
        else:
            self.kill_all()

    def kill_all(self) -> None:
        while family := descendants(os.getpid()):
            for pid in family:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)
            self.reap()

    def finish(self) -> None:
        self.send(self.close_signal)
        deadline = time.monotonic() + self.grace
        while self.server is not None and time.monotonic() < deadline:
            time.sleep(0.02)
            self.reap()
        self.kill_all()
        self.pid_file.unlink(missing_ok=True)
        (self.directory / "keeper.pid").unlink(missing_ok=True)
        if self.remove:
            shutil.rmtree(self.directory, ignore_errors=True)

    def run(self) -> None:
        wakeups, wake = os.pipe()
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCHLD):
            signal.signal(number, lambda *_: None)
        (self.directory / "keeper.pid").write_text(f"{os.getpid()}\n")
        self.start()
        (self.directory / "started").touch()
        sources = [wakeups] if self.detached else [wakeups, sys.stdin.fileno()]
        while True:
            ready, _, _ = select.select(sources, [], [])
            if sys.stdin.fileno() in ready:
                break
            received = set(os.read(wakeups, 4096))
            self.reap()
            if received & {signal.SIGTERM, signal.SIGINT}:
                break
            if signal.SIGUSR1 in received:
                self.send(self.stop_signal)
            if signal.SIGUSR2 in received:
                self.kill()
            if signal.SIGHUP in received:
                self.start()
        self.finish()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Keep one server and all that it starts.")
    parser.add_argument("--directory", required=True)
    parser.add_argument("--remove", action="store_true", help="remove the directory at the end")
    parser.add_argument("--detached", action="store_true", help="have no owner: live until SIGTERM")
    parser.add_argument("--kill-alone", action="store_true", help="SIGUSR2 spares what the server started")
    parser.add_argument("--stop-signal", default="SIGTERM")
    parser.add_argument("--close-signal", default="SIGKILL")
    parser.add_argument("--grace", type=float, default=5.0, help="seconds between the close signal and SIGKILL")
    parser.add_argument("command", nargs="+")
    return parser.parse_args()


if __name__ == "__main__":
    adopt_orphans()
    Keeper(arguments()).run()
