"""kombu's in-memory transport, with readers that are woken by new messages.

kombu's own transport polls its queues, and oslo.messaging makes it poll without a pause: an idle minova-standalone used
two thirds of a CPU.
"""

import threading
import time
from typing import Any

from kombu import transport
from kombu.transport import memory

_ARRIVED = threading.Condition()


class _Arrivals:
    """Counts the messages ever put into any queue of this process."""

    count = 0


class MemoryChannel(memory.Channel):
    def _put(self, queue: str, message: Any, **more: Any) -> None:
        super()._put(queue, message, **more)  # type: ignore[no-untyped-call]
        _wake()

    def _put_fanout(self, exchange: str, message: Any, routing_key: str | None = None, **more: Any) -> None:
        super()._put_fanout(exchange, message, routing_key, **more)  # type: ignore[no-untyped-call]
        _wake()


class MemoryTransport(memory.Transport):
    Channel = MemoryChannel

    cycle: Any

    def drain_events(self, connection: Any, timeout: float | None = None, **more: Any) -> None:
        """Deliver one message. Raises TimeoutError if none comes within `timeout` seconds."""
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            arrivals_before = _Arrivals.count
            try:
                self.cycle.get(self._deliver, timeout=timeout)
            except self.cycle.predicate:
                _wait(arrivals_before, until)
            else:
                return


def _wake() -> None:
    with _ARRIVED:
        _Arrivals.count += 1
        _ARRIVED.notify_all()


def _wait(seen: int, until: float | None) -> None:
    """Wait until more messages have arrived than `seen`. Raises TimeoutError after the time `until`."""
    remaining = None if until is None else until - time.monotonic()
    with _ARRIVED:
        if not _ARRIVED.wait_for(lambda: seen != _Arrivals.count, remaining):
            raise TimeoutError


def use() -> None:
    """Makes `memory://` of this process use this transport."""
    transport.TRANSPORT_ALIASES["memory"] = f"{__name__}:MemoryTransport"
