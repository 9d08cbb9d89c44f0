"""A unit test that reaches for the network fails at once."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

FORBIDDEN = {"socket.connect", "socket.bind", "socket.sendto", "socket.sendmsg", "socket.getaddrinfo"}


class NetworkForbidden(Exception):
    """A unit test used a socket: it belongs into tests/functional or tests/integration."""


class Guard:
    """An audit hook, since Python reports every use of a socket to those. Hooks cannot be removed, only idle."""

    def __init__(self) -> None:
        self.watching = False

    def __call__(self, event: str, _: object) -> None:
        if self.watching and event in FORBIDDEN:
            raise NetworkForbidden(f"{event} in a unit test")


GUARD = Guard()
sys.addaudithook(GUARD)


@pytest.fixture(autouse=True)
def no_sockets() -> Iterator[None]:
    GUARD.watching = True
    yield
    GUARD.watching = False
