"""An RPC server's connection to the broker. It loses no message when the server stops, and records the sender of each
message.
"""

import logging
from typing import Any

import amqp.exceptions
import kombu.exceptions

from minova.concurrency import threads

threads.use_native()

from oslo_messaging._drivers import amqpdriver  # noqa: E402

LOG = logging.getLogger(__name__)
ERRORS = (kombu.exceptions.KombuError, amqp.exceptions.AMQPError, OSError)


class Listener(amqpdriver.RpcAMQPListener):  # type: ignore[misc]
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
    """Let the servers of this process use `Listener`."""
    amqpdriver.RpcAMQPListener = Listener


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
