"""Clients that wait, trickle or never end take nothing from others: no thread, no memory, and their connections for a while only."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.security.http_process import MB, HttpProcess, make_certificate, read_all
from tests.waiting import wait_for

HEAD = b"GET / HTTP/1.1\r\nHost: localhost\r\n"
POST = b"POST %s HTTP/1.1\r\nHost: localhost\r\n"
# Far below what the attacks send, and above what a garbage collector leaves.
GROWTH = 40


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificate(tmp_path_factory.mktemp("certificate"))


@pytest.fixture(scope="module")
def server() -> Iterator[HttpProcess]:
    """Two threads for requests and one for transfers: a client that kept one would be noticed. Times are short."""
    with HttpProcess(threads=2, transfers=1, first_byte=2, head=2, body=2, stalled=2, keep_alive=2, linger=1) as server:
        yield server


def ended(client: socket.socket) -> bytes:
    """What a client was answered before the server closed the connection."""
    with client:
        return read_all(client)


def test_idle_trickling_and_half_open_tls_connections_keep_no_one_waiting(certificate: Path) -> None:
    """The full numbers, and the time of a listing, are measured by tests/benchmarks/slow_clients."""
    with HttpProcess(certificate=certificate, threads=2) as server:
        before = server.memory()
        held = [server.connect("127.0.0.2", tls=False) for _ in range(50)]
        for number in range(200):
            held.append(client := server.connect(f"127.0.0.{3 + number % 2}"))
            if number % 4 == 0:
                client.sendall(HEAD)
        for _ in range(5):
            for client in held[50::4]:
                client.sendall(b"x")
            assert server.get() < 5
        assert server.memory() - before < GROWTH
        for client in held:
            client.close()


def test_connection_without_a_byte_is_closed(server: HttpProcess) -> None:
    assert ended(server.connect()) == b""


def test_head_that_does_not_end_is_answered_408(server: HttpProcess) -> None:
    client = server.connect()
    client.sendall(HEAD)
    assert ended(client).startswith(b"HTTP/1.1 408")


@pytest.mark.parametrize("framing", [b"Content-Length: 50\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n5\r\nab"])
def test_bodies_that_do_not_end_take_no_thread_from_requests(server: HttpProcess, framing: bytes) -> None:
    clients = [server.connect() for _ in range(8)]
    for client in clients:
        client.sendall(POST % b"/" + framing)
    assert server.get() < 5
    for client in clients:
        assert ended(client)[:12] in (b"HTTP/1.1 408", b""), "ended by the time limit"


def test_answer_of_which_nothing_is_taken_is_given_up(server: HttpProcess) -> None:
    client = server.connect()
    client.sendall(b"GET /big HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert server.get() < 5
    wait_for("the connection is given up", lambda: client.getsockname()[1] not in server.clients())
    client.close()


def test_next_request_may_be_waited_for_but_not_without_end(server: HttpProcess) -> None:
    client = server.connect()
    for _ in range(2):
        client.sendall(HEAD + b"\r\n")
        answer = b""
        while not answer.endswith(b"}"):
            answer += client.recv(65536)
        assert answer.startswith(b"HTTP/1.1 200")
    assert ended(client) == b""


# -- memory


def flood(server: HttpProcess, head: bytes, megabytes: int = 60) -> tuple[int, int]:
    """How many MB the server took before it closed, and by how many its memory grew at most."""
    before = most = server.memory()
    with server.connect() as client:
        client.sendall(head)
        for sent in range(megabytes):
            try:
                client.sendall(b"x" * MB)
            except ConnectionError:
                return sent, most - before
            most = max(most, server.memory())
    return megabytes, most - before


def test_long_header_line_is_431_before_it_is_read(server: HttpProcess) -> None:
    sent, growth = flood(server, HEAD + b"X-Long: ")
    assert sent < 30
    assert growth < GROWTH
    assert server.send(HEAD + b"X-Long: " + b"x" * 70_000 + b"\r\n\r\n").startswith(b"HTTP/1.1 431")
    assert server.send(HEAD + b"X: y\r\n" * 20_000 + b"\r\n").startswith(b"HTTP/1.1 431")
    assert server.send(b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n").startswith(b"HTTP/1.1 431")


@pytest.mark.parametrize(
    "framing", [b"Content-Length: 9999999999\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n12c00000\r\n"]
)
def test_body_after_a_refusal_is_not_drained(server: HttpProcess, framing: bytes) -> None:
    sent, growth = flood(server, POST % b"/401" + framing)
    assert sent < 30
    assert growth < GROWTH


@pytest.mark.parametrize(
    "framing", [b"Content-Length: 9999999999\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n12c00000\r\n"]
)
def test_one_huge_chunk_is_read_in_parts(server: HttpProcess, framing: bytes) -> None:
    sent, growth = flood(server, POST % b"/" + framing)
    assert sent == 60
    assert growth < GROWTH


@pytest.mark.parametrize(
    "line", [b"5;" + b"x" * 100_000, b"0\r\n" + b"X: y\r\n" * 20_000, b"0\r\nX: " + b"x" * 100_000]
)
def test_chunk_extensions_and_trailers_are_bounded(server: HttpProcess, line: bytes) -> None:
    answer = server.send(POST % b"/" + b"Transfer-Encoding: chunked\r\n\r\n" + line + b"\r\n")
    assert answer[:12] in (b"HTTP/1.1 400", b"HTTP/1.1 431")


def test_small_chunks_are_served(server: HttpProcess) -> None:
    body = b"1\r\nx\r\n" * 30_000 + b"0\r\n\r\n"
    answer = server.send(POST % b"/" + b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n" + body)
    assert b'"size": 30000' in answer


def test_requests_that_wait_for_no_answer_are_bounded(server: HttpProcess) -> None:
    assert server.send((HEAD + b"\r\n") * 5 + HEAD + b"Connection: close\r\n\r\n").count(b"HTTP/1.1 200") == 6
    assert server.send((HEAD + b"\r\n") * 5000).count(b"HTTP/1.1 200") < 100


# -- connections


def test_connections_of_one_address_are_bounded_but_not_those_of_a_proxy() -> None:
    with HttpProcess(connections_per_address=5, trusted_proxies=["127.0.0.2"]) as server:
        first = [server.connect("127.0.0.3") for _ in range(5)]
        for client in first:
            client.sendall(POST % b"/" + b"Content-Length: 3\r\nExpect: 100-continue\r\n\r\n")
            assert client.recv(100).startswith(b"HTTP/1.1 100"), "its head is read"
        assert ended(server.connect("127.0.0.3")) == b""
        proxy = [server.connect("127.0.0.2") for _ in range(20)]
        proxy[-1].sendall(HEAD + b"\r\n")
        assert proxy[-1].recv(100).startswith(b"HTTP/1.1 200")
        assert server.get("127.0.0.4") < 5
        for client in first + proxy:
            client.close()


def test_idle_connections_of_one_address_leave_room_for_its_other_clients() -> None:
    """All clients behind one NAT have one address: one of them could take all of its connections."""
    with HttpProcess(connections_per_address=8) as server:
        busy = server.connect()
        busy.sendall(POST % b"/" + b"Content-Length: 3\r\nExpect: 100-continue\r\n\r\n")
        assert busy.recv(100).startswith(b"HTTP/1.1 100"), "its head is read"
        idle = [server.connect() for _ in range(8)]
        assert server.get("127.0.0.1") < 5
        assert ended(idle[0]) == b"", "the first that waited"
        busy.sendall(b"abc")
        assert busy.recv(100).startswith(b"HTTP/1.1 200"), "a request is never given up"
        for client in [busy, *idle]:
            client.close()


def test_connection_that_waited_longest_makes_room() -> None:
    with HttpProcess(connections=20, connections_per_address=0) as server:
        busy = server.connect()
        busy.sendall(POST % b"/" + b"Content-Length: 3\r\nExpect: 100-continue\r\n\r\n")
        assert busy.recv(100).startswith(b"HTTP/1.1 100"), "its head is read"
        clients = [server.connect() for _ in range(40)]
        assert ended(clients[0]) == b"", "the first that waited"
        busy.sendall(b"abc")
        assert busy.recv(100).startswith(b"HTTP/1.1 200"), "a request is never given up"
        assert server.get() < 5
        for client in [busy, *clients]:
            client.close()
