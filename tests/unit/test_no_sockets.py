"""Unit tests stay off the network, whatever in them tries."""

import socket

import pytest

from tests.unit.conftest import NetworkForbidden


def test_a_unit_test_may_not_use_the_network() -> None:
    with socket.socket() as each:
        for what in (each.connect, each.bind):
            with pytest.raises(NetworkForbidden):
                what(("127.0.0.1", 9))
    with pytest.raises(NetworkForbidden):
        socket.getaddrinfo("localhost", 80)
