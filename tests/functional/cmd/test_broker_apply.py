"""`minova-manage broker --apply` checks RabbitMQ's certificate against the authority that the services trust."""

import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from minova.cmd import manage
from tests.servers.authority import Authority


class Management(HTTPServer):
    """RabbitMQ's management API, as far as PUT goes, over TLS."""

    def __init__(self, folder: Path, authority: Authority) -> None:
        super().__init__(("localhost", 0), _Put)
        issued = authority.issue("broker", folder)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(issued.certificate, issued.key)
        self.socket = context.wrap_socket(self.socket, server_side=True)
        self.paths: list[str] = []

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that does not trust the certificate breaks the connection off."""


class _Put(BaseHTTPRequestHandler):
    server: Management

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.paths.append(self.path)
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "ca")


@pytest.fixture
def management(tmp_path: Path, authority: Authority) -> Iterator[Management]:
    with Management(tmp_path, authority) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def applied(folder: Path, management: Management, conf: str, *words: str) -> int:
    file = folder / "minova.conf"
    file.write_text(f"[DEFAULT]\ntransport_url = rabbit://u:p@broker:5671/\n[oslo_messaging_rabbit]\n{conf}")
    url = f"https://admin:SECRET@localhost:{management.server_port}"
    return manage.run(["--config-file", str(file), "broker", *words, "--apply", url])


@pytest.mark.parametrize("words", [("permissions", "hv1"), ("policies",)])
def test_bug_the_brokers_authority_was_not_trusted(
    tmp_path: Path, management: Management, authority: Authority, words: tuple[str, ...]
) -> None:
    """The page's command failed with the certificate that the page tells to make."""
    assert applied(tmp_path, management, f"ssl = true\nssl_ca_file = {authority.certificate}\n", *words) == 0
    assert management.paths


def test_unknown_authority_is_refused(
    tmp_path: Path, management: Management, capsys: pytest.CaptureFixture[str]
) -> None:
    assert applied(tmp_path, management, "ssl = true\n", "permissions", "hv1") != 0
    assert "certificate verify failed" in capsys.readouterr().err
    assert management.paths == []
