"""A request has one length and one host: what a proxy and this server could read in two ways is refused, and the connection closed."""

import json
from collections.abc import Iterator

import pytest

from tests.security.http_process import HttpProcess

# A second request, for who takes the body for shorter than it is.
HIDDEN = b"GET /hidden HTTP/1.1\r\nHost: localhost\r\n\r\n"
LENGTH = b"Content-Length: %d\r\n" % len(HIDDEN)
CHUNKED = b"Transfer-Encoding: chunked\r\n"


@pytest.fixture(scope="module")
def server() -> Iterator[HttpProcess]:
    with HttpProcess() as server:
        yield server


@pytest.mark.parametrize(
    "headers",
    [
        LENGTH + b"Content-Length: 0\r\n",
        LENGTH + LENGTH,
        LENGTH + CHUNKED,
        CHUNKED + LENGTH,
        b"Content-Length: -1\r\n",
        b"Content-Length: +5\r\n",
        b"Content-Length: 0x5\r\n",
        b"Content-Length: 5, 5\r\n",
        b"Content-Length: 99999999999999999999999\r\n",
        b"Content-Length: hi\r\n",
        b"Content-Length : 5\r\n",
        b"Content-Length:\r\n",
        b"Transfer-Encoding: chunked, identity\r\n",
        b"Transfer-Encoding: xchunked\r\n",
        b"Transfer-Encoding : chunked\r\n",
        b"X: a\n\r\n",
        b" X: folded\r\n",
        b"X: a\0b\r\n",
        b"Host: other\r\n",
    ],
)
def test_request_that_can_be_read_in_two_ways_is_400(server: HttpProcess, headers: bytes) -> None:
    answer = server.send(b"POST / HTTP/1.1\r\nHost: localhost\r\n" + headers + b"\r\n" + HIDDEN)
    assert answer.startswith(b"HTTP/1.1 400")
    assert answer.count(b"HTTP/1.1") == 1, "what follows is not taken for a request"


@pytest.mark.parametrize(
    "body",
    [b"5\r\nabcdeX\r\n0\r\n\r\n", b"-5\r\nabcde\r\n0\r\n\r\n", b"5 \nabcde\r\n0\r\n\r\n", b"fffffffffffffffff\r\nx"],
)
def test_malformed_chunk_is_400(server: HttpProcess, body: bytes) -> None:
    answer = server.send(b"POST / HTTP/1.1\r\nHost: localhost\r\n" + CHUNKED + b"\r\n" + body + HIDDEN)
    assert answer.startswith(b"HTTP/1.1 400")
    assert answer.count(b"HTTP/1.1") == 1


def test_request_without_a_host_is_400(server: HttpProcess) -> None:
    assert server.send(b"GET / HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 400")


def test_header_with_an_underscore_does_not_pass_for_another(server: HttpProcess) -> None:
    sent = b"X_Forwarded_For: 192.0.2.1\r\nX-Kept: yes\r\nConnection: close\r\n\r\n"
    answer = server.send(b"GET / HTTP/1.1\r\nHost: localhost\r\n" + sent)
    document = json.loads(answer.partition(b"\r\n\r\n")[2])
    assert "HTTP_X_FORWARDED_FOR" not in document
    assert document["HTTP_X_KEPT"] == "yes"


def test_trailer_does_not_pass_for_a_header(server: HttpProcess) -> None:
    sent = b"Connection: close\r\n\r\n0\r\nAuthorization: Basic eA==\r\n\r\n"
    answer = server.send(b"POST / HTTP/1.1\r\nHost: localhost\r\n" + CHUNKED + sent)
    assert b"HTTP_AUTHORIZATION" not in answer


def test_upgrade_is_answered_and_what_follows_is_not_read(server: HttpProcess) -> None:
    head = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"
    answer = server.send(head + HIDDEN)
    assert answer.startswith(b"HTTP/1.1 200")
    assert answer.count(b"HTTP/1.1") == 1


def test_body_that_breaks_off_does_not_pass_for_a_whole_one(server: HttpProcess) -> None:
    for framing in (b"Content-Length: 500000\r\n", CHUNKED):
        with server.connect() as client:
            client.sendall(b"POST / HTTP/1.1\r\nHost: localhost\r\n" + framing + b"\r\n5\r\nabcde\r\n")
            client.shutdown(1)
            assert client.recv(100) == b""
