"""How many messages wait in queues of the broker."""

import logging
from collections.abc import Iterable
from typing import Any, NamedTuple

from minova import errors
from minova.concurrency import threads
from minova.messaging.rpc import Rpc

threads.use_native()

from oslo_messaging._drivers import common as driver_common  # noqa: E402

LOG = logging.getLogger(__name__)


class Depth(NamedTuple):
    messages: int
    consumers: int


def depths(rpc: Rpc, queues: Iterable[str]) -> dict[str, Depth]:
    """Returns the depths of those queues that exist. RabbitMQ tells them to each user, as the answer to a passive declaration.

    Raises ServiceUnavailable if the broker does not answer.
    """
    try:
        with rpc.transport._driver._get_connection(driver_common.PURPOSE_SEND, retry=1) as connection:
            own = connection.connection
            with own._connection_lock:  # the thread for heartbeats would read the answers
                return _declared_depths(own.connection, queues)
    except Exception as error:
        raise errors.ServiceUnavailable(f"The depths of queues are unknown: {error}") from error


def _declared_depths(link: Any, queues: Iterable[str]) -> dict[str, Depth]:
    depth_by_queue: dict[str, Depth] = {}
    channel = link.channel()
    for queue in queues:
        try:
            answer = channel.queue_declare(queue=queue, passive=True)
        except link.channel_errors:  # there is no such queue; py-amqp has opened the channel again
            continue
        depth_by_queue[queue] = Depth(answer.message_count, answer.consumer_count)
    _close(channel)
    return depth_by_queue


def _close(channel: Any) -> None:
    try:
        channel.close()
    except Exception as error:  # noqa: BLE001 - the connection has broken meanwhile
        LOG.debug("A channel was not closed: %s", error)
