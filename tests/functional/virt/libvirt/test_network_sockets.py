"""QEMU's programs inherit sockets that send each piece at once: their own ones waited 40 ms for the peer, five times for a file."""

import socket
from contextlib import closing

import pytest

from minova.errors import HypervisorError
from minova.virt.libvirt.migration import network_sockets

PORTS = range(49420, 49430)


def listening(address: str) -> socket.socket:
    return next(server for port in PORTS if (server := network_sockets.listen(address, port)) is not None)


def sends_at_once(connection: socket.socket) -> bool:
    return bool(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))


@pytest.mark.parametrize("address", ["127.0.0.1", "localhost", "::1"])
def test_both_sides_send_at_once(address: str) -> None:
    with (
        closing(listening(address)) as server,
        network_sockets.connect(address, server.getsockname()[1]) as client,
        server.accept()[0] as served,
    ):
        assert (sends_at_once(client), sends_at_once(served), client.gettimeout()) == (True, True, None)


def test_port_that_is_taken_is_none() -> None:
    with closing(listening("127.0.0.1")) as server:
        assert network_sockets.listen("127.0.0.1", server.getsockname()[1]) is None


def test_address_of_another_host_is_refused() -> None:
    with pytest.raises(HypervisorError, match=r"No port of 192\.0\.2\.1 can serve"):
        network_sockets.listen("192.0.2.1", PORTS[0])


def test_host_that_does_not_listen_is_named() -> None:
    with closing(listening("127.0.0.1")) as server:
        port = server.getsockname()[1]
    with pytest.raises(HypervisorError, match=rf"cannot be reached at 127\.0\.0\.1:{port}"):
        network_sockets.connect("127.0.0.1", port)
