"""The first reading of the keys took seconds on a busy machine. The API refused the tokens of the next minute: signed ahead of its clock."""

from typing import Any, cast

from minova.conductor.tasks.worker import TaskWorker
from minova.conductor.tokens.image_tokens import ImageTokens
from minova.db.catalogue import image_token_keys
from minova.db.engine import Database
from minova.image_tokens import LEEWAY, image_of
from tests.functional.conductor.conductor_harness import IMAGE, ConductorHarness


class SlowDatabase:
    """Each transaction begins late."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self.ticks = 0.0

    def read(self) -> Any:
        self.ticks += 2 * LEEWAY
        return self._db.read()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._db, name)


class OfWorker:
    def __init__(self, db: SlowDatabase) -> None:
        self.db = db


def test_token_is_valid_at_once(harness: ConductorHarness) -> None:
    slow = SlowDatabase(harness.db)
    tokens = ImageTokens(cast(TaskWorker, OfWorker(slow)), lambda: slow.ticks)
    tokens.refresh()
    token = tokens.token_for(IMAGE.id)
    assert token is not None
    assert image_of(token, image_token_keys.read(harness.db)) == IMAGE.id
