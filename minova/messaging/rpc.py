"""RPC over oslo.messaging: a transport, and from each contract a typed client and a checked server.

From a contract's type hints comes one argument struct per method. The server converts what arrived into it, so an
error names method and field, and unknown fields are refused; the client converts the answer. On the wire are plain
builtins: the serializer adds nothing to them.

A client sends the lowest version that has the method and its arguments (see contracts/base.py). A server that is older than
that, or a level in `[upgrade_levels]`, gives the caller PeerTooOld.
"""

import logging
import threading
import typing
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import amqp.exceptions
import kombu.exceptions
import msgspec
from oslo_config import cfg

from minova import errors, metrics, threads
from minova.codecs import Decoder
from minova.context import RequestContext
from minova.contracts.base import Method, methods_of, numbers
from minova.log import bound_request
from minova.messaging import broker_connection, memory_bus, rpc_access
from minova.messaging.broker_users import EXCHANGE
from minova.messaging.reconnects import Reconnects, send_answers_to_missing_queues
from minova.messaging.rpc_levels import Levels
from minova.messaging.rpc_listener import hand_back_messages
from minova.outages import Outage

threads.use_native()

import oslo_messaging  # noqa: E402
from oslo_messaging._drivers import amqpdriver, impl_rabbit  # noqa: E402
from oslo_messaging._drivers import common as driver_common  # noqa: E402
from oslo_messaging._metrics import client as driver_metrics  # noqa: E402
from oslo_messaging._tracing import client as tracing  # noqa: E402

LOG = logging.getLogger(__name__)
C = TypeVar("C")
OUTAGE = Outage("The message broker", LOG)
BROKER_ERRORS = (
    oslo_messaging.MessageDeliveryFailure,
    kombu.exceptions.OperationalError,
    amqp.exceptions.AMQPError,
    OSError,
)

# Bounds what one service takes off its queue before it has worked on it; oslo.messaging's default is unlimited.
cfg.set_defaults(impl_rabbit.rabbit_opts, rabbit_qos_prefetch_count=64)
# Of oslo.messaging's 64 most would wait for Python's lock or for a connection: a conductor of ten thousand hosts gets less done so.
cfg.set_defaults(oslo_messaging.server._pool_opts, executor_thread_pool_size=16)
# A broker that was away is found again within two seconds; oslo.messaging's pauses grow to 30 s.
cfg.set_defaults(impl_rabbit.rabbit_opts, rabbit_interval_max=1, rabbit_retry_backoff=0)
cfg.set_defaults(impl_rabbit.rabbit_opts, kombu_reconnect_delay=0.2, kombu_reconnect_splay=0.3)
# An answer whose queue is gone holds a thread no longer; oslo.messaging's default is 60 s. A caller that lives makes its queue anew
# within the two seconds above, and asks again what it has lost.
cfg.set_defaults(impl_rabbit.rabbit_opts, kombu_missing_consumer_retry_timeout=4)
# oslo.messaging looks after each message for the next one after 1 ms, 2 ms, 4 ms and so on, for listeners that acknowledge between
# two looks. Those of RPC acknowledge what they read at once, and such looks took a third of a busy conductor's CPU time.
amqpdriver.ACK_REQUEUE_EVERY_SECONDS_MIN = 0.5
# A message that reaches a server while it stops is not lost.
hand_back_messages()
# Nor are the answers to a caller that needed longer for that thrown away.
send_answers_to_missing_queues()
# TLS checks certificates and names, and services may have users of their own.
broker_connection.use()

# What oslo.messaging's dispatcher raises in a server that does not know the version or the method.
TOO_OLD = frozenset({"UnsupportedVersion", "NoSuchMethod"})

_CONTEXT = Decoder(RequestContext)


class _Serializer(oslo_messaging.Serializer):  # type: ignore[misc]
    """To builtins on the way out; nothing on the way in, where Endpoint and Proxy convert by type."""

    def serialize_context(self, ctxt: RequestContext) -> Any:
        return {name: value for name, value in msgspec.to_builtins(ctxt).items() if name != "sender"}

    def deserialize_context(self, ctxt: Any) -> RequestContext:
        return _CONTEXT.from_builtins(ctxt)

    def serialize_entity(self, ctxt: Any, entity: Any) -> Any:
        return msgspec.to_builtins(entity)

    def deserialize_entity(self, ctxt: Any, entity: Any) -> Any:
        return entity


class Endpoint:
    """The server's side: `manager` does the work, `contract` has the methods; `topic`: only those of that topic.

    `known_senders`: refuse what the sender may not call, by the user that the broker has validated.
    """

    def __init__(self, manager: Any, contract: Any, *, topic: str | None = None, known_senders: bool = False) -> None:
        self.target = oslo_messaging.Target(version=contract.VERSION)
        for method in methods_of(contract).values():
            if topic in {None, contract.TOPIC, method.audience.topic}:
                setattr(self, method.name, _handler(getattr(manager, method.name), method, known_senders))


def _handler(work: Callable[..., Any], method: Method, known_senders: bool) -> Callable[..., Any]:
    def handle(ctxt: RequestContext, **arguments: Any) -> Any:
        with bound_request(ctxt), metrics.timed(metrics.RPC_SECONDS, "server", method.name):
            try:
                checked = method.arguments.from_builtins(arguments)
            except msgspec.ValidationError as error:
                raise errors.BadRequest(f"{method.name}: {error}") from None
            if known_senders:
                _require_access(ctxt.sender, method, checked)
            try:
                return work(ctxt, **{name: getattr(checked, name) for name in checked.__struct_fields__})
            except errors.NoAnswer as error:
                # It is about another call, which this work needed: this one is answered.
                raise errors.ServiceUnavailable(*error.args) from error

    expected: Any = oslo_messaging.expected_exceptions(errors.MinovaError)
    return typing.cast(Callable[..., Any], expected(handle))


def _require_access(sender: str | None, method: Method, arguments: msgspec.Struct) -> None:
    """Forbidden, which is logged and counted."""
    reason = rpc_access.refusal(sender, method, arguments)
    if reason is not None:
        metrics.RPC_REFUSED.labels(method.name).inc()
        LOG.warning("Refused %s of %s: %s", method.name, sender or "an unknown sender", reason)
        raise errors.Forbidden(f"{method.name} is refused: {reason}")


class Proxy:
    """The client's side. Made by `Rpc.client`, which gives it the contract's type.

    `level`: the newest version that all servers support; None if unknown: then a server that is too old refuses the call.
    """

    def __init__(
        self,
        client: Any,
        contract: Any,
        reach: Callable[[], None] = lambda: None,
        level: Callable[[], str | None] = lambda: None,
        watch: Callable[[], None] = lambda: None,
    ) -> None:
        self._client = client
        self._watch = watch
        self._topic = contract.TOPIC
        self._methods = methods_of(contract)
        self._reach = reach
        self._level = level

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = self._methods.get(name)
        if method is None:
            raise AttributeError(name)
        return lambda ctx, **arguments: self._send(method, ctx, arguments)

    def _send(self, method: Method, ctx: RequestContext, arguments: dict[str, Any]) -> Any:
        version, sent = method.request(arguments)
        level = self._level()
        if level is not None and numbers(version) > numbers(level):
            raise errors.PeerTooOld(
                f"{method.name} needs {self._topic} {version}, and the oldest {self._topic} service that runs, or "
                f"[upgrade_levels] {self._topic}, allows {level}"
            )
        with metrics.timed(metrics.RPC_SECONDS, "client", method.name):
            return self._sent(method, ctx, version, sent)

    def _topic_of(self, method: Method) -> dict[str, str]:
        """A topic of its own, unless a server may be too old to listen there."""
        audience, level = method.audience, self._level()
        if audience.topic is None or (level is not None and numbers(level) < numbers(audience.topic_since)):
            return {}
        return {"topic": audience.topic}

    def _sent(self, method: Method, ctx: RequestContext, version: str, arguments: dict[str, Any]) -> Any:
        try:
            self._reach()
            self._watch()
            client = self._client.prepare(version=version, **self._topic_of(method))
            if method.kind == "cast":
                return client.cast(ctx, method.name, **arguments)
            answer = client.call(ctx, method.name, **arguments)
        except oslo_messaging.MessagingTimeout as error:
            LOG.debug("No answer to %s: %s", method.name, error)
            raise errors.NoAnswer(f"No answer to {method.name} in time.") from error
        except oslo_messaging.exceptions.MessageUndeliverable as error:
            raise errors.ServiceUnavailable(f"{method.name}: no service has ever listened there") from error
        except Exception as error:
            if _is_of_the_broker(error):
                # The log has the address of the broker; this text reaches users.
                OUTAGE.failed(error)
                raise errors.ServiceUnavailable(
                    f"{method.name} could not be delivered: no answer from the message broker"
                ) from error
            if _too_old(error):
                raise errors.PeerTooOld(
                    f"{method.name} needs {self._topic} {version}, and the service that was asked is older"
                ) from None
            raise _as_ours(error) from None
        OUTAGE.answered()
        return method.answer.from_builtins(answer)


def _is_of_the_broker(error: Exception) -> bool:
    """Also what comes bare out of a socket, but not what the other side raised, which arrives as a subclass of another name."""
    return isinstance(error, BROKER_ERRORS) and not type(error).__name__.endswith(driver_common._REMOTE_POSTFIX)


def _too_old(error: Exception) -> bool:
    kind = error.exc_type if isinstance(error, oslo_messaging.RemoteError) else type(error).__name__
    return kind in TOO_OLD


def _as_ours(error: Exception) -> Exception:
    """A remote MinovaError arrives as a generated subclass whose text drags a traceback along: take both off.

    The same for an unexpected exception there: its traceback belongs into that service's log, and its text may reach users.
    """
    kind = type(error).__name__
    name = kind.removesuffix(driver_common._REMOTE_POSTFIX)
    error_type = getattr(errors, name, None)
    if error_type is not None and isinstance(error, errors.MinovaError):
        return typing.cast(Exception, error_type(*error.args))
    if isinstance(error, oslo_messaging.RemoteError):
        return errors.MinovaError(f"{error.exc_type}: {error.value}")
    if name != kind:
        return errors.MinovaError(f"{name}: {' '.join(map(str, error.args))}")
    return error


class Rpc:
    """One transport of a process; `url` overrides the configured transport_url."""

    def __init__(self, conf: cfg.ConfigOpts, url: str | None = None) -> None:
        self.conf = conf
        self.levels = Levels(conf)
        # oslo.messaging registers these on its global configuration only, and fails without them on a call.
        conf.register_opts(tracing.oslo_messaging_tracing, group="oslo_messaging_tracing")
        conf.register_opts(driver_metrics.oslo_messaging_metrics, group="oslo_messaging_metrics")
        memory_bus.use()
        try:
            self.transport = oslo_messaging.get_rpc_transport(conf, url=url, allowed_remote_exmods=[errors.__name__])
        except (oslo_messaging.DriverLoadFailure, oslo_messaging.InvalidTransportURL, ValueError) as error:
            # Without the URL's text: it holds a password.
            raise errors.InvalidConfiguration(
                "[DEFAULT] transport_url is not a URL such as rabbit://user:password@host:5672/"
            ) from error

        self.reconnects = Reconnects(self.transport._driver)
        self.known_senders = _known_senders(conf, self.transport)

    def client(
        self,
        contract: type[C],
        *,
        server: str | None = None,
        timeout: float | None = None,
        retry: int | None = None,
    ) -> C:
        """A client of `contract`; with `server`, of that one host's server (`compute.<host>`).

        `retry`: how often a broker that is away is tried again, each time after a longer pause, before that is
        ServiceUnavailable; None waits until it is back, whatever the `timeout`, which counts from then on.
        """
        described: Any = contract
        target = oslo_messaging.Target(
            exchange=EXCHANGE,
            topic=described.TOPIC,
            version=described.VERSION,
            server=server,
        )
        # The broker says at once when there is no such queue: a service that starts before its peers need not wait long.
        mandatory = oslo_messaging.TransportOptions(at_least_once=True)
        client = oslo_messaging.get_rpc_client(
            self.transport, target, serializer=_Serializer(), timeout=timeout, retry=retry, transport_options=mandatory
        )
        level = lambda: self.levels.of(described.TOPIC)  # noqa: E731
        reach = (lambda: None) if retry is None else (lambda: self._reach(retry))
        return typing.cast(C, Proxy(client, contract, reach, level, self.reconnects.watch))

    def _reach(self, retry: int) -> None:
        """The first call of all makes the connection for answers, and oslo.messaging waits for that without end."""
        driver = self.transport._driver
        if getattr(driver, "_reply_q", self) is None:
            with driver._get_connection(driver_common.PURPOSE_SEND, retry=retry):
                pass

    def server(self, contract: Any, manager: Any, *, host: str) -> "Servers":
        """A server for each topic of the contract. `[DEFAULT] executor_thread_pool_size` bounds the threads of each."""
        topics = {contract.TOPIC: None, **{m.audience.topic: None for m in methods_of(contract).values()}}
        return Servers([self._server(contract, manager, host, topic) for topic in topics if topic is not None])

    def _server(self, contract: Any, manager: Any, host: str, topic: str) -> Any:
        target = oslo_messaging.Target(exchange=EXCHANGE, topic=topic, server=host)
        endpoint = Endpoint(manager, contract, topic=topic, known_senders=self.known_senders)
        return oslo_messaging.get_rpc_server(self.transport, target, [endpoint], serializer=_Serializer())

    def warn_of_unknown_senders(self) -> None:
        """Say once that a service which reaches the broker may speak for all others."""
        if _is_rabbit(self.transport) and not self.known_senders:
            LOG.warning(
                "[broker] per_host_users is off: each service with the broker's password may speak for every host, and ask what "
                "only the API should. See docs/operators/broker.md"
            )

    def close(self) -> None:
        self.transport.cleanup()


class Servers:
    """oslo.messaging's servers of one contract. They stop at the same time: each waits for its own threads."""

    def __init__(self, servers: Sequence[Any]) -> None:
        self._servers = servers

    def start(self) -> None:
        for server in self._servers:
            server.start()

    def stop(self) -> None:
        self._together("stop")

    def wait(self) -> None:
        self._together("wait")

    def _together(self, verb: str) -> None:
        work = [threading.Thread(target=getattr(server, verb), daemon=True) for server in self._servers]
        for thread in work:
            thread.start()
        for thread in work:
            thread.join()


def _is_rabbit(transport: Any) -> bool:
    driver = transport._driver
    return isinstance(driver, impl_rabbit.RabbitDriver) and driver._url.transport == "rabbit"


def _known_senders(conf: cfg.ConfigOpts, transport: Any) -> bool:
    """Whether servers refuse senders that the broker has not validated. A bus inside the process has no users.

    InvalidConfiguration: the user is another host's, or of no service where all must be.
    """
    if not _is_rabbit(transport):
        return False
    try:
        user = broker_connection.user_of(transport._driver._url)
    except ValueError as error:
        raise errors.InvalidConfiguration(f"[DEFAULT] transport_url: {error}") from None
    if user is not None and user.host != conf.host:
        raise errors.InvalidConfiguration(
            f"[DEFAULT] transport_url has the user {user}, and [DEFAULT] host is {conf.host}"
        )
    if user is None and conf.broker.per_host_users:
        raise errors.InvalidConfiguration(
            "[broker] per_host_users needs a transport_url whose user is named SERVICE.HOST: see minova-manage broker permissions"
        )
    return bool(conf.broker.per_host_users)
