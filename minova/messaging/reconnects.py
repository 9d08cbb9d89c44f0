"""Repairs after a broken connection to the broker: answers that will never come, and messages that were never read.

oslo.messaging makes the connection anew and waits on for answers to questions that a restarted broker has lost, until
their time-out. Here such calls end as soon as the connection for answers is back, so that they are asked again.
"""

import json
import logging
import threading
from collections.abc import Callable
from typing import Any

from minova import threads

threads.use_native()

import oslo_messaging  # noqa: E402
from oslo_messaging._drivers import amqp, amqpdriver  # noqa: E402
from oslo_messaging._drivers import common as driver_common  # noqa: E402

LOG = logging.getLogger(__name__)
LOST = "The connection to the message broker broke before the answer came"
# What a server's answer of this error looks like on the wire.
_FAILURE = json.dumps(
    {
        "class": "NoAnswer",
        "module": "minova.errors",
        "message": LOST,
        "tail": [],
        "args": [LOST],
        "kwargs": {},
    }
)


class IncomingMessage(amqpdriver.AMQPIncomingMessage):  # type: ignore[misc]
    """A call, whose answer is sent even if an earlier answer found its queue missing.

    oslo.messaging drops all answers to such a queue, unsent, for as long as it remembers that. After a restart of the broker
    the caller makes the same queue again, often a moment later, and then waits in vain for the answer to its next call.
    """

    def reply(self, reply: Any = None, failure: Any = None) -> None:
        """Waits for a missing queue only the first time; after that it tries once."""
        missing = self._obsolete_reply_queues
        with missing._lock:
            was_missing = missing._cache.pop(self.reply_q, None) is not None
        if not was_missing:
            super().reply(reply, failure)
        elif self.orig_msg_id:
            try:
                with self.listener.driver._get_connection(driver_common.PURPOSE_SEND) as connection:
                    self._send_reply(connection, reply, failure)
            except (oslo_messaging.MessageUndeliverable, amqp.AMQPDestinationNotFound):
                missing.add(self.reply_q, self.msg_id)


def send_answers_to_missing_queues() -> None:
    """Let the servers of this process use `IncomingMessage`."""
    amqpdriver.RpcAMQPListener.message_cls = IncomingMessage


class Reconnects:
    """Watches the connection for answers of one transport's driver. Safe for threads."""

    def __init__(self, driver: Any) -> None:
        self._driver = driver
        self._lock = threading.Lock()
        self._watched: Any = None
        self._listeners: list[Callable[[], None]] = []

    def on_reconnect(self, listener: Callable[[], None]) -> None:
        """Call `listener` after each reconnection, in a thread that must not wait."""
        self._listeners.append(listener)

    def watch(self) -> None:
        """Called before each call, and cheap: the first call makes the connection for answers. Other drivers have none."""
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
