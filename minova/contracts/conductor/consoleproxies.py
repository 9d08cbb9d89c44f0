"""Calls of console proxies."""

from typing import Protocol

from minova.context import RequestContext
from minova.contracts.base import Role, call, called_by
from minova.contracts.conductor.audiences import API_TOPIC, API_TOPIC_SINCE
from minova.objects.guests.console import ConsoleGrant
from minova.objects.hosts.bounds import Reason


@called_by(Role.CONSOLEPROXY, topic=API_TOPIC, topic_since=API_TOPIC_SINCE)
class ConsoleGrantsApi(Protocol):
    @call(since="1.7")
    def use_console_token(self, ctx: RequestContext, *, token: Reason) -> ConsoleGrant:
        """Returns what the token opens, and uses the token up.

        Raises Forbidden if there is no such token, it has expired or was used, or its server is gone.
        """
        ...
