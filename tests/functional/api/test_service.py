"""minova-api on real sockets: start, stop, TLS, and clients that hang up."""

import json
import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import urllib3

from minova import errors
from minova.api.server import ApiService
from tests.functional.api.conftest import Cloud
from tests.waiting import wait_for

LOOPBACK = "127.0.0.1"


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., tuple[Cloud, ApiService]]]:
    running: list[tuple[Cloud, ApiService]] = []

    def start(**options: Any) -> tuple[Cloud, ApiService]:
        cloud = Cloud(tmp_path, osapi_compute_listen_port=0, **options)
        service = ApiService(cloud.conf, cloud.app)
        running.append((cloud, service))
        service.start()
        return cloud, service

    yield start
    for cloud, service in running:
        service.stop()
        cloud.close()


Serve = Callable[..., tuple[Cloud, ApiService]]


def http(service: ApiService, method: str, path: str, **more: Any) -> urllib3.BaseHTTPResponse:
    with urllib3.PoolManager(retries=False, timeout=60) as pool:
        return pool.request(method, f"http://{LOOPBACK}:{service.port}{path}", **more)


def test_it_serves_on_a_free_port_and_stops_at_once(serve: Serve) -> None:
    _, service = serve()
    assert service.binary == "minova-api"
    assert http(service, "GET", "/v2.1/servers").status == 200
    port = service.port
    with socket.create_connection((LOOPBACK, port)) as idle, socket.create_connection((LOOPBACK, port)) as half:
        half.sendall(b"GET /v2.1/servers HTT")
        idle.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert idle.recv(4096)
        started = time.monotonic()
        service.stop()
        assert time.monotonic() - started < 3
    with pytest.raises(OSError, match="refused"), socket.create_connection((LOOPBACK, port), timeout=2):
        pass


def test_a_port_in_use_names_its_option(serve: Serve) -> None:
    cloud, first = serve()
    cloud.conf.set_override("osapi_compute_listen_port", first.port, group="api")
    with pytest.raises(errors.InvalidConfiguration, match=r"osapi_compute_listen_port.*in use"):
        ApiService(cloud.conf, cloud.app).start()


def test_an_upload_comes_in_chunks_too(serve: Serve) -> None:
    cloud, service = serve()
    image = cloud.make_image(data=None)
    parts = (b"x" * 70000 for _ in range(10))
    headers = {"Content-Type": "application/octet-stream"}
    answer = http(service, "PUT", f"/v2/images/{image['id']}/file", body=parts, headers=headers, chunked=True)
    assert answer.status == 204
    assert cloud.get(f"/v2/images/{image['id']}")["size"] == 700000
    assert http(service, "GET", f"/v2/images/{image['id']}/file").data == b"x" * 700000


@pytest.mark.parametrize(
    "head", ["Content-Length: 100000\r\n\r\n" + "x" * 5000, "Transfer-Encoding: chunked\r\n\r\n1000\r\n" + "x" * 0x1000]
)
def test_a_client_that_hangs_up_in_an_upload_leaves_the_image_queued(serve: Serve, head: str) -> None:
    cloud, service = serve()
    image = cloud.make_image(data=None)
    with socket.create_connection((LOOPBACK, service.port)) as client:
        line = f"PUT /v2/images/{image['id']}/file HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/octet-stream\r\n"
        client.sendall((line + head).encode())
        wait_for("saving", lambda: cloud.get(f"/v2/images/{image['id']}")["status"] == "saving")
    wait_for("queued again", lambda: cloud.get(f"/v2/images/{image['id']}")["status"] == "queued")
    wait_for("nothing left", lambda: list(cloud.images.iterdir()) == [])


def test_a_long_refused_upload_gets_its_answer_and_is_not_read_to_the_end(serve: Serve) -> None:
    _, service = serve()
    with socket.create_connection((LOOPBACK, service.port), timeout=60) as client:
        line = "PUT /v2/images/none/file HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/octet-stream\r\n"
        client.sendall(f"{line}Content-Length: {10**12}\r\n\r\n".encode())
        client.sendall(b"x" * (2 << 20))
        answer = b""
        while block := client.recv(65536):
            answer += block
    assert answer.startswith(b"HTTP/1.1 404")
    assert b"No image found" in answer


def test_a_json_body_that_is_too_long_is_413_also_in_chunks(serve: Serve) -> None:
    _, service = serve()
    headers = {"Content-Type": "application/json"}
    for more in ({"body": b" " * 200000}, {"body": iter([b" " * 10000] * 20), "chunked": True}):
        assert http(service, "POST", "/v2.1/flavors", headers=headers, **more).status == 413
    flavor = {"flavor": {"name": "f", "ram": 1, "vcpus": 1, "disk": 1}}
    body = iter([json.dumps(flavor).encode()])
    assert http(service, "POST", "/v2.1/flavors", headers=headers, body=body, chunked=True).status == 200


def test_https(serve: Serve, tmp_path: Path) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
        + ["-subj", "/CN=localhost", "-addext", f"subjectAltName=IP:{LOOPBACK}", "-out", cert, "-keyout", key],
        check=True,
        capture_output=True,
        timeout=30,
    )
    _, service = serve(ssl_cert_file=str(cert), ssl_key_file=str(key))
    with urllib3.PoolManager(ssl_context=ssl.create_default_context(cafile=cert), retries=False, timeout=60) as pool:
        answer = pool.request("GET", f"https://{LOOPBACK}:{service.port}/")
    assert answer.json()["versions"][0]["links"][0]["href"].startswith("https://")


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"ssl_cert_file": "/nowhere/cert.pem"}, "ssl_key_file"),
        ({"ssl_key_file": "/nowhere/key.pem"}, "ssl_cert_file"),
        ({"ssl_cert_file": "/nowhere/cert.pem", "ssl_key_file": "/nowhere/key.pem"}, "no such file"),
        ({"ssl_cert_file": __file__, "ssl_key_file": __file__}, "cannot be used"),
    ],
)
def test_certificates_that_cannot_be_name_their_option(serve: Serve, options: dict[str, str], named: str) -> None:
    with pytest.raises(errors.InvalidConfiguration, match=named):
        serve(**options)
