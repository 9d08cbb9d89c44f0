"""A command on a terminal of its own, as a user sees it."""

import os
import pty
import select
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Mapping
from fcntl import ioctl
from termios import TIOCSWINSZ
from types import TracebackType
from typing import Self

MINOVA = [sys.executable, "-m", "minova.cli.main"]


def _heed_ctrl_c() -> None:
    """A shell without job control starts background commands with SIGINT ignored, and their children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _without_size(environment: Mapping[str, str]) -> dict[str, str]:
    """Readline sets LINES and COLUMNS in the environment of its process; they hide the size of the terminal."""
    return {name: value for name, value in environment.items() if name not in {"LINES", "COLUMNS"}}


class Terminal:
    """Runs `minova` with all three streams on a pty of the given size; `text` is what it has written."""

    def __init__(self, *words: str, rows: int = 24, columns: int = 100) -> None:
        self._ours, theirs = pty.openpty()
        ioctl(theirs, TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.text = ""
        self._process = subprocess.Popen(
            [*MINOVA, *words],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=_heed_ctrl_c,  # noqa: PLW1509  - it takes no lock
            env={**_without_size(os.environ), "TERM": "xterm"},
        )
        os.close(theirs)

    def read_until(self, wanted: str, timeout: float = 120) -> None:
        """AssertionError with all that was written when it does not come."""
        until = time.monotonic() + timeout
        while wanted not in self.text:
            assert time.monotonic() < until, f"no {wanted!r} in {self.text!r}"
            if not self._read():
                assert wanted in self.text, f"ended without {wanted!r}: {self.text!r}"

    def enter(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def interrupt(self) -> None:
        """Ctrl-C."""
        self._process.send_signal(signal.SIGINT)

    def wait(self, timeout: float = 120) -> int:
        """The exit code; `text` is complete then."""
        until = time.monotonic() + timeout
        while time.monotonic() < until and self._read():
            pass
        return self._process.wait(max(until - time.monotonic(), 0.1))

    def _read(self) -> bool:
        if not select.select([self._ours], [], [], 0.2)[0]:
            return self._process.poll() is None
        try:
            data = os.read(self._ours, 65536)
        except OSError:  # Linux says EIO when the last one has closed the other end
            return False
        self.text += data.decode(errors="replace")
        return bool(data)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait(10)
        os.close(self._ours)
