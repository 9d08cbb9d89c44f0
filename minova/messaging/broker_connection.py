"""A connection to the broker, made by oslo.messaging's rabbit driver, for a broker user that stands for one service of
one host.

For other users nothing changes. Such a user names itself in each message, and RabbitMQ validates the name. Its queues
and the exchange of answers are those for which its permissions are made (broker_users.py). It has no queue that it does
not need: a compute has no queue that all computes share. See
docs/decisions/0029-services-have-users-at-the-broker.md.
"""

import contextlib
import functools
import logging
import time
import uuid
from collections.abc import Callable
from typing import Any

import amqp.exceptions
import kombu.entity
from oslo_config import cfg

from minova.concurrency import threads
from minova.contracts.base import Role
from minova.messaging import broker_tls, broker_users, flow_control
from minova.messaging.broker_users import BrokerUser
from minova.messaging.driver_log import OUTAGE

threads.use_native()

import oslo_messaging  # noqa: E402
from oslo_messaging import opts  # noqa: E402
from oslo_messaging._drivers import common as driver_common  # noqa: E402
from oslo_messaging._drivers import impl_rabbit  # noqa: E402

LOG = logging.getLogger(__name__)
# How the driver names the answer queues of other users.
_UNNAMED_REPLY = "reply_"
# Seconds between two looks for a missing exchange. After a restart of the broker all computes look.
_PAUSE = 1.0
# Seconds that a cast waits for its reader. A host that was off for longer gets its work from the rows, and the queue of one that
# stays off does not grow.
CAST_LIFETIME = 600.0
# The first major release of RabbitMQ whose queues are quorum queues by default.
MODERN = 4
_GROUP = "oslo_messaging_rabbit"
_ORIGINAL_NAME = impl_rabbit.RabbitDriver._get_reply_queue_name


def is_configured(conf: cfg.ConfigOpts) -> bool:
    """Whether a file or the environment sets transport_url. minova-standalone needs none."""
    conf.register_opts(dict(opts.list_opts())[None])  # oslo.messaging does so once it is used
    where = conf.get_location("transport_url")
    return where is not None and where.location not in {cfg.Locations.opt_default, cfg.Locations.set_default}


def user_of(url: Any) -> BrokerUser | None:
    """Returns the service that the user of a transport URL stands for. Raises ValueError if the hosts of the URL have
    different users.
    """
    names = {host.username for host in url.hosts}
    if len(names) > 1:
        raise ValueError("the hosts of transport_url have different users")
    return broker_users.user_of(next(iter(names), None))


class BrokerConnection(impl_rabbit.Connection):  # type: ignore[misc]
    """`holds_back`: whether a message that this process reports as not sent must never be delivered; see flow_control.py."""

    holds_back = False

    def __init__(self, conf: Any, url: Any, purpose: Any, retry: int | None = None) -> None:
        self.user = user_of(url)
        self._conf = conf
        self._flow = flow_control.of(str(url))
        self._lifetime: float | None = None
        super().__init__(conf, url, purpose, retry)

    def _fetch_ssl_params(self) -> Any:
        params = super()._fetch_ssl_params()
        return broker_tls.checked(params) if self.ssl else params

    def _set_current_channel(self, new_channel: Any) -> None:
        is_new = new_channel is not None and new_channel != self.channel
        # An error here, while the driver connects again, would end its loop. It declares the rest when it consumes.
        is_first = self.channel is None and not self._consumers
        if is_new and is_first and self._is_modern_broker:
            self.rabbit_quorum_queue = self._option_or("rabbit_quorum_queue", True)
        with contextlib.suppress(_NoExchangeError):
            super()._set_current_channel(new_channel)
        if is_new:
            OUTAGE.answered()
            new_channel.holds_back = self.holds_back
            self._producer.publish = functools.partial(self._publish_message, self._producer.publish)

    # -- consumers -------------------------------------------------------------------------------------------------

    def declare_consumer(self, consumer: Any) -> Any:
        if self._is_modern_broker:
            consumer.declare = _AdoptingDeclaration(consumer)
        if self._makes_no_exchange:
            consumer.exchange.passive = True
            consumer.declare = _PassiveDeclaration(consumer)
        try:
            while True:
                with contextlib.suppress(_NoExchangeError):
                    return super().declare_consumer(consumer)
        except Exception:
            self.close()  # oslo.messaging would leave it open
            raise

    def declare_topic_consumer(
        self, exchange_name: str, topic: str, callback: Any = None, queue_name: str | None = None
    ) -> None:
        if self.user is None or self.user.role is not Role.COMPUTE or topic != Role.COMPUTE:
            super().declare_topic_consumer(exchange_name, topic, callback, queue_name)

    def declare_fanout_consumer(self, topic: str, callback: Any) -> None:
        """Declares nothing: minova sends no message to all services of a kind."""

    def declare_direct_consumer(self, topic: str, callback: Any) -> None:
        """Declare the queue for this process's answers. Unlike the queues of other users, the exchange of answers also
        routes to it.

        Its name is random, and no other process uses it. RabbitMQ 4 needs it durable. It is not replicated, because a lost answer only
        repeats a call.
        """
        is_named = self.user is not None
        self.declare_consumer(
            impl_rabbit.Consumer(
                exchange_name=broker_users.REPLIES if is_named else "",
                queue_name=topic,
                routing_key=topic if is_named else "",
                type="topic" if is_named else "direct",
                durable=self.rabbit_transient_quorum_queue or self._is_modern_broker,
                exchange_auto_delete=False,
                queue_auto_delete=False,
                callback=callback,
                rabbit_ha_queues=self.rabbit_ha_queues,
                rabbit_queue_ttl=self.rabbit_transient_queues_ttl,
                enable_cancel_on_failover=self.enable_cancel_on_failover,
                rabbit_quorum_queue=self.rabbit_transient_quorum_queue,
                rabbit_quorum_queue_config=self.rabbit_quorum_queue_config,
            )
        )

    # -- sending ---------------------------------------------------------------------------------------------------

    def _ensure_publishing(self, *arguments: Any, **named: Any) -> None:
        """Raises ConnectionBlocked or InDoubt while the broker is blocked."""
        self._flow.require_open()
        try:
            super()._ensure_publishing(*arguments, **named)
        except (flow_control.ConnectionBlocked, flow_control.InDoubt) as error:
            undelivered = error
        else:
            return
        self._flow.blocked(self._part())
        raise undelivered

    def topic_send(self, *arguments: Any, timeout: float | None = None, **named: Any) -> None:
        """Send a request. It expires: a call with its time-out, a cast with CAST_LIFETIME."""
        self._lifetime = CAST_LIFETIME if timeout is None else None
        try:
            super().topic_send(*arguments, timeout=timeout, **named)
        finally:
            self._lifetime = None

    def _publish_message(self, publish: Any, message: Any, *, expiration: float | None = None, **named: Any) -> None:
        if self.user is not None:
            named["user_id"] = str(self.user)
        publish(message, expiration=expiration if self._lifetime is None else self._lifetime, **named)

    def _part(self) -> Any:
        """Returns the connection below, which this one no longer uses: it connects anew when it is next needed. (To close a
        channel or a connection that the broker has blocked would wait for the end of the alarm.)
        """
        with self._connection_lock:
            parted, self.connection._connection = self.connection._connection, None
            self.connection._default_channel = self.channel = None
            self.connection.declared_entities.clear()
            self._declared_queues.clear()
            self._declared_exchanges.clear()
        return parted

    def _publish(self, exchange: Any, *more: Any, **named: Any) -> None:
        if self._makes_no_exchange:
            exchange.passive = True
        super()._publish(exchange, *more, **named)

    def direct_send(self, msg_id: str, msg: Any) -> None:
        """Send an answer. The caller names its queue, but must not make this service write to any other kind of
        queue.
        """
        if self.user is None or msg_id.startswith(_UNNAMED_REPLY):
            super().direct_send(msg_id, msg)
        elif msg_id.startswith(broker_users.REPLY):
            self._send_reply(msg_id, msg)
        else:
            LOG.warning("An answer is not sent, because %r is no queue of answers", msg_id)

    def _send_reply(self, queue: str, msg: Any) -> None:
        exchange: Any = kombu.entity.Exchange(name=broker_users.REPLIES, type="topic", passive=True)  # type: ignore[no-untyped-call]
        options = oslo_messaging.TransportOptions(at_least_once=self.direct_mandatory_flag)
        send = self._publish_and_raises_on_missing_exchange
        self._ensure_publishing(send, exchange, msg, routing_key=queue, transport_options=options)

    def _publish_and_creates_default_queue(self, exchange: Any, msg: Any, routing_key: str, *more: Any) -> None:
        """Send a notification. A queue that its reader has declared with other arguments is used as it is."""
        try:
            super()._publish_and_creates_default_queue(exchange, msg, routing_key, *more)
        except amqp.exceptions.PreconditionFailed:
            self._declared_queues.add((exchange.name, routing_key))
            self._declared_exchanges.add(exchange.name)
            super()._publish_and_creates_default_queue(exchange, msg, routing_key, *more)

    # -- the broker ------------------------------------------------------------------------------------------------

    @property
    def _makes_no_exchange(self) -> bool:
        return self.user is not None and self.user.role is Role.COMPUTE

    @property
    def _is_modern_broker(self) -> bool:
        """Whether the broker is RabbitMQ 4 or newer, which has no transient queues and replicates only quorum queues."""
        server = getattr(self.connection._connection, "server_properties", {})
        major, _, _ = str(server.get("version", "")).partition(".")
        return server.get("product") == "RabbitMQ" and major.isdecimal() and int(major) >= MODERN

    def _option_or(self, option: str, otherwise: Any) -> Any:
        """Returns what the operator has set, or `otherwise`."""
        where = self._conf.get_location(option, _GROUP)
        is_set = where is not None and where.location not in {cfg.Locations.opt_default, cfg.Locations.set_default}
        return self._conf[_GROUP][option] if is_set else otherwise


class HoldingConnection(BrokerConnection):
    holds_back = True


class _NoExchangeError(driver_common.Timeout):  # type: ignore[misc]
    """No conductor has made the exchange yet. The driver takes it for the end of a wait for messages: it keeps the connection and
    declares again when it next waits.
    """


class _AdoptingDeclaration:
    """Declares a consumer of a broker that has quorum queues by default. An exchange or a queue that a service declared otherwise,
    before the broker or minova was upgraded, is used as it is.
    """

    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer
        self._declare: Callable[[Any], None] = consumer.declare

    def __call__(self, connection: Any) -> None:
        consumer = self._consumer
        try:
            if consumer.exchange.name and consumer.exchange.durable and not consumer.exchange.passive:
                consumer.exchange(connection.channel).declare()
        except amqp.exceptions.PreconditionFailed:
            _use_reopened_channel(connection)
            consumer.exchange.durable = False
        try:
            self._declare(connection)
        except amqp.exceptions.PreconditionFailed as error:
            LOG.warning("Queue %s is used as an earlier service declared it: %s", consumer.queue_name, error)
            _use_reopened_channel(connection)
            self._declare_classic(connection)

    def _declare_classic(self, connection: Any) -> None:
        consumer = self._consumer
        consumer.queue_arguments = {k: v for k, v in consumer.queue_arguments.items() if k != "x-queue-type"}
        consumer.durable = True
        try:
            self._declare(connection)
        except amqp.exceptions.PreconditionFailed:
            _use_reopened_channel(connection)
            consumer.durable = False
            self._declare(connection)


def _use_reopened_channel(connection: Any) -> None:
    """The broker has closed the channel, and py-amqp has opened it again: without consumers, and without the limit of
    unacknowledged messages.
    """
    connection._new_tags = set(connection._consumers.values())
    if connection.purpose == driver_common.PURPOSE_LISTEN:
        connection._set_qos(connection.channel)


class _PassiveDeclaration:
    """Declares a consumer of a user that makes no exchange. Conductors make the exchanges, and make them again after a restart of
    the broker.

    Raises _NoExchangeError, after a pause, if there is no exchange.
    """

    def __init__(self, consumer: Any) -> None:
        self._exchange = consumer.exchange
        self._declare: Callable[[Any], None] = consumer.declare
        self._waits = False

    def __call__(self, connection: Any) -> None:
        try:
            # Before the driver declares the queue. The driver takes a missing exchange for a broken queue, which it deletes.
            self._exchange(connection.channel).declare()
        except amqp.exceptions.NotFound as error:
            if not self._waits:
                LOG.warning("The conductor has made no exchange yet; this service waits for it: %s", error)
            self._waits = True
            _use_reopened_channel(connection)
            time.sleep(_PAUSE)
            raise _NoExchangeError from error
        if self._waits:
            LOG.info("There is an exchange %s again", self._exchange.name)
        self._waits = False
        self._declare(connection)


def _reply_queue_name(driver: Any) -> str:
    """Returns a random name, as for other users: a process that does not know the name cannot use the queue."""
    user = user_of(driver._url)
    return str(_ORIGINAL_NAME(driver)) if user is None else f"{broker_users.reply_queue_prefix(user)}{uuid.uuid4().hex}"


def use() -> None:
    """Makes the drivers of this process use this connection."""
    impl_rabbit.Connection = BrokerConnection
    impl_rabbit.RabbitDriver._get_reply_queue_name = _reply_queue_name
    broker_tls.use()
