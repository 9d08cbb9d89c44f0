"""`minova ...` run in this process against an API on loopback that keeps books."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from minova.cli.main import main
from tests.fakes.api_server import ApiServer

VARIABLES = ("MINOVA_URL", "MINOVA_USERNAME", "MINOVA_PASSWORD", "MINOVA_CACERT")


class Said(NamedTuple):
    code: int
    out: str
    err: str


Cli = Callable[..., Said]


@pytest.fixture
def api() -> Iterator[ApiServer]:
    with ApiServer() as api:
        yield api


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def anywhere(capsys: pytest.CaptureFixture[str]) -> Cli:
    """Runs `minova` with the words given and nothing else."""

    def run(*words: str) -> Said:
        capsys.readouterr()
        code = main(list(words))
        return Said(code, *capsys.readouterr())

    return run


@pytest.fixture
def cli(api: ApiServer, anywhere: Cli) -> Cli:
    """Runs `minova --url ...` with the words given."""
    return lambda *words: anywhere("--url", api.url, *words)
