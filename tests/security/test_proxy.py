"""minova-api behind nginx, configured as docs/operators/proxy.md says."""

import socket
import ssl
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
import urllib3

from minova.api.access.throttle import FREE_OF_USER
from minova.api.server import ApiService
from tests.security.http_process import make_certificate, read_all
from tests.security.identities import login, with_users
from tests.servers.nginx import Nginx

# Clients of the proxy come from here, and minova-api trusts 127.0.0.1 alone.
CLIENT = "127.0.0.2"


class Site(NamedTuple):
    """`pool` trusts the certificate of nginx."""

    api: ApiService
    nginx: Nginx
    pool: urllib3.PoolManager

    def ask(self, method: str, path: str, user: str = "alice", **more: Any) -> urllib3.BaseHTTPResponse:
        headers = {**login(user, more.pop("password", "secret")), **more.pop("headers", {})}
        return self.pool.request(method, f"https://localhost:{self.nginx.port}{path}", headers=headers, **more)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("proxy")
    cloud = with_users(folder, osapi_compute_listen_port=0, trusted_proxies=["127.0.0.1"])
    api = ApiService(cloud.conf, cloud.app)
    api.start()
    certificate = make_certificate(folder)
    trusting = ssl.create_default_context(cafile=certificate / "cert.pem")
    with (
        Nginx(folder, api.port, certificate) as nginx,
        urllib3.PoolManager(ssl_context=trusting, retries=False, source_address=(CLIENT, 0)) as pool,
    ):
        yield Site(api, nginx, pool)
    api.stop()
    cloud.close()


def test_links_are_those_of_the_proxy_and_forged_headers_change_nothing(site: Site) -> None:
    own = f"https://localhost:{site.nginx.port}/v2.1/"
    assert site.ask("GET", "/v2.1").json()["version"]["links"][0]["href"] == own
    forged = {
        "X-Forwarded-Host": "evil.example.com",
        "X-Forwarded-Proto": "gopher",
        "Forwarded": "host=evil.example.com",
    }
    assert site.ask("GET", "/v2.1", headers=forged).json()["version"]["links"][0]["href"] == own
    direct = urllib3.request(
        "GET", f"http://127.0.0.1:{site.api.port}/", headers={"Forwarded": "host=evil.example.com"}
    )
    assert "evil" not in direct.data.decode()


def test_guesser_cannot_choose_the_address_under_which_failures_are_counted(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    statuses = [
        site.ask(
            "GET", "/v2.1/servers", "admin", password="wrong", headers={"X-Forwarded-For": f"192.0.2.{number}"}
        ).status
        for number in range(FREE_OF_USER + 1)
    ]
    assert statuses == [401] * FREE_OF_USER + [429]
    assert f"Login failed from {CLIENT}" in caplog.text
    assert "192.0.2." not in caplog.text


def test_images_pass_in_both_directions(site: Site) -> None:
    body = {"name": "i", "disk_format": "raw", "container_format": "bare"}
    image = site.ask("POST", "/v2/images", json=body).json()
    data = b"x" * 3_000_000
    octets = {"Content-Type": "application/octet-stream"}
    path = f"/v2/images/{image['id']}/file"
    for more in ({"chunked": True}, {}):
        refused = site.ask("PUT", path, "bob", body=iter([data]) if more else data, headers=octets, **more)
        assert refused.status == 404
    assert site.ask("PUT", path, body=iter([data]), headers=octets, chunked=True).status == 204
    assert site.ask("GET", path).data == data


@pytest.mark.parametrize(
    "lengths",
    [
        "Content-Length: 5\r\nContent-Length: 0\r\n",
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Content-Length: -1\r\n",
        "Transfer-Encoding: chunked, identity\r\n",
    ],
)
def test_request_with_two_lengths_reaches_nothing(site: Site, lengths: str) -> None:
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    plain = socket.create_connection(("127.0.0.1", site.nginx.port), timeout=30)
    with trusting.wrap_socket(plain) as client:
        hidden = "0\r\n\r\nGET /hidden HTTP/1.1\r\nHost: localhost\r\n\r\n"
        client.sendall(f"POST /v2.1/servers HTTP/1.1\r\nHost: localhost\r\n{lengths}\r\n{hidden}".encode())
        answer = read_all(client)
    assert answer[:12] in (b"HTTP/1.1 400", b"HTTP/1.1 501")
    assert answer.count(b"HTTP/1.1") == 1
