"""A Keystone that is not there, or takes connections and never answers: 503 in bounded time."""

import logging
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import falcon
import pytest
from falcon import testing

from minova import errors
from minova.api.access.auth import authenticator
from minova.api.access.authenticator import Authenticator, Unauthenticated
from minova.api.access.wsgi_keys import SERVICE_TYPE
from tests.cluster import configure
from tests.servers.private_server import free_ports

CONF = """
[api]
auth_strategy = keystone
[keystone_authtoken]
auth_url = http://127.0.0.1:{port}/v3
auth_type = password
username = minova
password = secret
user_domain_name = Default
project_name = service
project_domain_name = Default
http_connect_timeout = 1
http_request_max_retries = 0
"""


@pytest.fixture
def silent_port() -> Iterator[int]:
    """The kernel takes connections, and no process reads them."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def keystone_at(port: int, folder: Path) -> Authenticator:
    file = folder / "minova.conf"
    file.write_text(CONF.format(port=port))
    return authenticator(configure(folder, files=[str(file)]))


def request(**headers: str) -> falcon.Request:
    return falcon.Request(testing.create_environ("/v2.1/servers", headers=headers) | {SERVICE_TYPE: "compute"})


def test_nothing_listens(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (port,) = free_ports(1)
    with caplog.at_level(logging.WARNING):
        check = keystone_at(port, tmp_path)
    assert "Keystone does not answer: " in caplog.text
    with pytest.raises(errors.ServiceUnavailable, match="Keystone"):
        check(request(**{"X-Auth-Token": "token"}))


def test_bug_each_request_during_an_outage_logged_a_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (port,) = free_ports(1)
    with caplog.at_level(logging.WARNING, "minova"):
        check = keystone_at(port, tmp_path)
        for number in range(20):
            with pytest.raises(errors.ServiceUnavailable, match="Keystone"):
                check(request(**{"X-Auth-Token": f"token{number}"}))
    lines = [record for record in caplog.records if record.name.startswith("minova")]
    # The start and the first request have reasons of their own.
    assert 1 <= len(lines) <= 2
    assert not [record for record in lines if record.exc_info]


def test_nothing_answers(tmp_path: Path, silent_port: int) -> None:
    check = keystone_at(silent_port, tmp_path)
    started = time.monotonic()
    with pytest.raises(errors.ServiceUnavailable, match="Keystone"):
        check(request(**{"X-Auth-Token": "token"}))
    assert time.monotonic() - started < 30


def test_request_without_a_token_needs_no_keystone(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    with pytest.raises(Unauthenticated) as refused:
        keystone_at(port, tmp_path)(request())
    assert refused.value.challenge == f'Keystone uri="http://127.0.0.1:{port}/v3"'
