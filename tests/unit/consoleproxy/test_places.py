"""Which connection of an address is closed for another one."""

import socket
from collections.abc import Iterator

import pytest

from minova.consoleproxy.places import IDLE, ConsoleClient, ConsolePlaces


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def sockets() -> Iterator[list[socket.socket]]:
    connections: list[socket.socket] = []
    yield connections
    for each in connections:
        each.close()


def served(places: ConsolePlaces, sockets: list[socket.socket], *, is_console: bool = False) -> ConsoleClient:
    client = places.take("192.0.2.1")
    assert isinstance(client, ConsoleClient)
    ours, theirs = socket.socketpair()
    sockets += [ours, theirs]
    client.connection, client.is_console = ours, is_console
    return client


def is_closed(client: ConsoleClient) -> bool:
    client.connection.setblocking(False)
    try:
        return bool(client.connection.recv(1) == b"")
    except BlockingIOError:
        return False


def test_connection_without_a_console_makes_room_before_an_idle_console(
    clock: Clock, sockets: list[socket.socket]
) -> None:
    places = ConsolePlaces(10, 2, clock)
    console = served(places, sockets, is_console=True)
    clock.now = 2 * IDLE
    opening = served(places, sockets)
    served(places, sockets)
    assert [is_closed(client) for client in (console, opening)] == [False, True]
    places.free(opening)
    served(places, sockets)
    served(places, sockets)
    assert not is_closed(console)


def test_console_without_data_makes_room_after_a_while(clock: Clock, sockets: list[socket.socket]) -> None:
    places = ConsolePlaces(10, 2, clock)
    used, idle = [served(places, sockets, is_console=True) for _ in range(2)]
    clock.now = IDLE - 1
    assert isinstance(places.take("192.0.2.1"), str)
    places.used(used)
    clock.now = IDLE
    served(places, sockets, is_console=True)
    assert [is_closed(client) for client in (used, idle)] == [False, True]
    assert isinstance(places.take("192.0.2.1"), str)
    assert isinstance(places.take("192.0.2.2"), ConsoleClient)


def test_all_connections_together_are_bounded(clock: Clock, sockets: list[socket.socket]) -> None:
    places = ConsolePlaces(2, 2, clock)
    first = served(places, sockets, is_console=True)
    served(places, sockets, is_console=True)
    assert places.take("192.0.2.2") == "[consoleproxy] max_connections are open"
    places.free(first)
    places.free(first)
    assert isinstance(places.take("192.0.2.2"), ConsoleClient)
