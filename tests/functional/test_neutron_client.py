"""What minova does with a Neutron that fails, refuses or is away. tests/integration/neutron has a real one."""

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any

import pytest
from keystoneauth1 import loading

from minova import conf as configuration
from minova import errors
from minova.neutron_client import GROUP, NeutronClient
from tests.servers.private_server import free_ports


class ScriptedNeutron:
    """`answers`: status and document of the next ones, then the last one again. `requests`: method, path and token of each."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, Any]] = [(200, {"ports": []})]
        self.requests: list[tuple[str, str, str | None]] = []
        neutron = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"] or 0))
                neutron.requests.append((self.command, self.path, self.headers.get("X-Auth-Token")))
                status, document = neutron.answers.pop(0) if len(neutron.answers) > 1 else neutron.answers[0]
                data = (
                    document
                    if isinstance(document, bytes)
                    else b""
                    if document is None
                    else json.dumps(document).encode()
                )
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_POST = do_PUT = do_DELETE = do_GET  # noqa: N815 - the names are the library's

            def log_message(self, *_: Any) -> None:
                """Silent."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})


@pytest.fixture
def neutron() -> Iterator[ScriptedNeutron]:
    scripted = ScriptedNeutron()
    scripted.thread.start()
    yield scripted
    scripted.server.shutdown()
    scripted.server.server_close()
    scripted.thread.join()


def client(url: str, auth_type: str | None = "none", **more: Any) -> NeutronClient:
    conf = configuration.load([], "test", files=[])
    loading.register_auth_conf_options(conf, GROUP)
    conf.set_override("auth_type", auth_type, group=GROUP)
    conf.set_override("endpoint_override", url, group=GROUP)
    return NeutronClient(conf, **{"sleep": lambda seconds: None, **more})


def refusal(kind: str, message: str = "no") -> dict[str, Any]:
    return {"NeutronError": {"type": kind, "message": message, "detail": ""}}


@pytest.mark.parametrize(
    ("status", "kind", "expected"),
    [
        (404, "PortNotFound", errors.PortNotFound),
        (409, "IpAddressGenerationFailure", errors.IpAddressGenerationFailure),
        (409, "IpAddressAlreadyAllocated", errors.IpAddressAlreadyAllocated),
        (409, "OverQuota", errors.BadRequest),
        (400, "HTTPBadRequest", errors.BadRequest),
        (403, "PolicyNotAuthorized", errors.BadRequest),
        (412, "RevisionNumberConstraintFailed", errors.RevisionNumberConstraintFailed),
        (401, "HTTPUnauthorized", errors.ServiceUnavailable),
    ],
)
def test_refusals_are_errors_of_their_kind(
    neutron: ScriptedNeutron, status: int, kind: str, expected: type[errors.MinovaError]
) -> None:
    neutron.answers = [(status, refusal(kind))]
    with pytest.raises(expected):
        client(neutron.url).update_port("p", {})


def test_what_fails_is_sent_again(neutron: ScriptedNeutron) -> None:
    neutron.answers = [(503, None), (500, refusal("HTTPInternalServerError")), (200, {"ports": [{"id": "p"}]})]
    assert client(neutron.url).ports(device_id="d") == [{"id": "p"}]
    assert [path for _, path, _ in neutron.requests] == ["/v2.0/ports?device_id=d"] * 3


def test_a_new_port_is_asked_for_once(neutron: ScriptedNeutron) -> None:
    """The first request may have made one."""
    neutron.answers = [(503, None)]
    with pytest.raises(errors.ServiceUnavailable):
        client(neutron.url).create_port({})
    assert len(neutron.requests) == 1


def test_a_neutron_that_is_away(neutron: ScriptedNeutron) -> None:
    (port,) = free_ports(1)
    with pytest.raises(errors.ServiceUnavailable, match="does not answer"):
        client(f"http://127.0.0.1:{port}").ports()


def test_an_outage_is_known_until_the_next_answer(neutron: ScriptedNeutron) -> None:
    now = 0.0
    (port,) = free_ports(1)
    new_client = client(f"http://127.0.0.1:{port}", clock=lambda: now)
    with pytest.raises(errors.ServiceUnavailable):
        new_client.within(5.0).ports()
    assert new_client.outage.failed_within(10.0)
    now = 10.0
    assert not new_client.outage.failed_within(10.0)
    new_client._override = neutron.url
    neutron.answers = [(404, refusal("PortNotFound"))]
    new_client.delete_port("p")
    assert not new_client.outage.failed_within(1e9)


def test_a_port_that_has_gone_is_deleted_already(neutron: ScriptedNeutron) -> None:
    neutron.answers = [(404, refusal("PortNotFound"))]
    client(f"{neutron.url}/v2.0/").delete_port("p")
    assert neutron.requests == [("DELETE", "/v2.0/ports/p", "notused")]  # keystoneauth's token of auth_type none


def test_a_user_is_asked_for_with_the_token(neutron: ScriptedNeutron) -> None:
    neutron.answers = [(200, {"networks": []})]
    assert client(neutron.url).network("n", "alices") is None
    assert neutron.requests == [("GET", "/v2.0/networks?id=n", "alices")]


def test_a_section_without_a_user_is_said_at_the_start() -> None:
    with pytest.raises(errors.InvalidConfiguration, match="auth_type and a user are needed"):
        client("http://127.0.0.1:9", None)


def test_a_port_is_looked_for_by_its_id(neutron: ScriptedNeutron) -> None:
    """What is no id is in no path: people name ports."""
    neutron.answers = [(200, {"port": {"id": "f00"}}), (404, refusal("PortNotFound")), (404, None)]
    neutron_client = client(neutron.url)
    assert neutron_client.port("f00") == {"id": "f00"}
    assert neutron_client.port("f01") is None
    for wrong in ("..", "../networks/f00", "f00?x=y", "", "f00/x"):
        assert neutron_client.port(wrong) is None
    assert [path for _, path, _ in neutron.requests] == ["/v2.0/ports/f00", "/v2.0/ports/f01"]
    with pytest.raises(errors.NotFound) as raised:  # of a proxy: nothing is said of the port
        neutron_client.port("f02")
    assert not isinstance(raised.value, errors.PortNotFound)


def test_all_that_a_request_asks_has_an_end(neutron: ScriptedNeutron) -> None:
    neutron.answers = [(503, None)]
    now = SimpleNamespace(at=0.0)

    def sleep(seconds: float) -> None:
        now.at += 4

    neutron_client = client(neutron.url, sleep=sleep, clock=lambda: now.at).within(10)
    for _ in range(2):
        with pytest.raises(errors.ServiceUnavailable):
            neutron_client.ports()
    assert len(neutron.requests) == 3, "after 0, 4 and 8 s; none after 12 s"


def test_an_answer_that_is_no_json(neutron: ScriptedNeutron) -> None:
    """Of a proxy in front of it."""
    neutron.answers = [(200, b"<html>"), (200, {"ports": []})]
    assert client(neutron.url).ports() == []


def test_a_keystone_that_hangs_is_given_up() -> None:
    """No answer to the request for a token ever comes."""
    conf = configuration.load([], "test", files=[])
    with socket.create_server(("127.0.0.1", 0)) as silent:
        loading.register_auth_conf_options(conf, GROUP)
        conf.set_override("auth_type", "v3password", group=GROUP)
        conf.register_opts(loading.get_auth_plugin_conf_options("v3password"), group=GROUP)
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        values = {"auth_url": url, "username": "u", "password": "p", "user_domain_name": "d", "project_name": "p"}
        for name, value in {**values, "project_domain_name": "d", "endpoint_override": url, "http_retries": 0}.items():
            conf.set_override(name, value, group=GROUP)
        with pytest.raises(errors.ServiceUnavailable):
            NeutronClient(conf, most=0.2).ports()
