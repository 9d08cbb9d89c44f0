"""Sockets for QEMU's programs, which inherit them. Their own sockets gather small pieces (Nagle's algorithm) while they agree on a TLS
session, and each piece then waits 40 ms for the peer's delayed acknowledgement: 0.2 s for a file of any size.
"""

import errno
import socket

from minova.errors import HypervisorError

CONNECT_WITHIN = 30.0
_BACKLOG = 16


def listen(address: str, port: int) -> socket.socket | None:
    """Returns a listening socket, whose connections send at once; None if the port is taken. Raises HypervisorError."""
    try:
        family, _, _, _, where = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0]
        server = socket.create_server(where, family=family, backlog=_BACKLOG)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            return None
        raise HypervisorError(f"No port of {address} can serve the disks of a guest: {error}") from error
    # Linux: what a listening socket is set to, its connections are.
    server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return server


def connect(address: str, port: int) -> socket.socket:
    """Returns a connection that sends at once. Raises HypervisorError."""
    try:
        connection = socket.create_connection((address, port), CONNECT_WITHIN)
    except OSError as error:
        raise HypervisorError(f"The host of the disks cannot be reached at {address}:{port}: {error}") from error
    connection.setblocking(True)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection
