"""As a process of its own, as an application for a WSGI server, and under /placement of minova-api."""

import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import falcon.testing
import pytest
import urllib3

from minova import errors
from minova.api.app import make_app
from minova.cmd import placement_api
from minova.db.engine import Database
from tests.functional.api.conftest import Cloud
from tests.functional.api.placement.conftest import ADMIN
from tests.tables import make_tables

PROGRAM = [sys.executable, "-c", "from minova.cmd.placement_api import main; main()"]


@pytest.fixture
def folder_of_databases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the process makes its temporary files."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


@pytest.fixture
def port(folder_of_databases: Path) -> Iterator[int]:
    """Of a running `minova-placement-api --dev`, which leaves nothing behind."""
    command = [*PROGRAM, "--dev", "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    message = ""
    for line in process.stdout or ():
        message += line
        port_match = re.search(r"is ready: http://127\.0\.0\.1:(\d+)", line)
        if port_match is not None:
            break
    else:
        pytest.fail(message)
    try:
        assert len(list(folder_of_databases.iterdir())) == 1
        yield int(port_match[1])
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=120)
    assert process.returncode == 0
    assert list(folder_of_databases.iterdir()) == []


def test_for_development_it_serves_a_new_database_on_loopback_and_leaves_nothing(port: int) -> None:
    with urllib3.PoolManager(retries=False, timeout=60) as pool:
        assert pool.request("GET", f"http://127.0.0.1:{port}/").status == 200
        assert pool.request("GET", f"http://127.0.0.1:{port}/resource_providers").status == 401
        answer = pool.request("GET", f"http://127.0.0.1:{port}/resource_providers", headers=ADMIN)
        assert answer.json() == {"resource_providers": []}
        body = pool.request("POST", f"http://127.0.0.1:{port}/resource_providers", headers=ADMIN, json={"name": "☃"})
        assert body.headers["location"].startswith(f"http://127.0.0.1:{port}/resource_providers/")
        url, chunks = f"http://127.0.0.1:{port}/resource_providers", iter([b'{"name"', b': "b"}'])
        headers = {**ADMIN, "Content-Type": "application/json"}
        assert pool.request("POST", url, headers=headers, body=chunks, chunked=True).status == 201
    with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
        client.sendall(b"POST /resource_providers HTTP/1.1\r\nHost: localhost\r\nContent-Length: hi mom\r\n\r\n")
        answered = client.recv(65536).decode()
    assert answered.startswith("HTTP/1.1 400")
    assert "content-length header must be an integer" in answered


def test_a_port_in_use_names_its_option(folder_of_databases: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        command = [*PROGRAM, "--dev", "--port", str(taken.getsockname()[1])]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 1
    assert "[placement] listen = 127.0.0.1, listen_port" in ended.stderr
    assert list(folder_of_databases.iterdir()) == []


@pytest.fixture
def options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of options of `application()`."""
    url = f"sqlite:///{tmp_path}/minova.sqlite"
    make_tables(url)
    file = tmp_path / "minova.conf"
    file.write_text(f"[database]\nconnection = {url}\n")
    monkeypatch.setenv("MINOVA_CONF", str(file))
    return file


@pytest.mark.parametrize(
    "strategy", ["", "[placement]\nauth_strategy = noauth2\n", "[placement]\nauth_strategy = noauth\n"]
)
def test_a_wsgi_server_of_others_gets_no_application_that_lets_everybody_in(options: Path, strategy: str) -> None:
    options.write_text(options.read_text() + strategy)
    with pytest.raises(errors.InvalidConfiguration, match=r"noauth.*this WSGI server may listen on any address"):
        placement_api.application()


def test_a_wsgi_server_gets_the_application(options: Path, tmp_path: Path) -> None:
    (tmp_path / "htpasswd").write_text("")
    users = f"[api]\nauth_strategy = http_basic\nhttp_basic_auth_user_file = {tmp_path}/htpasswd\n"
    options.write_text(options.read_text() + users)
    client = falcon.testing.TestClient(placement_api.application())
    assert client.simulate_get("/resource_providers").status_code == 401


def test_a_wsgi_server_gets_noauth_where_it_is_allowed_explicitly(options: Path) -> None:
    options.write_text(options.read_text() + "[placement]\nnoauth_in_any_server = true\n")
    client = falcon.testing.TestClient(placement_api.application())
    assert client.simulate_get("/resource_providers", headers={"Host": "localhost"}).json == {"resource_providers": []}
    assert client.simulate_get("/resource_providers", headers={"Host": "cloud.example.com"}).status_code == 403


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[Cloud]:
    cloud = Cloud(tmp_path)
    yield cloud
    cloud.close()


def test_minova_api_has_it_under_placement(cloud: Cloud) -> None:
    requests = 0

    def writes() -> Database:
        nonlocal requests
        requests += 1
        return cloud.db

    app = make_app(cloud.conf, cloud.readonly, cloud.conductor, cloud.consoles, writes)  # type: ignore[arg-type]
    client = falcon.testing.TestClient(app, headers={"Host": "localhost"})
    for root in ("/placement", "/placement/"):
        assert client.simulate_get(root).json["versions"][0]["max_version"] == "1.39"
    assert client.simulate_get("/placement/resource_providers").json == {"resource_providers": []}
    assert requests == 0
    headers = {"OpenStack-API-Version": "placement 1.20"}
    for name in ("a", "b"):
        created = client.simulate_post("/placement/resource_providers", headers=headers, json={"name": name})
        assert created.json["links"][0]["href"].startswith("/placement/resource_providers/")
    assert requests == 1
    assert client.simulate_get("/v2.1/servers").json == {"servers": []}
    assert client.simulate_get("/placements").status_code == 404


def test_minova_api_without_it_has_no_such_path(cloud: Cloud) -> None:
    assert cloud.ask("GET", "/placement")[0] == 404
