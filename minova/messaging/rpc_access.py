"""Decides which sender may make which call. The sender is the user validated by the broker (broker_users.py), never
taken from the message.

A compute speaks for its own host alone: every host that the arguments name must be that one. Whether an instance, an
attempt or a node belongs to that host is left to the handlers, which check it anyway: their fences compare host and
attempt with the rows.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from minova.contracts.base import Method, Role
from minova.messaging.broker_users import BrokerUser, user_of


def refusal(sender: str | None, method: Method, arguments: msgspec.Struct) -> str | None:
    """Returns why this sender may not make this call; None if it may."""
    user = user_of(sender)
    if user is None:
        return "it has no user of a service at the broker"
    if user.role not in method.audience.roles:
        return f"services of the kind {user.role} may not call it"
    return _impersonation(user, method, arguments) if method.audience.speaks_for_host else None


def _impersonation(user: BrokerUser, method: Method, arguments: msgspec.Struct) -> str | None:
    hosts, binaries = set(hosts_named(arguments)), set(binaries_named(arguments))
    if not hosts and not method.of_no_host:
        return "it names no host"
    for name in sorted(hosts - {user.host}):
        return f"it speaks for host {name!r}"
    for name in sorted(binaries - {f"minova-{user.role}"}):
        return f"it speaks for service {name!r}"
    return None


def hosts_named(arguments: msgspec.Struct) -> Iterator[str]:
    """Yields the argument `host`, and the host of each struct among the arguments that has one."""
    return _hosts_named(arguments, "host")


def binaries_named(arguments: msgspec.Struct) -> Iterator[str]:
    return _hosts_named(arguments, "binary")


def _hosts_named(arguments: msgspec.Struct, field: str) -> Iterator[str]:
    for name in arguments.__struct_fields__:
        value = getattr(arguments, name)
        for element in value if isinstance(value, tuple) else (value,):
            field_value: Any = element if name == field else getattr(element, field, None)
            if isinstance(field_value, str):
                yield field_value


def described_host(sender: str | None, arguments: Mapping[str, Any], *, known_senders: bool) -> str | None:
    """Returns the host that a message is about whose arguments, plain values, may not be valid; None if that is not known.

    `known_senders`: the host is the sender's own, whatever the message says.
    """
    if known_senders:
        user = user_of(sender)
        return user.host if user is not None and user.role == Role.COMPUTE else None
    node = arguments.get("node")
    host = node.get("host") if isinstance(node, Mapping) else arguments.get("host")
    return host if isinstance(host, str) and 0 < len(host) <= 255 and host.isprintable() else None


def own_host(sender: str | None) -> str | None:
    """Returns the host of the sending service; None if the sender is unknown."""
    user = user_of(sender)
    return None if user is None else user.host
