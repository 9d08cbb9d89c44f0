"""Slow uploads, downloads and long requests of one project or host take nothing from those of others."""

import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Self

from minova.api.server import ApiService
from minova.db.catalogue import image_token_keys
from minova.image_tokens import sign
from tests.functional.api.conftest import Cloud, Json
from tests.security.http_process import MB, HttpProcess, read_all
from tests.waiting import wait_for

RATE = 1024
BODY = 1 << 30
# Seconds that a request of another project or host may take. It takes much less, on a machine without load.
SOON = 20


def request(
    project: str, path: str = "/", *, method: str = "POST", length: int | None = None, host: bool = False
) -> bytes:
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nProject: {project}\r\n"
    head += "Authorization: Host\r\n" if host else ""
    return (head + ("" if length is None else f"Content-Length: {length}\r\n") + "\r\n").encode()


class Trickle:
    """Connections that send, or read, RATE bytes per second each, until the end of the block."""

    def __init__(self) -> None:
        self.clients: list[socket.socket] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        for client in self.clients:
            client.close()

    def _run(self) -> None:
        while not self._stop.wait(1.0):
            for client in tuple(self.clients):
                try:
                    client.sendall(b"x" * RATE)
                except OSError:
                    continue


@contextmanager
def slow_uploads(
    server: HttpProcess, count: int, project: str, *, source: str = "127.0.0.3", host: bool = False
) -> Iterator[Trickle]:
    with Trickle() as trickle:
        for _ in range(count):
            client = server.connect(source)
            client.sendall(request(project, "/image" if host else "/", length=BODY, host=host))
            trickle.clients.append(client)
        yield trickle


def send_all(server: HttpProcess, head: bytes, body: bytes, source: str = "127.0.0.9") -> bytes:
    with server.connect(source) as client:
        client.settimeout(SOON)
        client.sendall(head + body)
        return read_all(client)


def test_slow_uploads_of_a_project_keep_no_other_project_waiting() -> None:
    with HttpProcess(transfers=4) as server, slow_uploads(server, 40, "a"):
        begun = time.monotonic()
        for _ in range(3):
            answer = send_all(server, request("b", length=MB), b"x" * MB)
            assert answer.startswith(b"HTTP/1.1 200"), answer
        assert time.monotonic() - begun < SOON


def test_slow_uploads_of_many_projects_give_way() -> None:
    """Sixteen projects hold every place that there is, with one slow upload each."""
    with HttpProcess(transfers=4) as server, ExitStack() as stack:
        slow = [stack.enter_context(slow_uploads(server, 1, f"a{number}")) for number in range(16)]
        clients = [client for trickle in slow for client in trickle.clients]
        answer = send_all(server, request("b", length=MB), b"x" * MB)
        assert answer.startswith(b"HTTP/1.1 200"), answer
        answers = [client.recv(4096) for client in select.select(clients, [], [], SOON)[0]]
        assert [answer[:12] for answer in answers] == [b"HTTP/1.1 503"]
        assert b"retry-after: 1" in answers[0]


def test_slow_downloads_keep_no_other_project_waiting() -> None:
    with HttpProcess(transfers=2) as server, ExitStack() as stack:
        for _ in range(20):
            client = stack.enter_context(server.connect("127.0.0.3"))
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.sendall(request("a", "/big", method="GET"))
        answer = send_all(server, request("b", length=MB), b"x" * MB)
        assert answer.startswith(b"HTTP/1.1 200"), answer


def test_uploads_of_users_keep_no_host_waiting() -> None:
    with HttpProcess(transfers=2, host_transfers=2) as server, ExitStack() as stack:
        for number in range(8):
            stack.enter_context(slow_uploads(server, 3, f"a{number}"))
        answer = send_all(server, request("", "/image", length=0, host=True), b"")
        assert answer.startswith(b"HTTP/1.1 200"), answer[:100]


def test_transfers_of_a_host_keep_no_other_host_waiting() -> None:
    with HttpProcess(host_transfers=2) as server, slow_uploads(server, 20, "", source="127.0.0.4", host=True):
        answer = send_all(server, request("", "/image", length=0, host=True), b"", "127.0.0.5")
        assert answer.startswith(b"HTTP/1.1 200"), answer[:100]


def test_requests_of_a_project_that_wait_keep_no_other_project_waiting(tmp_path: Path) -> None:
    """For example for the console output of a host that is down."""
    go = tmp_path / "go"
    with HttpProcess(changes=2) as server, ExitStack() as stack:
        clients = [stack.enter_context(server.connect("127.0.0.3")) for _ in range(20)]
        for client in clients:
            client.sendall(request("a", f"/wait?{go}", length=0))
        answer = send_all(server, request("b", length=1), b"x")
        assert answer.startswith(b"HTTP/1.1 200"), answer
        go.touch()
        assert all(read_all(client).startswith(b"HTTP/1.1 200") for client in clients), "each has its turn"


def test_fast_upload_of_a_project_is_never_given_up() -> None:
    with HttpProcess(transfers=1) as server, slow_uploads(server, 1, "a"), server.connect("127.0.0.9") as client:
        client.sendall(request("b", length=40 * MB))
        with slow_uploads(server, 1, "c"):
            for _ in range(40):
                client.sendall(b"x" * MB)
                time.sleep(0.2)  # a fast client, but not so fast that the slow ones end first
        assert read_all(client).startswith(b"HTTP/1.1 200")


# -- minova-api itself


def upload(port: int, image: Json, project: str) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", port), timeout=SOON)
    head = f"PUT /v2/images/{image['id']}/file HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    head += f"X-Auth-Token: {project}:{project}\r\nContent-Type: application/octet-stream\r\n"
    client.sendall((head + f"Content-Length: {MB}\r\n\r\n").encode())
    return client


def test_slow_uploads_of_a_project_keep_neither_users_nor_hosts_waiting(tmp_path: Path) -> None:
    """The sixteen slow uploads that stopped all transfers and builds."""
    cloud = Cloud(tmp_path, osapi_compute_listen_port=0)
    ready = cloud.make_image(data=bytes(1024))
    images = [cloud.make_image(f"slow{number}", data=None) for number in range(20)]
    other = cloud.make_image("other", data=None)
    api = ApiService(cloud.conf, cloud.app)
    api.start()
    try:
        with Trickle() as trickle:
            for image in images:
                trickle.clients.append(upload(api.port, image, "a"))
            wait_for("they hold all places", lambda: len(list(cloud.images.glob("*.part"))) == 16)
            with upload(api.port, other, "b") as client:
                client.sendall(bytes(MB))
                assert read_all(client).startswith(b"HTTP/1.1 204")
            keys = image_token_keys.ensure(cloud.db)
            token = sign(keys.accepted[-1], ready["id"], keys.now)
            with socket.create_connection(("127.0.0.1", api.port), timeout=SOON) as host:
                head = f"GET /v2/images/{ready['id']}/file HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                host.sendall((head + f"Authorization: Bearer {token}\r\n\r\n").encode())
                assert read_all(host).startswith(b"HTTP/1.1 200")
            assert len(list(cloud.images.glob("*.part"))) == 16, "none of them had to end for it"
    finally:
        api.stop()
        cloud.close()
