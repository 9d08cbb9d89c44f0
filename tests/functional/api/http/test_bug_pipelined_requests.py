"""A connection knew the request that came last, and not the one that was being answered: an error of a later one was written into its
answer, and after a client had gone the answer was written all the same, with a traceback in the log for each connection.
"""

import logging
import socket
import struct
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from minova.api.listener.bridge import ListenerCapacity
from minova.api.listener.service import HttpService, Listen

PATIENCE = 60.0
GET = b"GET /%s HTTP/1.1\r\nHost: h\r\n\r\n"


class Application:
    """/slow: one half of the answer, and the other one when `goes_on` is set. Each path is in `asked` when it has begun."""

    def __init__(self) -> None:
        self.goes_on = threading.Event()
        self.asked: list[str] = []

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        self.asked.append(environ["PATH_INFO"])
        start_response("200 OK", [("content-length", "8"), ("content-type", "text/plain")])
        yield b"half"
        if environ["PATH_INFO"] == "/slow":
            assert self.goes_on.wait(PATIENCE)
        yield b"half"


@pytest.fixture
def served() -> Iterator[tuple[HttpService, Application]]:
    app = Application()
    listen = Listen(host="127.0.0.1", port=0, host_option="a", port_option="b", capacity=ListenerCapacity(reads=4))
    service = HttpService("api", app, listen)
    service.start()
    yield service, app
    app.goes_on.set()
    service.stop()


def begun(service: HttpService) -> socket.socket:
    """A client that has read the first half of an answer."""
    client = socket.create_connection(("127.0.0.1", service.port), PATIENCE)
    client.sendall(GET % b"slow")
    answer = b""
    while not answer.endswith(b"\r\n\r\nhalf"):
        answer += client.recv(1)
    return client


def answered(service: HttpService) -> None:
    """Events of the loop come in their order: those of before have been handled."""
    with socket.create_connection(("127.0.0.1", service.port), PATIENCE) as other:
        other.sendall(GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n") % b"other")
        while other.recv(4096):
            pass


def test_error_of_a_later_request_is_not_written_into_an_answer(served: tuple[HttpService, Application]) -> None:
    service, app = served
    with begun(service) as client:
        client.sendall(GET % b"next" + b"no request\r\n\r\n")
        answered(service)
        app.goes_on.set()
        left = b""
        try:
            while block := client.recv(4096):
                left += block
        except ConnectionResetError:
            pass
    assert left == b""
    assert "/next" not in app.asked


def test_clients_that_go_leave_no_traceback(
    served: tuple[HttpService, Application], caplog: pytest.LogCaptureFixture
) -> None:
    service, app = served
    with caplog.at_level(logging.ERROR):
        with begun(service) as client:
            client.sendall(GET % b"next")
            answered(service)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        app.goes_on.set()
        service.stop()
    assert [record.getMessage() for record in caplog.records] == []
