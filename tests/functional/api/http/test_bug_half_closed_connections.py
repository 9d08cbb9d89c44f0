"""A client may say that it sends no more before it has its answer, as nc does: what it has asked for whole is answered."""

import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from minova.api.listener.bridge import ListenerCapacity
from minova.api.listener.service import HttpService, Listen

# Within the patience of a machine that is busy.
PATIENCE = 60.0


class Application:
    """Answers /wait/... when `goes_on` is set, with the path and how long the body is; other requests at once."""

    def __init__(self) -> None:
        self.goes_on = threading.Event()
        self.asked: list[str] = []

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        body = environ["wsgi.input"].read()
        self.asked.append(path)
        if path.startswith("/wait/"):
            assert self.goes_on.wait(PATIENCE)
        text = f"{path} {len(body)}\n".encode()
        start_response("200 OK", [("content-length", str(len(text))), ("content-type", "text/plain")])
        return [text]


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[HttpService, Application]]:
    app = Application()
    listen = Listen(host="127.0.0.1", port=0, host_option="a", port_option="b", capacity=ListenerCapacity(reads=4))
    service = HttpService("api", app, listen)
    service.start()
    yield service, app
    service.stop()


def get(path: str) -> bytes:
    return b"GET %s HTTP/1.1\r\nHost: h\r\n\r\n" % path.encode()


def post(path: str, length: int, body: bytes) -> bytes:
    return b"POST %s HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%s" % (path.encode(), length, body)


def read_all(client: socket.socket) -> bytes:
    answer = b""
    while block := client.recv(65536):
        answer += block
    return answer


def answered(served: tuple[HttpService, Application], *requests: bytes) -> list[bytes]:
    """The bodies of the answers to what was sent before the client's half was closed, which the service has noticed before it answers."""
    service, app = served
    app.goes_on.clear()
    with socket.create_connection(("127.0.0.1", service.port), PATIENCE) as client:
        client.sendall(b"".join(requests))
        client.shutdown(socket.SHUT_WR)
        # Another connection of the same loop, whose events come in order.
        with socket.create_connection(("127.0.0.1", service.port), PATIENCE) as other:
            other.sendall(get("/").replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
            assert read_all(other).endswith(b"/ 0\n")
        app.goes_on.set()
        return [line for line in read_all(client).split(b"\n") if line.startswith(b"/")]


def test_whole_request_is_answered(served: tuple[HttpService, Application]) -> None:
    assert answered(served, get("/wait/1")) == [b"/wait/1 0"]
    assert answered(served, post("/wait/2", 4, b"body")) == [b"/wait/2 4"]


def test_requests_that_follow_each_other_are_all_answered(served: tuple[HttpService, Application]) -> None:
    requests = [get("/wait/1"), post("/wait/2", 4, b"body"), get("/3")]
    assert answered(served, *requests) == [b"/wait/1 0", b"/wait/2 4", b"/3 0"]


@pytest.mark.parametrize("part", [b"GET /part HT", post("/part", 10, b"four"), get("/part")[:-2]])
def test_request_of_which_a_part_is_missing_is_not_done(served: tuple[HttpService, Application], part: bytes) -> None:
    """What came whole before it is answered."""
    assert answered(served, part) == []
    assert answered(served, get("/wait/1"), part) == [b"/wait/1 0"]
    assert answered(served, get("/wait/1"), get("/wait/2"), part) == [b"/wait/1 0", b"/wait/2 0"]
    assert "/part" not in served[1].asked


def test_client_that_has_its_answer_and_closes_its_half_is_let_go(served: tuple[HttpService, Application]) -> None:
    with socket.create_connection(("127.0.0.1", served[0].port), PATIENCE) as client:
        client.sendall(get("/1"))
        answer = client.makefile("rb")
        assert b"/1 0\n" in iter(answer.readline, b"")
        client.shutdown(socket.SHUT_WR)
        assert answer.read() == b""
