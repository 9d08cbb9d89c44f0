"""Tells systemd about this process, by the protocol of sd_notify(3). Does nothing if systemd has not started it."""

import os
import socket
import time
from collections.abc import Mapping

# Of WatchdogSec: a message that comes late is no reason to end the process.
_SHARE = 3


def notify(environment: Mapping[str, str] = os.environ, **values: str) -> None:
    """Send `READY="1"`, `STOPPING="1"` or `STATUS="text"`. An error is no reason to fail."""
    address = environment.get("NOTIFY_SOCKET", "")
    if not address:
        return
    lines = "\n".join(f"{name}={' '.join(value.split())}" for name, value in values.items())
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
            sender.sendto(lines.encode(), address.replace("@", "\0", 1) if address[0] == "@" else address)
    except OSError:
        pass


class Watchdog:
    """Call it often: it tells systemd from time to time that this thread runs. systemd ends a process that has not said so for
    WatchdogSec.
    """

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        within = environment.get("WATCHDOG_USEC", "")
        is_own = environment.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        self._every = int(within) / 1e6 / _SHARE if within.isdecimal() and is_own else None
        self._environment = environment
        self._last = float("-inf")

    def __call__(self) -> None:
        now = time.monotonic()
        if self._every is not None and now - self._last >= self._every:
            self._last = now
            notify(self._environment, WATCHDOG="1")
