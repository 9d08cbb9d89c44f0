"""Keeps a flood of messages of one host from the threads that serve all: a stolen compute may send any number of valid ones.

    broker --> listener --+--> threads
                          +--> the line of a host, when so many of its messages hold a thread or wait for one --> threads

Only the user that the broker has validated tells whose message it is: without `[broker] per_host_users` there are no lines.
"""

import logging
import threading
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

from minova import metrics
from minova.contracts.base import CONTROLLERS
from minova.messaging.broker_users import user_of

LOG = logging.getLogger(__name__)
# Messages of one host that wait in its line; further ones are dropped. A host waits for most of its answers before it
# asks again.
MOST_WAITING = 1000


class HostLines:
    """Thread-safe. At most `places` messages of one host are where the messages of all are."""

    def __init__(self, places: int, most_waiting: int = MOST_WAITING) -> None:
        self._places = places
        self._most_waiting = most_waiting
        self._lock = threading.Lock()
        self._held: Counter[str] = Counter()
        self._lines: dict[str, deque[Any]] = {}

    def enters(self, host: str, message: Any) -> bool:
        """Whether the message may go on now. Otherwise it waits until `leave` returns it, or is dropped."""
        with self._lock:
            if self._held[host] < self._places:
                self._held[host] += 1
                return True
            line = self._lines.setdefault(host, deque())
            if len(line) >= self._most_waiting:
                metrics.RPC_REFUSED.labels("flood").inc()
                return False
            line.append(message)
            is_full = len(line) == self._most_waiting
        if is_full:
            LOG.error(
                "Host %s floods this service: %d of its messages wait, further ones are dropped",
                host,
                self._most_waiting,
            )
        return False

    def leave(self, host: str) -> Any:
        """A message of the host is done. Returns the one that takes its place; None: no message waits."""
        with self._lock:
            line = self._lines.get(host)
            if line:
                return line.popleft()
            self._lines.pop(host, None)
            self._held[host] -= 1
            if not self._held[host]:
                del self._held[host]
            return None


def share_threads(server: Any) -> None:
    """Let one host hold at most half of the server's threads, and never wait before other senders with more messages than
    that.
    """
    process: Callable[[Any], None] = server._process_incoming
    lines = HostLines(max(1, server.conf.executor_thread_pool_size // 2))

    def on_incoming(incoming: Any) -> None:
        host = _host(incoming)
        if host is None or lines.enters(host, incoming):
            server._work_executor.submit(handle, incoming, host)

    def handle(incoming: Any, host: str | None) -> None:
        while True:
            try:
                process(incoming)
            finally:
                following = None if host is None else lines.leave(host)
            if following is None:
                return
            incoming = following
            try:
                server._work_executor.submit(handle, incoming, host)  # behind the messages of others
                return
            except RuntimeError:  # the server stops, and has no threads for more
                continue

    server._on_incoming = on_incoming


def _host(incoming: Any) -> str | None:
    """Returns the host whose service has sent it; None: another service, or it is not known."""
    user = user_of(incoming[0].ctxt.get("sender"))
    return None if user is None or user.role in CONTROLLERS else user.host
