import base64
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.functional.conductor.conductor_harness import ConductorHarness, make_hosts
from tests.tables import make_tables


@pytest.fixture(scope="session")
def database_with_hosts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite file with the hosts of a harness, whose conductor is gone. Never opened: it is copied, since to make the hosts takes
    as long as most tests.
    """
    file = tmp_path_factory.mktemp("harness") / "minova.sqlite"
    url = f"sqlite:///{file}"
    make_tables(url)
    make_hosts(url)
    return file


@pytest.fixture
def harness(tmp_path: Path, database_with_hosts: Path) -> Iterator[ConductorHarness]:
    shutil.copy(database_with_hosts, tmp_path / "minova.sqlite")
    new_harness = ConductorHarness(f"sqlite:///{tmp_path}/minova.sqlite", prepared=True)
    yield new_harness
    new_harness.close()


@pytest.fixture
def with_key(tmp_path: Path, database_with_hosts: Path) -> Iterator[ConductorHarness]:
    """Its conductors keep secrets of guests."""
    shutil.copy(database_with_hosts, tmp_path / "with_key.sqlite")
    file = tmp_path / "keys"
    file.write_text(base64.b64encode(secrets.token_bytes(32)).decode())
    new_harness = ConductorHarness(
        f"sqlite:///{tmp_path}/with_key.sqlite", prepared=True, guest_secrets__key_file=str(file)
    )
    yield new_harness
    new_harness.close()
