"""One Keystone and one cloud for all tests of this folder: set up as docs/operators/keystone.md tells operators."""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import Cluster
from tests.servers.keystone import PASSWORD, Keystone

ROOT = Path(__file__).parents[3]
COMMANDS = ROOT / "tests" / "openstack_commands.py"
DOCUMENT = (ROOT / "docs" / "operators" / "keystone.md").read_text()
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", DOCUMENT, re.DOTALL)
USERS, ENDPOINTS = (text for kind, text in BLOCKS if kind == "shell")
(OPTIONS,) = (text for kind, text in BLOCKS if kind == "ini")

Openstack = Callable[..., list[str]]


def openstack(environment: Mapping[str, str], *commands: str) -> list[str]:
    """The output of each command of the unchanged client; an AssertionError with the client's words if one fails."""
    done = subprocess.run(
        [sys.executable, COMMANDS],
        input=json.dumps([shlex.split(command) for command in commands]),
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
        env=dict(environment),
    )
    results: list[Any] = json.loads(done.stdout)
    for command, (code, out, err) in zip(commands, results, strict=True):
        assert not code, f"openstack {command}\n{out}\n{err}"
    return [out for _, out, _ in results]


def documented(block: str, url: str = "") -> list[str]:
    text = block.replace("SERVICE_PASSWORD", PASSWORD).replace("https://cloud.example.org:8774", url)
    return [line.removeprefix("openstack ") for line in text.splitlines()]


@pytest.fixture(scope="session")
def keystone() -> Iterator[Keystone]:
    """alice is member of the project demo, rita reader; otto is member of other."""
    with Keystone(cached=True) as server:
        openstack(server.client_environment(), *documented(USERS))
        for project in ("demo", "other"):
            server.add_project(project)
        server.add_user("alice", demo="member")
        server.add_user("rita", demo="reader")
        server.add_user("otto", other="member")
        yield server


@pytest.fixture(scope="session")
def keystone_options(keystone: Keystone, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A file with the documented options."""
    file = tmp_path_factory.mktemp("keystone") / "minova.conf"
    text = OPTIONS.replace("https://cloud.example.org:5000/v3", keystone.url).replace("SERVICE_PASSWORD", PASSWORD)
    # The machine that runs the tests may be very busy.
    file.write_text(f"{text}http_connect_timeout = 60\n")
    return str(file)


# Of the package: its threads are not to run beside other tests.
@pytest.fixture(scope="package")
def cloud(
    keystone: Keystone,
    keystone_options: str,
    tmp_path_factory: pytest.TempPathFactory,
    fresh_rabbit_url: Callable[[], str],
) -> Iterator[Cluster]:
    """It stands in the catalog of Keystone. Not on the bus in memory, which the clouds of all tests of a process share."""
    folder = tmp_path_factory.mktemp("cloud")
    with Cluster(
        folder, ["h1"], transport_url=fresh_rabbit_url(), files=[keystone_options], vnc__enabled=True
    ) as cluster:
        openstack(keystone.client_environment(), *documented(ENDPOINTS, cluster.url))
        yield cluster
