from collections.abc import Iterator
from pathlib import Path

import pytest

from minova.db.upgrade import upgrade
from tests.functional.compute.migration_world import World


@pytest.fixture(scope="session")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database without rows, for each world to copy: to make one takes longer than most tests."""
    path: Path = tmp_path_factory.mktemp("tables") / "empty.sqlite"
    upgrade(f"sqlite:///{path}")
    return path


@pytest.fixture
def world(tables: Path, tmp_path: Path) -> Iterator[World]:
    new_world = World(tmp_path / "world", tables)
    yield new_world
    new_world.close()
