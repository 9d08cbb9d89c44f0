"""Dispatch of messages: checks each message, then calls the method of the object that does its work.

    message -> own cloud? -> bounds -> arguments decoded -> may the sender call it? -> safe mode? -> disk room? -> contact noted -> method

The marks of the method in its contract define which of these checks apply (contracts/base.py).
"""

import logging
import typing
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from minova import errors, metrics
from minova.concurrency import threads
from minova.context import RequestContext
from minova.contracts.base import Method, methods_of
from minova.contracts.wire_bounds import fault_of
from minova.log import bound_request
from minova.messaging import rpc_access
from minova.messaging.own_cloud import OwnCloud
from minova.safe_mode import SafeMode

threads.use_native()

import oslo_messaging  # noqa: E402

LOG = logging.getLogger(__name__)


class Implementation(msgspec.Struct, frozen=True, kw_only=True):
    """An object that serves a contract.

    `parts`: the objects that do the work. Each method of the contract is a method of exactly one of them.
    `safe_mode`: of the process. While it is on, only the methods that it allows are called.
    `require_disk_room`: raises DiskFull for methods that are `refused_when_disk_full`.
    `note_contact`: gets the host and the process of the sender of each message that `shows_life`.
    `note_refused`: gets the host, and why a message that `describes_host` was refused.
    """

    parts: tuple[object, ...]
    safe_mode: SafeMode = msgspec.field(default_factory=SafeMode)
    require_disk_room: Callable[[], None] = lambda: None
    note_contact: Callable[[str, str | None], None] = lambda host, process: None
    note_refused: Callable[[str, str], None] = lambda host, reason: None

    def method(self, name: str) -> Callable[..., Any]:
        """Raises TypeError if no part, or more than one, has this method."""
        matching_parts = [part for part in self.parts if hasattr(part, name)]
        if len(matching_parts) != 1:
            owners = ", ".join(type(part).__name__ for part in matching_parts)
            raise TypeError(f"{name} must be a method of one part, and is one of {owners or 'none'}")
        return typing.cast(Callable[..., Any], getattr(matching_parts[0], name))


class Endpoint:
    """The server's side of a contract, as oslo.messaging expects it: an object with a method for each message.

    `topic`: serve only the methods of that topic.
    `known_senders`: refuse calls that the sender, which is the user validated by the broker, may not make.
    `cloud`: refuse messages of another cloud.
    """

    def __init__(
        self,
        implementation: Implementation,
        contract: Any,
        *,
        topic: str | None = None,
        known_senders: bool = False,
        cloud: OwnCloud | None = None,
    ) -> None:
        self.target = oslo_messaging.Target(version=contract.VERSION)
        checks = _Checks(implementation, known_senders=known_senders, cloud=cloud or OwnCloud())
        for method in methods_of(contract).values():
            if topic in {None, contract.TOPIC, method.audience.topic}:
                setattr(self, method.name, _handler(implementation.method(method.name), method, checks))


class _Checks:
    """What a message must pass before its method is called."""

    def __init__(self, implementation: Implementation, *, known_senders: bool, cloud: OwnCloud) -> None:
        self._implementation = implementation
        self._known_senders = known_senders
        self._cloud = cloud

    def require_own_cloud(self, ctx: RequestContext, method: Method) -> None:
        """Raises AnotherCloud if another cloud has sent the message; counts the refusal."""
        try:
            self._cloud.require(ctx.cloud)
        except errors.AnotherCloud:
            metrics.RPC_REFUSED.labels(method.name).inc()
            raise

    def require(self, ctx: RequestContext, method: Method, arguments: msgspec.Struct) -> None:
        """Raises Forbidden if the sender may not make this call, ServiceUnavailable if safe mode does not allow it,
        DiskFull if there is no room for what it writes, Superseded if another process serves the sender's host.
        """
        if self._known_senders:
            _require_access(ctx.sender, method, arguments)
        if not method.in_safe_mode:
            self._implementation.safe_mode.require_off()
        if method.refused_when_disk_full:
            self._implementation.require_disk_room()
        if method.audience.shows_life:
            host = next(rpc_access.hosts_named(arguments), None)
            if host is not None:
                self._implementation.note_contact(host, ctx.process)

    def refused(
        self, ctx: RequestContext, method: Method, arguments: Mapping[str, Any], error: errors.BadRequest
    ) -> None:
        """A message that is not valid describes a host by which nothing may be decided."""
        LOG.warning("Refused a message of %s: %s", ctx.sender or "a service", error)
        metrics.RPC_REFUSED.labels(method.name).inc()
        host = rpc_access.described_host(ctx.sender, arguments, known_senders=self._known_senders)
        if method.describes_host and host is not None:
            self._implementation.note_refused(host, str(error))


def _decoded(method: Method, arguments: Mapping[str, Any]) -> msgspec.Struct:
    """Raises BadRequest."""
    # The reason of a failure may have any text, so that the failure arrives: the conductor makes the text fit.
    others = {name: value for name, value in arguments.items() if name != "reason"}
    fault = fault_of(others) if method.from_hosts else None
    if fault is not None:
        raise errors.BadRequest(f"{method.name}: {fault}")
    try:
        decoded: msgspec.Struct = method.arguments.from_builtins(arguments)
    except (msgspec.ValidationError, RecursionError) as error:
        raise errors.BadRequest(f"{method.name}: {error}") from None
    return decoded


def _handler(work: Callable[..., Any], method: Method, checks: _Checks) -> Callable[..., Any]:
    def handle(ctxt: RequestContext, **arguments: Any) -> Any:
        with bound_request(ctxt), metrics.timed(metrics.RPC_SECONDS, "server", method.name):
            checks.require_own_cloud(ctxt, method)
            try:
                decoded = _decoded(method, arguments)
                checks.require(ctxt, method, decoded)
                # Work that continues in other threads does not count as a delivery of this message.
                ctx = msgspec.structs.replace(ctxt, message=None)
                return work(ctx, **{name: getattr(decoded, name) for name in decoded.__struct_fields__})
            except errors.BadRequest as error:
                if method.from_hosts:
                    checks.refused(ctxt, method, arguments, error)
                raise _declared(error) from None
            except (errors.NoAnswer, errors.BrokerBlocked, errors.BrokerAway) as error:
                # The missing answer belongs to another call, which this work needed. The present call does get an
                # answer.
                raise errors.ServiceUnavailable(*error.args) from error
            except errors.Abandoned:
                raise errors.ServiceUnavailable(f"{method.name}: the service stops") from None
            except errors.MinovaError as error:
                raise _declared(error) from None

    expected: Any = oslo_messaging.expected_exceptions(errors.MinovaError)
    return typing.cast(Callable[..., Any], expected(handle))


def _declared(error: errors.MinovaError) -> errors.MinovaError:
    """Returns the error as the nearest class of `errors`. A caller knows no other, and would take it for an unexpected error."""
    kind = next(kind for kind in type(error).__mro__ if kind.__module__ == errors.__name__)
    return error if kind is type(error) else kind(*error.args)


def _require_access(sender: str | None, method: Method, arguments: msgspec.Struct) -> None:
    """Raises Forbidden if the sender may not make this call; logs and counts the refusal."""
    reason = rpc_access.refusal(sender, method, arguments)
    if reason is not None:
        metrics.RPC_REFUSED.labels(method.name).inc()
        LOG.warning("Refused %s of %s: %s", method.name, sender or "an unknown sender", reason)
        raise errors.Forbidden(f"{method.name} is refused: {reason}")
