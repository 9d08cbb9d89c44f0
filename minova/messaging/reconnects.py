"""Repairs after a broken connection to the broker: calls whose answers were lost, and answers to missing queues.

After a reconnection oslo.messaging still waits, until the time-out, for answers to requests that a restarted broker has
lost. Here such calls end as soon as the connection for answers is back, so that their callers repeat them.
"""

import json
import logging
import threading
from collections.abc import Callable, Iterable
from typing import Any

from minova.concurrency import threads
from minova.messaging import flow_control

threads.use_native()

import oslo_messaging  # noqa: E402
from oslo_messaging._drivers import amqp, amqpdriver  # noqa: E402
from oslo_messaging._drivers import common as driver_common  # noqa: E402

LOG = logging.getLogger(__name__)
LOST = "The connection to the message broker broke before the answer came"
BLOCKED = "The message broker takes no messages, and no answer came before that"
# Seconds for answers that were on their way when the broker stopped taking messages.
GRACE = 1.0


def _failure(text: str) -> str:
    """Returns this error as a server's answer has it on the wire."""
    error_class = {"class": "NoAnswer", "module": "minova.errors"}
    return json.dumps({**error_class, "message": text, "tail": [], "args": [text], "kwargs": {}})


class IncomingMessage(amqpdriver.AMQPIncomingMessage):  # type: ignore[misc]
    """A call whose answer is sent even if the queue of an earlier answer was missing.

    When a queue was missing, oslo.messaging drops all answers to it without trying, for as long as it remembers that.
    After a restart of the broker the caller makes the same queue again, often a moment later, and would wait in vain
    for the answer to its next call.
    """

    def reply(self, reply: Any = None, failure: Any = None) -> None:
        """Drops the answer if the broker takes no messages. The caller repeats its call, and a thread that waited for the broker
        would not serve the messages that have come already.
        """
        try:
            self._reply(reply, failure)
        except (flow_control.ConnectionBlocked, flow_control.InDoubt):
            LOG.debug("An answer is dropped, because the broker takes no messages")

    def _reply(self, reply: Any, failure: Any) -> None:
        """Waits for a missing queue only the first time. After that it tries once."""
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
        """Call `listener` after each reconnection. It runs in the driver's thread, so it must not block."""
        self._listeners.append(listener)

    def watch(self) -> None:
        """Called before each call, so it is cheap: the first call makes the connection for answers. Drivers other than
        rabbit's have none.
        """
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

    def flow_changed(self, blocked: bool) -> None:
        """The broker has begun or ended to take no messages: calls end whose answers will not come."""
        waiter = self._watched
        if not blocked or waiter is None:
            return
        waiting = list(waiter.waiters._queues)
        timer = threading.Timer(GRACE, _end_calls, args=(waiter, waiting, BLOCKED))
        timer.daemon = True
        timer.start()

    def _reconnected(self, waiter: Any) -> None:
        waiting = list(waiter.waiters._queues)
        LOG.info("The connection for answers was made anew: %d calls are ended, to be repeated", len(waiting))
        _end_calls(waiter, waiting, LOST)
        for listener in self._listeners:
            listener()


def _end_calls(waiter: Any, msg_ids: Iterable[str], text: str) -> None:
    """Does nothing for calls that have ended meanwhile."""
    for msg_id in set(msg_ids).intersection(waiter.waiters._queues):
        waiter.waiters.put(msg_id, {"_msg_id": msg_id, "failure": _failure(text), "result": None, "ending": True})
