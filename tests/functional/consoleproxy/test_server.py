"""minova-consoleproxy between real WebSockets and a TCP port that stands for a guest's console."""

import http.client
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import websocket

from minova import conf as configuration
from minova import errors
from minova.api.compute.console_page import ANSWERED, ConsolePage
from minova.consoleproxy import server as proxy_server
from minova.consoleproxy.handler import MAX_FRAME, Handler
from minova.consoleproxy.server import ConsoleProxy
from minova.context import RequestContext
from minova.objects.guests.console import ConsoleAddress, ConsoleGrant, ConsoleType
from tests.servers.authority import Authority
from tests.waiting import wait_for


class Guest:
    """Its console answers each line in capitals."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self.connected = 0
        self.ended = 0
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        self.connected += 1
        with connection:
            connection.sendall(b"login: ")
            try:
                while data := connection.recv(4096):
                    connection.sendall(data.upper())
            except OSError:
                pass
        self.ended += 1

    def close(self) -> None:
        self._listening.close()


class Conductor:
    """Tokens as the real one: each opens once."""

    def __init__(self) -> None:
        self.tokens = {
            name: ConsoleGrant(instance_uuid="u", console_type=ConsoleType.SERIAL, host="h1", addresses=("192.0.2.1",))
            for name in ("one", "two", "three")
        }

    def use_console_token(self, ctx: RequestContext, token: str) -> ConsoleGrant:
        try:
            return self.tokens.pop(token)
        except KeyError:
            raise errors.Forbidden("The token of the console is not valid") from None


class HostsOfConsoles:
    def __init__(self, port: int) -> None:
        self.port = port
        self.address = "127.0.0.1"
        self.error: errors.MinovaError | None = None

    def __call__(self, host: str) -> Any:
        return self

    def get_console(self, ctx: RequestContext, instance_uuid: str, console_type: str) -> ConsoleAddress:
        if self.error is not None:
            raise self.error
        return ConsoleAddress(host=self.address, port=self.port)


class Site:
    def __init__(self, folder: Path, *, host: str = "h1", **options: Any) -> None:
        self.guest = Guest()
        self.conductor = Conductor()
        self.computes = HostsOfConsoles(self.guest.port)
        web = folder / "web"
        (web / "core").mkdir(parents=True)
        (web / "vnc_lite.html").write_text("<title>noVNC</title>")
        (folder / "secret").write_text("secret")
        conf = configuration.load([], "test", files=[])
        conf.set_override("host", host)
        for name, value in {"port": 0, "web": str(web), **options}.items():
            conf.set_override(name, value, group="consoleproxy")
        self.proxy = ConsoleProxy(conf, self.conductor, self.computes)  # type: ignore[arg-type]
        self.proxy.start()

    def close(self) -> None:
        self.proxy.stop()
        self.guest.close()

    def open(self, token: str, **options: Any) -> websocket.WebSocket:
        url = f"ws://127.0.0.1:{self.proxy.port}/?token={token}"
        return websocket.create_connection(url, timeout=30, suppress_origin="origin" not in options, **options)

    def connect(self, token: str) -> Any:
        """As a connection does before its WebSocket is open."""
        assert self.proxy._server is not None
        return self.proxy._server.connect(token, "client")

    def status(self, token: str, **options: Any) -> int:
        with pytest.raises(websocket.WebSocketBadStatusException) as raised:
            self.open(token, **options)
        return int(raised.value.status_code)

    def get(self, path: str) -> tuple[int, bytes]:
        client = http.client.HTTPConnection("127.0.0.1", self.proxy.port, timeout=30)
        client.putrequest("GET", path, skip_accept_encoding=True)
        client.endheaders()
        answer = client.getresponse()
        body = answer.read()
        client.close()
        return answer.status, body


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path)
    yield site
    site.close()


def test_token_connects_with_the_console(site: Site) -> None:
    console = site.open("one")
    assert console.recv() == b"login: "
    console.send_binary(b"root\n")
    assert console.recv() == b"ROOT\n"
    console.close()
    wait_for("the end of the guest's connection", lambda: site.guest.ended == 1)


def test_token_opens_once(site: Site) -> None:
    site.open("one").close()
    assert site.status("one") == 403
    assert site.status("guess") == 403
    assert site.status("") == 400
    assert site.guest.connected == 1


def test_bug_refusal_had_a_page_that_looked_like_data(site: Site) -> None:
    headers = {
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Key": "x3JJHMbDL1EzLkh9GBhXDw==",
        "Sec-WebSocket-Version": "13",
    }
    client = http.client.HTTPConnection("127.0.0.1", site.proxy.port, timeout=30)
    client.request("GET", "/?token=guess", headers=headers)
    answer = client.getresponse()
    assert (answer.status, answer.reason) == (403, "The token of the console is not valid")
    assert answer.read() == b""
    client.close()


def test_several_consoles_at_once_are_not_mixed_up(site: Site, tmp_path: Path) -> None:
    consoles = [site.open(name) for name in ("one", "two", "three")]
    for number, console in enumerate(consoles):
        assert console.recv() == b"login: "
        console.send_binary(f"user{number}".encode())
    assert [console.recv() for console in consoles] == [b"USER0", b"USER1", b"USER2"]
    for console in consoles:
        console.close()


@pytest.mark.parametrize(
    ("origin", "opens"),
    [
        ("http://127.0.0.1:{port}", True),
        ("https://dashboard.example.com", True),
        ("http://evil.example.com", False),
        ("null", False),
        ("http://127.0.0.1.evil.example.com", False),
    ],
)
def test_page_of_another_origin_opens_nothing(tmp_path: Path, origin: str, opens: bool) -> None:
    site = Site(tmp_path, allowed_origins="dashboard.example.com")
    try:
        options = {"origin": origin.format(port=site.proxy.port)}
        if opens:
            site.open("one", **options).close()
        else:
            assert site.status("one", **options) == 403
            assert "one" in site.conductor.tokens, "the token of the user is not used up"
    finally:
        site.close()


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.NotFound("No domain"), 404),
        (errors.Conflict("Instance u does not run."), 409),
        (errors.ServiceUnavailable("The host does not answer"), 503),
    ],
)
def test_console_that_is_not_there_is_a_status_with_the_reason(
    site: Site, error: errors.MinovaError, status: int
) -> None:
    site.computes.error = error
    assert site.status("one") == status


def test_host_that_refuses_the_connection_is_503(site: Site) -> None:
    site.guest.close()
    with socket.create_server(("127.0.0.1", 0)) as unused:
        site.computes.port = unused.getsockname()[1]
    assert site.status("one") == 503


# What a stolen host could answer instead of its address: another host, the proxy's own machine, and other spellings of them.
ELSEWHERE = ["10.0.0.5", "::ffff:10.0.0.5", "0.0.0.0", "::", "127.1", "localhost", "db.example.com", "224.0.0.1", ""]


@pytest.mark.parametrize("address", ELSEWHERE)
def test_host_leads_to_its_recorded_addresses_alone(
    site: Site, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    tried: list[Any] = []
    monkeypatch.setattr(socket, "create_connection", lambda *tuples, **_: tried.append(tuples))
    site.computes.address = address
    with pytest.raises(errors.ServiceUnavailable):
        site.connect("one")
    assert tried == []
    assert "minova-manage host console-addresses h1" in caplog.text


@pytest.mark.parametrize("address", ["192.0.2.1", "::ffff:192.0.2.1"])
def test_recorded_address_is_used(site: Site, monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    tried: list[Any] = []
    monkeypatch.setattr(socket, "create_connection", lambda target, **_: tried.append(target))
    site.computes.address = address
    site.connect("one")
    assert tried == [("192.0.2.1", site.guest.port)]


def test_other_host_leads_not_to_the_proxy_itself(tmp_path: Path) -> None:
    site = Site(tmp_path, host="controller")
    try:
        assert site.status("one") == 503
        assert site.guest.connected == 0
    finally:
        site.close()


def test_pages_are_those_of_the_folder_alone(site: Site) -> None:
    assert site.get("/vnc_lite.html?path=%3Ftoken%3Done") == (200, b"<title>noVNC</title>")
    assert site.get("/core/")[0] == 404, "no list of a folder"
    for path in ("/../secret", "/%2e%2e/secret", "/core/../../secret", "//etc/passwd"):
        status, body = site.get(path)
        assert (status, b"secret" in body) == (404, False), path


def test_tokens_are_in_no_log(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("DEBUG"):
        site.open("one").close()
        site.status("two-guess")
        site.get("/vnc_lite.html?path=%3Ftoken%3Dthree")
    text = "\n".join(
        record.getMessage() for record in caplog.records if record.name.startswith(("minova", "websockify"))
    )
    assert "serial console of instance u" in text
    assert not [token for token in ("=one", "two-guess", "three") if token in text]


def test_more_than_the_most_connections_are_closed(tmp_path: Path) -> None:
    site = Site(tmp_path, max_connections=2)
    try:
        first, second = site.open("one"), site.open("two")
        with pytest.raises((OSError, websocket.WebSocketException)):
            site.open("three")
        first.close()
        wait_for("a free place", lambda: opens(site, "three"))
        second.close()
    finally:
        site.close()


def test_bug_console_that_was_just_opened_lost_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its client had the answer, and its thread had not run since."""
    later, run = threading.Event(), Handler.new_websocket_client
    monkeypatch.setattr(Handler, "new_websocket_client", lambda self: run(self) if later.wait(60) else None)
    site = Site(tmp_path, max_connections=2)
    try:
        consoles = [site.open("one"), site.open("two")]
        with pytest.raises((OSError, websocket.WebSocketException)):
            site.open("three").close()
        later.set()
        for console in consoles:
            assert console.recv() == b"login: "
            console.close()
    finally:
        later.set()
        site.close()


def test_one_address_leaves_places_for_others(tmp_path: Path) -> None:
    site = Site(tmp_path, max_connections=4, max_connections_per_address=2)
    try:
        here = [site.open("one"), site.open("two")]
        with pytest.raises((OSError, websocket.WebSocketException)):
            site.open("three")
        with socket.create_connection(("127.0.0.1", site.proxy.port), source_address=("127.0.0.3", 0)) as elsewhere:
            elsewhere.sendall(b"GET /vnc_lite.html HTTP/1.0\r\n\r\n")
            elsewhere.settimeout(30)
            assert b"200" in elsewhere.recv(4096)
        here[0].close()
        wait_for("a free place", lambda: opens(site, "three"))
        here[1].close()
    finally:
        site.close()


def test_idle_connections_of_an_address_leave_room_for_its_other_clients(tmp_path: Path) -> None:
    """All clients behind one NAT have one address: one of them could take all of its connections."""
    site = Site(tmp_path, max_connections_per_address=3)
    address = ("127.0.0.1", site.proxy.port)
    try:
        console = site.open("one")
        with socket.create_connection(address) as first, socket.create_connection(address) as second:
            first.settimeout(30)
            wait_for("an answer", lambda: answers(site))
            assert first.recv(1) == b"", "the first that waited"
            second.setblocking(False)
            with pytest.raises(BlockingIOError):
                second.recv(1)
            assert console.recv() == b"login: "
            console.send_binary(b"still")
            assert console.recv() == b"STILL"
            console.close()
    finally:
        site.close()


def answers(site: Site) -> bool:
    try:
        return site.get("/vnc_lite.html")[0] == 200
    except OSError:
        return False


@pytest.mark.parametrize("tls", [False, True])
def test_byte_now_and_then_holds_no_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tls: bool) -> None:
    """Each wait is short, so that no time-out of a single read ends it."""
    monkeypatch.setattr(proxy_server, "OPEN_WITHIN", 1.0)
    options = {}
    if tls:
        issued = Authority(tmp_path / "ca").issue("proxy", tmp_path, "IP:127.0.0.1")
        options = {"ssl_cert_file": str(issued.certificate), "ssl_key_file": str(issued.key)}
    site = Site(tmp_path, **options)
    # A request without end; with TLS a record of the handshake without end.
    head, more = (b"\x16\x03\x01\x3f\xff\x01", b"\0") if tls else (b"GET / HTTP/1.1\r\nA: ", b"a")
    try:
        with socket.create_connection(("127.0.0.1", site.proxy.port)) as trickling:
            trickling.sendall(head)
            wait_for("the end of the connection", lambda: ended(trickling, more), 60)
    finally:
        site.close()


def test_open_console_lasts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy_server, "OPEN_WITHIN", 0.5)
    site = Site(tmp_path)
    try:
        console = site.open("one")
        assert console.recv() == b"login: "
        assert site.proxy._server is not None
        wait_for("a connection that is ended for its age", lambda: ended_by_age(site))
        console.send_binary(b"still")
        assert console.recv() == b"STILL"
        console.close()
    finally:
        site.close()


def ended_by_age(site: Site) -> bool:
    """Of a connection that began after the console's."""
    with socket.create_connection(("127.0.0.1", site.proxy.port)) as silent:
        silent.settimeout(30)
        return silent.recv(1) == b""


def ended(connection: socket.socket, more: bytes) -> bool:
    connection.settimeout(0.05)
    try:
        connection.sendall(more)
        return connection.recv(4096) == b""
    except TimeoutError:
        return False
    except OSError:
        return True


def opens(site: Site, token: str) -> bool:
    try:
        site.open(token).close()
    except (OSError, websocket.WebSocketException):
        return False
    return True


def test_message_without_end_closes_its_console_alone(site: Site) -> None:
    """websockify keeps a message until it is whole, and this one says that it has a terabyte."""
    other, console = site.open("two"), site.open("one")
    wire = console.sock
    assert wire is not None
    sent = 0
    try:
        wire.sendall(b"\x82\xff" + (2**40).to_bytes(8, "big") + b"\0\0\0\0")
        while sent < 64 * MAX_FRAME:
            wire.sendall(bytes(65536))
            sent += 65536
    except OSError:
        pass  # closed by the proxy
    assert sent < 64 * MAX_FRAME
    wire.close()
    assert other.recv() == b"login: "
    other.send_binary(b"ok")
    assert other.recv() == b"OK"
    other.close()


def test_stop_ends_consoles(site: Site) -> None:
    console = site.open("one")
    assert console.recv() == b"login: "
    site.proxy.stop()
    wait_for("the end of the guest's connection", lambda: site.guest.ended == 1)
    console.close()


def test_slow_handshake_keeps_no_one_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy_server, "PATIENCE", 1.0)
    authority = Authority(tmp_path / "ca")
    certificate = authority.issue("proxy", tmp_path, "IP:127.0.0.1")
    site = Site(tmp_path, ssl_cert_file=str(certificate.certificate), ssl_key_file=str(certificate.key))
    try:
        silent = [socket.create_connection(("127.0.0.1", site.proxy.port)) for _ in range(3)]
        url = f"wss://127.0.0.1:{site.proxy.port}/?token=one"
        trust = {"ca_certs": str(authority.certificate), "cert_reqs": ssl.CERT_REQUIRED}
        console = websocket.create_connection(url, timeout=30, sslopt=trust, suppress_origin=True)
        assert console.recv() == b"login: "
        console.close()
        for connection in silent:
            connection.settimeout(30)
            begun = time.monotonic()
            assert connection.recv(1) == b"", "closed after the patience"
            assert time.monotonic() - begun < 30
            connection.close()
    finally:
        site.close()


@pytest.mark.parametrize("has_page", [True, False])
def test_address_of_a_proxy_without_a_page_is_refused_with_the_reason(tmp_path: Path, has_page: bool) -> None:
    site = Site(tmp_path, **({} if has_page else {"web": str(tmp_path / "absent")}))
    url = f"http://127.0.0.1:{site.proxy.port}/vnc_lite.html"
    now = [0.0]
    page = ConsolePage(clock=lambda: now[0])
    try:
        if has_page:
            page.require(url)
        else:
            with pytest.raises(
                errors.ConsoleTypeUnavailable, match=f"at {url} has no page .*install the package novnc"
            ):
                page.require(url)
    finally:
        site.close()
    if has_page:
        page.require(url)  # remembered
    else:
        with pytest.raises(errors.ConsoleTypeUnavailable):
            page.require(url)
    now[0] = ANSWERED
    page.require(url)  # a proxy that does not answer


def test_bug_a_proxy_without_a_page_says_so(tmp_path: Path) -> None:
    site = Site(tmp_path, web=str(tmp_path / "absent"))
    try:
        status, body = site.get("/vnc.html?path=%3Ftoken%3Done")
        assert status == 404
        assert b"install the package novnc" in body
        console = site.open("one")
        assert console.recv() == b"login: "
        console.close()
    finally:
        site.close()
