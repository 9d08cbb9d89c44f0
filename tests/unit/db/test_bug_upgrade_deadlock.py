"""An upgrade of the tables failed when a service that ran held their locks in another order."""

from pathlib import Path

import psycopg.errors
import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy.exc import OperationalError

from minova.db import schema
from minova.db.upgrade import upgrade


def test_an_upgrade_that_meets_a_deadlock_is_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of_alembic, deadlocks = command.upgrade, [psycopg.errors.DeadlockDetected("deadlock detected")]

    def upgrade_beside_services(config: Config, revision: str) -> None:
        of_alembic(config, revision)
        if deadlocks:
            raise OperationalError("ALTER TABLE tasks", {}, deadlocks.pop())

    monkeypatch.setattr(command, "upgrade", upgrade_beside_services)
    assert upgrade(f"sqlite:///{tmp_path}/minova.sqlite") == schema.head()
    assert deadlocks == []
