"""What the broker took with it when its connection broke: answers that will never come, and messages that were never read.

oslo.messaging makes the connection anew and waits on for answers to questions that a restarted broker has lost, until
their time-out. Here such calls end as soon as the connection for answers is back, so that they are asked again.
"""

import json
import logging
import threading
from collections.abc import Callable
from typing import Any

LOG = logging.getLogger(__name__)
LOST = "The connection to the message broker broke before the answer came"
# What a server's answer of this error looks like on the wire.
_FAILURE = json.dumps(
    {
        "class": "ServiceUnavailable",
        "module": "minova.errors",
        "message": LOST,
        "tail": [],
        "args": [LOST],
        "kwargs": {},
    }
)


class Reconnects:
    """Watches the connection for answers of one transport's driver. Safe for threads."""

    def __init__(self, driver: Any) -> None:
        self._driver = driver
        self._lock = threading.Lock()
        self._watched: Any = None
        self._listeners: list[Callable[[], None]] = []

    def tell(self, listener: Callable[[], None]) -> None:
        """Call `listener` after each reconnection, in a thread that must not wait."""
        self._listeners.append(listener)

    def watch(self) -> None:
        """Cheap, before each call: the connection for answers is made by the first one. Other drivers have none."""
        waiter = getattr(self._driver, "_waiter", None)
        if waiter is None or waiter is self._watched:
            return
        with self._lock:
            if waiter is self._watched:
                return
            self._watched = waiter
            connection = waiter.conn.connection
            switch = connection._set_current_channel

            def switched(channel: Any) -> None:
                broken = channel is not None and connection.channel is not channel
                switch(channel)
                if broken:
                    self._reconnected(waiter)

            connection._set_current_channel = switched

    def _reconnected(self, waiter: Any) -> None:
        waiting = list(waiter.waiters._queues)
        LOG.info("The connection for answers was made anew: %d calls are ended, to be repeated", len(waiting))
        for msg_id in waiting:
            waiter.waiters.put(msg_id, {"_msg_id": msg_id, "failure": _FAILURE, "result": None, "ending": True})
        for listener in self._listeners:
            listener()
