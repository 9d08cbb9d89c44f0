"""The broker users of the services, and their permissions in RabbitMQ.

A user is named `<service>.<host>`. Its queues contain its name, so permissions are patterns of names:

    exchange minova           requests, by topic: conductor, conductor_api, scheduler, compute.<host>
    exchange minova_replies   answers, by the name of the queue: reply/<user>/<32 random hex digits>

RabbitMQ only accepts the publisher's own user in `user_id`, so this property names the sender. The permissions are the
first wall. The second is that each server checks the sender (rpc_access.py), because a queue's dead-letter key and a
message's CC header bypass topic permissions.
"""

import re
from collections.abc import Mapping, Sequence

import msgspec

from minova.contracts.base import Role

EXCHANGE = "minova"
REPLIES = "minova_replies"
# What permissions call the exchange that routes to every queue by its name.
DEFAULT_EXCHANGE = "amq.default"
REPLY = "reply/"
_RANDOM = "[0-9a-f]{32}"
_NAMES = re.compile(rf"({'|'.join(Role)})\.(.+)", re.DOTALL)
_NOTHING = "^$"
# Used unless `[oslo_messaging_notifications] topics` is set.
_NOTIFICATIONS = ("nova", r"(versioned_)?notifications(\..+)?")


class BrokerUser(msgspec.Struct, frozen=True):
    """The user of one service of one host."""

    role: Role
    host: str

    def __str__(self) -> str:
        return f"{self.role}.{self.host}"


class Permissions(msgspec.Struct, frozen=True, kw_only=True):
    """Regular expressions in RabbitMQ's format. `topics`: by exchange, the patterns of routing keys (write, read)."""

    configure: str
    write: str
    read: str
    topics: Mapping[str, tuple[str, str]]


def user_of(name: str | None) -> BrokerUser | None:
    """Returns None if the name is not that of one service of one host."""
    match = _NAMES.fullmatch(name or "")
    return None if match is None else BrokerUser(Role(match[1]), match[2])


def reply_queue_prefix(user: BrokerUser) -> str:
    return f"{REPLY}{user}/"


def permissions_of(user: BrokerUser) -> Permissions:
    """Returns the permissions of this user. A compute may not declare exchanges, because that right includes their
    deletion.
    """
    own = [*_queues(user), f"{re.escape(reply_queue_prefix(user))}{_RANDOM}"]
    exchanges = [EXCHANGE, REPLIES]
    used = [*exchanges, *own]
    declared = own if user.role is Role.COMPUTE else used
    more = list(_MORE.get(user.role, ()))
    notified = list(_NOTIFICATIONS) if user.role in _NOTIFIES else []
    return Permissions(
        configure=_any_of([*declared, *notified]),
        write=_any_of([*used, *more, *notified]),
        read=_any_of([*used, *notified]),
        topics={
            EXCHANGE: (_any_of(_ASKS[user.role]), _any_of(_queues(user))),
            REPLIES: (_any_of(_replies_to(user.role)), _any_of(own[-1:])),
        },
    )


# The routing keys to which each role sends requests.
_ASKS: Mapping[Role, Sequence[str]] = {
    Role.API: ("conductor_api", r"compute\..+"),
    Role.COMPUTE: ("conductor",),
    Role.CONDUCTOR: ("conductor", "scheduler", r"compute\..+"),
    Role.CONSOLEPROXY: ("conductor_api", r"compute\..+"),
    Role.METADATA: ("conductor_api",),
    Role.METADATA_PROXY: ("conductor_api",),
    Role.SCHEDULER: ("conductor",),
}
_ASKED_BY: Mapping[Role, Sequence[Role]] = {
    Role.API: (),
    Role.COMPUTE: (Role.API, Role.CONDUCTOR, Role.CONSOLEPROXY),
    Role.CONDUCTOR: tuple(Role),
    Role.CONSOLEPROXY: (),
    Role.METADATA: (),
    Role.METADATA_PROXY: (),
    Role.SCHEDULER: (Role.CONDUCTOR,),
}
# While services get their users one after another, the conductor answers those without a user through the default
# exchange.
_MORE: Mapping[Role, Sequence[str]] = {Role.CONDUCTOR: (re.escape(DEFAULT_EXCHANGE),)}
_NOTIFIES = frozenset({Role.CONDUCTOR, Role.SCHEDULER})


def _queues(user: BrokerUser) -> list[str]:
    """Returns patterns of the queues that receive the user's requests. They are patterns of the routing keys, too."""
    host = re.escape(user.host)
    if user.role is Role.COMPUTE:
        return [rf"compute\.{host}"]
    if user.role is Role.CONDUCTOR:
        return [rf"conductor(_api)?(\.{host})?"]
    return [rf"scheduler(\.{host})?"] if user.role is Role.SCHEDULER else []


def _replies_to(role: Role) -> list[str]:
    askers = "|".join(_ASKED_BY[role])
    return [rf"{REPLY}({askers})\.[^/]+/{_RANDOM}"] if askers else []


def _any_of(patterns: Sequence[str]) -> str:
    return f"^({'|'.join(patterns)})$" if patterns else _NOTHING
