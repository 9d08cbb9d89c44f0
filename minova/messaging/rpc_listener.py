"""An RPC server's connection to the broker, which loses no message when the server stops, and tells who has sent each."""

import logging
from typing import Any

import amqp.exceptions
import kombu.exceptions

from minova import threads

threads.use_native()

from oslo_messaging._drivers import amqpdriver  # noqa: E402

LOG = logging.getLogger(__name__)
ERRORS = (kombu.exceptions.KombuError, amqp.exceptions.AMQPError, OSError)


class Listener(amqpdriver.RpcAMQPListener):  # type: ignore[misc]
    """Hands back what the broker sends after the stop: for another server of the topic, or for the next start.

    oslo.messaging only stops reading. The broker goes on sending until the connection is closed, after the messages that are
    worked on; oslo.messaging acknowledges what it reads while it closes it, and drops that.
    """

    def __call__(self, message: Any) -> None:
        if self._shutoff.is_set():
            message.requeue()
        else:
            # What the message itself says of its sender is worth nothing: a broker has validated this property, or there is none.
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
