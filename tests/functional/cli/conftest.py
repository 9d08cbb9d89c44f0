"""`minova ...` run in this process against minova-api, over a database and a conductor that writes rows. In front of it can be what makes
faults and keeps the requests.
"""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from minova.api.server import ApiService
from minova.cli.main import main
from tests.fakes.faulty_api import FaultyApi
from tests.functional.api.conftest import Cloud

VARIABLES = ("MINOVA_URL", "MINOVA_USERNAME", "MINOVA_PASSWORD", "MINOVA_CACERT", "OS_CLOUD", "OS_AUTH_URL")


class CommandResult(NamedTuple):
    code: int
    out: str
    err: str


Cli = Callable[..., CommandResult]


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def cli_without_api(capsys: pytest.CaptureFixture[str]) -> Cli:
    """Runs `minova` with the words given and nothing else."""

    def run(*words: str) -> CommandResult:
        capsys.readouterr()
        code = main(list(words))
        return CommandResult(code, *capsys.readouterr())

    return run


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[Cloud]:
    cloud = Cloud(tmp_path, osapi_compute_listen_port=0)
    yield cloud
    cloud.close()


@pytest.fixture
def minova_url(cloud: Cloud) -> Iterator[str]:
    service = ApiService(cloud.conf, cloud.app)
    service.start()
    yield f"http://127.0.0.1:{service.port}"
    service.stop()


@pytest.fixture
def minova(minova_url: str, cli_without_api: Cli) -> Cli:
    return lambda *words: cli_without_api("--url", minova_url, *words)


@pytest.fixture
def faulty_api(cloud: Cloud) -> Iterator[FaultyApi]:
    with FaultyApi(cloud.app) as api:
        yield api


@pytest.fixture
def faulty_cli(faulty_api: FaultyApi, cli_without_api: Cli) -> Cli:
    return lambda *words: cli_without_api("--url", faulty_api.url, *words)


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    path = tmp_path / "disk.raw"
    path.write_bytes(os.urandom(3_000_000))
    return path


@pytest.fixture
def stocked(minova: Cli, disk: Path) -> Cli:
    """With a flavor and an image."""
    succeed(minova("flavor", "create", "tiny", "--ram", "128", "--disk", "1"))
    succeed(minova("image", "create", "guest", "--file", str(disk), "--disk-format", "raw"))
    return minova


def succeed(result: CommandResult) -> CommandResult:
    assert result.code == 0, result.err
    return result


def json_output(result: CommandResult) -> Any:
    return json.loads(succeed(result).out)
