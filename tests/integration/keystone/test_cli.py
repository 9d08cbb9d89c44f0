"""`minova` with clouds.yaml, with OS_* variables, and what it says when a login fails."""

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from minova.cli.main import main
from tests.cluster import Cluster
from tests.servers.authority import Authority
from tests.servers.keystone import PASSWORD, Keystone
from tests.servers.private_server import free_ports

CLOUDS = """
clouds:
  demo:
    region_name: RegionOne
    auth: {{auth_url: "{url}", username: alice, password: {password}, project_name: demo, user_domain_name: Default, project_domain_name: Default}}
"""
Run = Callable[..., str]


@pytest.fixture
def environment(keystone: Keystone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """OS_* variables of alice, and a clouds.yaml with the cloud demo of hers."""
    for name in ("MINOVA_URL", "MINOVA_USERNAME", "MINOVA_PASSWORD", "MINOVA_CACERT"):
        monkeypatch.delenv(name, raising=False)
    file = tmp_path / "clouds.yaml"
    file.write_text(CLOUDS.format(url=keystone.url, password=PASSWORD))
    for name, value in keystone.client_environment("alice", "demo").items():
        if name.startswith("OS_"):
            monkeypatch.setenv(name, value)
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(file))
    return monkeypatch


@pytest.fixture
def run(cloud: Cluster, environment: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """What `minova` prints, or with `code` what it prints on standard error when it ends with that."""

    def run(*words: str, code: int = 0) -> str:
        capsys.readouterr()
        ended = main(list(words))
        out, err = capsys.readouterr()
        assert ended == code, out + err
        return err if code else out

    return run


def test_variables_and_catalog(run: Run, keystone: Keystone, tmp_path: Path) -> None:
    disk = tmp_path / "disk.raw"
    disk.write_bytes(b"\1" * 4096)
    image = json.loads(run("image", "create", "by-token", "--disk-format", "raw", "--file", str(disk), "-f", "json"))
    network = json.loads(run("network", "create", "by-token", "-f", "json"))
    assert {image["owner"], network["project_id"]} == {keystone.id_of("projects", "demo")}
    assert json.loads(run("server", "list", "-f", "json")) == []
    run("image", "delete", "by-token")
    run("network", "delete", "by-token")


def test_cloud_of_clouds_yaml(run: Run, environment: pytest.MonkeyPatch) -> None:
    for name in ("OS_AUTH_URL", "OS_USERNAME", "OS_PASSWORD", "OS_PROJECT_NAME"):
        environment.delenv(name)
    assert json.loads(run("--os-cloud", "demo", "server", "list", "-f", "json")) == []
    environment.setenv("OS_CLOUD", "demo")
    assert json.loads(run("server", "list", "-f", "json")) == []
    assert "refused" not in run("--os-cloud", "nowhere", "server", "list", code=2)


def test_own_options_come_first(run: Run, cloud: Cluster) -> None:
    assert "needs a login" in run("--url", cloud.url, "server", "list", code=1)


def test_projects_and_users_by_name(
    run: Run, environment: pytest.MonkeyPatch, keystone: Keystone, tmp_path: Path
) -> None:
    """Administrators give names; who may not look them up gives IDs."""
    demo = keystone.id_of("projects", "demo")
    key = tmp_path / "key"
    run("keypair", "create", "of-alice", "--private-key", str(key))
    assert json.loads(run("usage", "show", "-f", "json"))["Project"] == demo
    environment.setenv("OS_USERNAME", "admin")
    environment.setenv("OS_PROJECT_NAME", "admin")

    def keys(*words: str) -> list[str]:
        return [row["Name"] for row in json.loads(run("keypair", "list", *words, "-f", "json"))]

    assert keys() == []
    assert keys("--user", "alice", "--user-domain", "Default") == ["of-alice"]
    assert keys("--project", "demo") == ["of-alice"]
    assert json.loads(run("usage", "show", "--project", "demo", "-f", "json"))["Project"] == demo
    assert json.loads(run("server", "list", "--project", "demo", "--project-domain", "Default", "-f", "json")) == []
    assert "has no project with the name or ID 'nowhere'" in run("server", "list", "--project", "nowhere", code=1)
    assert "has no domain with" in run("server", "list", "--user", "alice", "--user-domain", "nowhere", code=1)
    run("keypair", "delete", "of-alice", "--user", "alice")
    environment.setenv("OS_USERNAME", "alice")
    environment.setenv("OS_PROJECT_NAME", "demo")
    assert json.loads(run("usage", "show", "--project", demo, "-f", "json"))["Project"] == demo


@pytest.mark.parametrize(
    ("name", "value", "code", "words"),
    [
        ("OS_PASSWORD", "wrong", 1, "refused user alice"),
        ("OS_PROJECT_NAME", "nowhere", 1, "refused user alice"),
        ("OS_REGION_NAME", "Mars", 1, "no compute endpoint of region Mars"),
        ("OS_CLOUD", "nowhere", 2, "nowhere"),
        ("OS_AUTH_TYPE", "telepathy", 2, "telepathy"),
        ("OS_AUTH_URL", "http://127.0.0.1:{port}/v3", 1, "Cannot use http://127.0.0.1:{port}/v3"),
    ],
)
def test_errors_are_one_clear_line(
    run: Run, environment: pytest.MonkeyPatch, name: str, value: str, code: int, words: str
) -> None:
    (port,) = free_ports(1)
    environment.setenv(name, value.format(port=port))
    said = run("server", "list", code=code)
    assert words.format(port=port) in said
    assert said.count("\n") == 1


@contextmanager
def https(authority: Authority, folder: Path) -> Iterator[str]:
    """A server of whose certificate the client knows nothing; its URL."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue("keystone", folder, "IP:127.0.0.1"))
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"https://127.0.0.1:{server.server_port}/v3"
        server.shutdown()
        thread.join()


def test_unknown_certificate(run: Run, environment: pytest.MonkeyPatch, authority: Authority, tmp_path: Path) -> None:
    with https(authority, tmp_path) as url:
        environment.setenv("OS_AUTH_URL", url)
        said = run("server", "list", code=1)
    assert f"Cannot speak TLS with {url}" in said
    assert "OS_CACERT" in said
