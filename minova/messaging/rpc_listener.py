"""An RPC server's connection to the broker. It loses no message when the server stops, and records the sender of each
message. A flood of messages of one host does not keep the server's threads from others.
"""

import logging
from collections.abc import Callable
from typing import Any

import amqp.exceptions
import kombu.exceptions

from minova import metrics
from minova.concurrency import threads
from minova.concurrency.owner_lines import LineEntry, OwnerLines
from minova.contracts.base import CONTROLLERS
from minova.messaging.broker_users import user_of

threads.use_native()

from oslo_messaging._drivers import amqpdriver  # noqa: E402

LOG = logging.getLogger(__name__)
# Messages of one host that wait in its line; further ones are dropped. A host waits for most of its answers before it
# asks again.
MOST_WAITING = 1000
ERRORS = (kombu.exceptions.KombuError, amqp.exceptions.AMQPError, OSError)


class RpcListener(amqpdriver.RpcAMQPListener):  # type: ignore[misc]
    """After the stop, gives messages back to the broker: for another server of the topic, or for the next start.

    oslo.messaging only stops reading. The broker goes on sending until the connection is closed, which happens after
    the messages in progress are done. While it closes the connection, oslo.messaging acknowledges the messages that it
    reads, and drops them.
    """

    def __call__(self, message: Any) -> None:
        if self._shutoff.is_set():
            message.requeue()
        else:
            # The sender named in the message itself is not trusted. This property is set only if the broker has
            # validated it.
            message["_context_sender"] = message._raw_message.properties.get("user_id")
            super().__call__(message)

    def stop(self) -> None:
        super().stop()
        try:
            with self.conn._connection_lock:
                for consumer, tag in self.conn._consumers.items():
                    consumer.cancel(tag)
        except ERRORS as error:
            LOG.debug("The broker has its messages back, because the connection broke: %s", error)


def hand_back_messages() -> None:
    """Let the servers of this process use `RpcListener`."""
    amqpdriver.RpcAMQPListener = RpcListener


def begin_calls_in_time(server: Any) -> None:
    """Let the server drop calls that have waited for a thread for longer than their callers wait for the answer: it may have been
    reported to people that they were not done.
    """
    dispatch = server.dispatcher.dispatch

    def in_time(incoming: Any) -> Any:
        if _is_abandoned(incoming):
            LOG.warning(
                "A call is dropped, because its caller no longer waits for it: %s", incoming.message.get("method")
            )
            return None
        return dispatch(incoming)

    server.dispatcher.dispatch = in_time


def _is_abandoned(incoming: Any) -> bool:
    """Compares the time since the message arrived here with its expiration, which the sender sets to the time-out of a call. False
    for casts, and for messages of other buses than RabbitMQ.
    """
    if not isinstance(incoming, amqpdriver.AMQPIncomingMessage) or not incoming.orig_msg_id:
        return False
    limit = incoming.message._raw_message.properties.get("expiration")
    return limit is not None and incoming.stopwatch.elapsed() * 1000 > int(limit)


def share_threads(server: Any) -> None:
    """Let the messages of one host hold at most half of the server's threads, or wait for them before those of others. A
    stolen compute may send any number of valid messages.
    """
    process: Callable[[Any], None] = server._process_incoming
    lines: OwnerLines[Any] = OwnerLines(max(1, server.conf.executor_thread_pool_size // 2), MOST_WAITING)

    def on_incoming(incoming: Any) -> None:
        host = _host(incoming)
        entry = LineEntry.NOW if host is None else lines.enter(host, incoming)
        if entry is LineEntry.NOW:
            server._work_executor.submit(handle, incoming, host)
        elif entry is LineEntry.LAST:
            LOG.error(
                "Host %s floods this service: %d of its messages wait, further ones are dropped", host, MOST_WAITING
            )
        elif entry is LineEntry.DROPPED:
            metrics.RPC_REFUSED.labels("flood").inc()

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
    """Returns the host whose service has sent it; None: a service of controllers, or it is not known."""
    user = user_of(incoming[0].ctxt.get("sender"))
    return None if user is None or user.role in CONTROLLERS else user.host
