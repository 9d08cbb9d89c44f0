"""RPC over oslo.messaging: a transport, and for each contract a typed client and a server that checks its arguments.

From a contract's type hints comes one argument struct per method. The server converts received arguments into that
struct, so an error names method and field, and unknown fields are refused. The client converts the answer. On the wire
are plain builtins: the serializer adds nothing to them.

A client sends the lowest version that has the method and its arguments (see contracts/base.py). If the server, or a
level in `[upgrade_levels]`, is older than that, the caller gets PeerTooOld.
"""

import logging
import threading
import time
import typing
import uuid
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec
from oslo_config import cfg

from minova import errors, metrics
from minova.backoff import Backoff
from minova.codecs import Decoder
from minova.concurrency import threads
from minova.concurrency.outside_waits import waiting
from minova.context import RequestContext
from minova.contracts.base import Method, Request, methods_of, numbers
from minova.contracts.wire_bounds import fault_of
from minova.messaging import broker_connection, driver_log, flow_control, memory_bus
from minova.messaging.broker_users import EXCHANGE
from minova.messaging.dispatch import Endpoint, Implementation
from minova.messaging.driver_log import BROKER_ERRORS, OUTAGE
from minova.messaging.own_cloud import OwnCloud
from minova.messaging.reconnects import Reconnects, send_answers_to_missing_queues
from minova.messaging.rpc_levels import Levels
from minova.messaging.rpc_listener import begin_calls_in_time, hand_back_messages, share_threads
from minova.safe_mode import SafeMode

threads.use_native()

import oslo_messaging  # noqa: E402
from oslo_messaging._drivers import amqpdriver, impl_rabbit  # noqa: E402
from oslo_messaging._drivers import common as driver_common  # noqa: E402
from oslo_messaging._metrics import client as driver_metrics  # noqa: E402
from oslo_messaging._tracing import client as tracing  # noqa: E402

LOG = logging.getLogger(__name__)
C = TypeVar("C")
# Calls that wait for the broker log its outage after so many tries of oslo.messaging, and try again after seconds.
TRIES_BEFORE_LOG = 2
BROKER_PAUSES = Backoff(first=0.2, longest=1.0)
# Seconds after an outage in which other services connect again. A broker that was restarted has no queues until then.
PEERS_RETURN = 15.0

# Limits how many messages one service takes off its queue before it has processed them; oslo.messaging's default is
# unlimited.
cfg.set_defaults(impl_rabbit.rabbit_opts, rabbit_qos_prefetch_count=64)
# Most of the 64 threads that are oslo.messaging's default would wait for Python's lock or for a connection. With so many, a
# conductor of ten thousand hosts gets less done.
cfg.set_defaults(oslo_messaging.server._pool_opts, executor_thread_pool_size=16)
# Reconnects to a broker within two seconds of its return. oslo.messaging's default pauses grow to 30 s.
cfg.set_defaults(impl_rabbit.rabbit_opts, rabbit_interval_max=1, rabbit_retry_backoff=0)
cfg.set_defaults(impl_rabbit.rabbit_opts, kombu_reconnect_delay=0.2, kombu_reconnect_splay=0.3)
# The longest time in seconds that an answer to a missing queue blocks a thread; oslo.messaging's default is 60 s. A
# live caller makes its queue again within the two seconds above, and repeats the calls that it has lost.
cfg.set_defaults(impl_rabbit.rabbit_opts, kombu_missing_consumer_retry_timeout=4)
# After each message oslo.messaging looks for the next one after 1 ms, 2 ms, 4 ms and so on, for listeners that
# acknowledge between two looks. RPC listeners acknowledge each message as soon as it is read, and these looks took a
# third of a busy conductor's CPU time.
amqpdriver.ACK_REQUEUE_EVERY_SECONDS_MIN = 0.5
# A message that arrives at a server that is stopping is not lost.
hand_back_messages()
# Answers are sent even if the caller has made its queue again late.
send_answers_to_missing_queues()
# An outage is one line, and what is expected has no traceback.
driver_log.use()
# TLS verifies certificates and host names, and services may have users of their own.
broker_connection.use()

# Errors of oslo.messaging's dispatcher in a server that does not know the version or the method.
TOO_OLD = frozenset({"UnsupportedVersion", "NoSuchMethod"})

_CONTEXT = Decoder(RequestContext)


class _Serializer(oslo_messaging.Serializer):  # type: ignore[misc]
    """Converts to builtins when it sends, and nothing when it receives, because Endpoint and Proxy convert by type. Each
    message names the cloud that its sender belongs to.
    """

    def __init__(self, cloud: OwnCloud | None = None) -> None:
        super().__init__()
        self._cloud = cloud or OwnCloud()

    def serialize_context(self, ctxt: RequestContext) -> Any:
        sent = {name: value for name, value in msgspec.to_builtins(ctxt).items() if name != "sender"}
        return {**sent, "cloud": self._cloud.uuid}

    def deserialize_context(self, ctxt: Any) -> RequestContext:
        return _CONTEXT.from_builtins(ctxt)

    def serialize_entity(self, ctxt: Any, entity: Any) -> Any:
        return msgspec.to_builtins(entity)

    def deserialize_entity(self, ctxt: Any, entity: Any) -> Any:
        return entity


class _BrokerAway(Exception):
    """`cause`: the error of the broker's library."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


_UNDELIVERABLE = object()


class _NoListener(errors.ServiceUnavailable):
    """The broker has no queue for the message."""


class Proxy:
    """The client's side. `Rpc.client` makes it and gives it the contract's type.

    `level`: the newest version that all servers support; None if it is unknown, and then a server that is too old
    refuses the call.
    `safe_mode`: of this process. While it is on, only calls that safe mode allows are sent.
    `patient`: whether a call waits until the broker is back, and its peers with it.
    `host`: whose server it is; its answers are bounded as its messages are. None: a server of controllers.
    """

    def __init__(
        self,
        client: Any,
        contract: Any,
        reach: Callable[[], None] = lambda: None,
        level: Callable[[], str | None] = lambda: None,
        watch: Callable[[], None] = lambda: None,
        safe_mode: SafeMode | None = None,
        patient: bool = False,
        host: str | None = None,
    ) -> None:
        self._host = host
        self._patient = patient
        self._safe_mode = safe_mode or SafeMode()
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
        if not method.in_safe_mode:
            self._safe_mode.require_off()
        request = method.request(arguments)
        level = self._level()
        if level is not None and numbers(request.version) > numbers(level):
            raise errors.PeerTooOld(
                f"{request.what} needs {self._topic} {request.version}, and the oldest {self._topic} service that runs, or "
                f"[upgrade_levels] {self._topic}, allows {level}"
            )
        ctx = msgspec.structs.replace(ctx, message=str(uuid.uuid4()) if method.once else None)
        with metrics.timed(metrics.RPC_SECONDS, "client", method.name):
            for pause in BROKER_PAUSES.pauses():
                try:
                    return self._sent(method, ctx, request)
                except _BrokerAway as away:
                    driver_log.failed(away.cause)
                    if not self._patient:
                        # Names of methods and the address of the broker are only in the log, because this text reaches users.
                        LOG.debug("%s could not be delivered: %s", method.name, away.cause)
                        raise errors.BrokerAway(
                            "The request could not be delivered, because the message broker does not answer"
                        ) from away.cause
                except _NoListener:
                    if not (self._patient and OUTAGE.ended_within(PEERS_RETURN)):
                        raise
                time.sleep(pause)
            raise AssertionError("unreachable")

    def _topic_of(self, method: Method) -> dict[str, str]:
        """Returns the method's own topic, unless a server may be too old to listen on it."""
        audience, level = method.audience, self._level()
        if audience.topic is None or (level is not None and numbers(level) < numbers(audience.topic_since)):
            return {}
        return {"topic": audience.topic}

    def _sent(self, method: Method, ctx: RequestContext, request: Request) -> Any:
        try:
            self._reach()
            self._watch()
            client = self._client.prepare(version=request.version, **self._topic_of(method))
            if method.kind == "cast":
                return client.cast(ctx, method.name, **request.arguments)
            with waiting(f"the {self._topic} service"):
                answer = client.call(ctx, method.name, **request.arguments)
        except (oslo_messaging.MessagingTimeout, flow_control.InDoubt) as error:
            LOG.debug("No answer to %s: %s", method.name, error)
            raise errors.NoAnswer(f"No {self._topic} service has answered in time.") from error
        except flow_control.ConnectionBlocked as error:
            raise errors.BrokerBlocked(
                "The request was not sent: the message broker is short of memory or disk and takes no messages."
            ) from error
        except oslo_messaging.exceptions.MessageUndeliverable:
            answer = _UNDELIVERABLE
        except Exception as error:
            if _is_of_the_broker(error):
                raise _BrokerAway(error) from error
            if _too_old(error):
                raise errors.PeerTooOld(
                    f"{request.what} needs {self._topic} {request.version}, and the service that was asked is older"
                ) from None
            raise _as_ours(error) from None
        # Not while an exception is handled: the log would name it in the line about the end of the outage.
        OUTAGE.answered()
        if answer is _UNDELIVERABLE:
            raise _NoListener(
                f"The request could not be delivered: no {self._topic} service is connected to the message broker"
            )
        return (
            method.answer.from_builtins(answer) if self._host is None else _answer_of_host(method, answer, self._host)
        )


def _answer_of_host(method: Method, answer: Any, host: str) -> Any:
    """Raises MinovaError for an answer that makes no sense: a stolen host sends what it likes, and it must fail its own part alone."""
    fault = fault_of(answer)
    if fault is None:
        try:
            return method.answer.from_builtins(answer)
        except (msgspec.ValidationError, RecursionError) as error:
            fault = str(error)
    LOG.error("The answer of host %s to %s makes no sense: %s", host, method.name, fault)
    raise errors.MinovaError(f"The answer of host {host} makes no sense: {fault}")


def _is_of_the_broker(error: Exception) -> bool:
    """Returns whether the broker is the cause, which includes bare socket errors. An error that the peer raised is not
    one of these: it arrives as a subclass with another name.
    """
    return isinstance(error, BROKER_ERRORS) and not type(error).__name__.endswith(driver_common._REMOTE_POSTFIX)


def _too_old(error: Exception) -> bool:
    kind = error.exc_type if isinstance(error, oslo_messaging.RemoteError) else type(error).__name__
    return kind in TOO_OLD


def _as_ours(error: Exception) -> Exception:
    """Returns the error without the traceback in its text: a remote MinovaError arrives as a generated subclass with
    such a text.

    The same applies to an unexpected exception of the peer: its traceback belongs in that service's log, and its text
    may reach users.
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
    """One transport of a process; `url` overrides the configured transport_url.

    `cloud`: the cloud that the process belongs to, which the process sets when it knows it.
    `safe_mode`: of the process.
    `holds_back`: a call that raises BrokerBlocked will never be executed. It costs one more round trip for each message.
    """

    def __init__(self, conf: cfg.ConfigOpts, url: str | None = None, *, holds_back: bool = False) -> None:
        self.conf = conf
        self.levels = Levels(conf)
        self.cloud = OwnCloud()
        self.safe_mode = SafeMode()
        # oslo.messaging registers these options on its global configuration only. Without them a call fails.
        conf.register_opts(tracing.oslo_messaging_tracing, group="oslo_messaging_tracing")
        conf.register_opts(driver_metrics.oslo_messaging_metrics, group="oslo_messaging_metrics")
        memory_bus.use()
        try:
            self.transport = oslo_messaging.get_rpc_transport(conf, url=url, allowed_remote_exmods=[errors.__name__])
        except (oslo_messaging.DriverLoadFailure, oslo_messaging.InvalidTransportURL, ValueError) as error:
            # The message omits the URL, because it contains a password.
            raise errors.InvalidConfiguration(
                "[DEFAULT] transport_url is not a URL such as rabbit://user:password@host:5672/"
            ) from error

        if holds_back:
            self.transport._driver._connection_pool.connection_cls = broker_connection.HoldingConnection
        self.reconnects = Reconnects(self.transport._driver)
        self.flow = flow_control.of(str(self.transport._driver._url))
        self.flow.on_change(self.reconnects.flow_changed)
        self.known_senders = _known_senders(conf, self.transport)

    def client(
        self,
        contract: type[C],
        *,
        server: str | None = None,
        timeout: float | None = None,
        retry: int | None = None,
    ) -> C:
        """A client of `contract`; with `server`, of the server of that one host (`compute.<host>`).

        `retry`: how often a connection to a broker that is away is tried, each time after a longer pause, before
        ServiceUnavailable is raised. None: waits until the broker is back, even beyond `timeout`, which only starts
        then, and logs the outage.
        """
        described: Any = contract
        target = oslo_messaging.Target(
            exchange=EXCHANGE,
            topic=described.TOPIC,
            version=described.VERSION,
            server=server,
        )
        tries = TRIES_BEFORE_LOG if retry is None else retry
        # The broker reports at once that a queue is missing, so a service that starts before its peers need not wait
        # long.
        mandatory = oslo_messaging.TransportOptions(at_least_once=True)
        client = oslo_messaging.get_rpc_client(
            self.transport,
            target,
            serializer=_Serializer(self.cloud),
            timeout=timeout,
            retry=tries,
            transport_options=mandatory,
        )
        level = lambda: self.levels.of(described.TOPIC)  # noqa: E731
        reach = lambda: self._reach(tries)  # noqa: E731
        proxy = Proxy(
            client, contract, reach, level, self.reconnects.watch, self.safe_mode, patient=retry is None, host=server
        )
        return typing.cast(C, proxy)

    def _reach(self, retry: int) -> None:
        """Connect within `retry` tries. The first call makes the connection for answers, and oslo.messaging would wait
        for that forever. Raises ConnectionBlocked while the broker takes no messages.
        """
        self.flow.require_open()
        driver = self.transport._driver
        if getattr(driver, "_reply_q", self) is None:
            with driver._get_connection(driver_common.PURPOSE_SEND, retry=retry):
                pass

    def server(self, contract: Any, implementation: Implementation, *, host: str) -> "RpcServers":
        """Makes a server for each topic of the contract. `[DEFAULT] executor_thread_pool_size` limits the threads of
        each.
        """
        topics = {contract.TOPIC: None, **{m.audience.topic: None for m in methods_of(contract).values()}}
        return RpcServers(
            [partial(self._server, contract, implementation, host, topic) for topic in topics if topic is not None]
        )

    def _server(self, contract: Any, implementation: Implementation, host: str, topic: str) -> Any:
        target = oslo_messaging.Target(exchange=EXCHANGE, topic=topic, server=host)
        endpoint = Endpoint(implementation, contract, topic=topic, known_senders=self.known_senders, cloud=self.cloud)
        server = oslo_messaging.get_rpc_server(self.transport, target, [endpoint], serializer=_Serializer(self.cloud))
        begin_calls_in_time(server)
        if self.known_senders:
            share_threads(server)
        return server

    @property
    def is_shared(self) -> bool:
        """Returns whether other processes may use the same bus."""
        return _is_rabbit(self.transport)

    def warn_of_unknown_senders(self) -> None:
        """Warn that any service with access to the broker may pretend to be another one."""
        if _is_rabbit(self.transport) and not self.known_senders:
            LOG.warning(
                "[broker] per_host_users is off: each service with the broker's password may speak for every host, and ask what "
                "only the API should. See docs/operators/broker.md"
            )

    def close(self) -> None:
        self.transport.cleanup()


class RpcServers:
    """oslo.messaging's servers of one contract. They stop in parallel, because each waits for its own threads."""

    def __init__(self, makers: Sequence[Callable[[], Any]]) -> None:
        self._makers = makers
        self._servers = [make() for make in makers]
        self._started = 0

    def start(self) -> None:
        """Raises ServiceUnavailable if the broker breaks a connection meanwhile. Then the next call starts the others; a server
        that could not start cannot start again, so it is made anew.
        """
        while self._started < len(self._servers):
            try:
                self._servers[self._started].start()
            except Exception as error:
                if not _is_of_the_broker(error):
                    raise
                self._servers[self._started] = self._makers[self._started]()
                raise errors.ServiceUnavailable(f"the message broker broke the connection: {error}") from error
            self._started += 1

    def stop(self) -> None:
        self._together("stop")

    def wait(self) -> None:
        self._together("wait")

    def _together(self, verb: str) -> None:
        started = self._servers[: self._started]
        work = [threading.Thread(target=getattr(server, verb), daemon=True) for server in started]
        for thread in work:
            thread.start()
        for thread in work:
            thread.join()


def _is_rabbit(transport: Any) -> bool:
    driver = transport._driver
    return isinstance(driver, impl_rabbit.RabbitDriver) and driver._url.transport == "rabbit"


def _known_senders(conf: cfg.ConfigOpts, transport: Any) -> bool:
    """Returns whether servers refuse senders that the broker has not validated. A bus inside the process has no users.

    Raises InvalidConfiguration if the user is another host's, or if it is no service's although all must be.
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
