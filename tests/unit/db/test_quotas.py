"""Bounds of counted usages: the last unit of a limit, a limit of 0, no limit, and never below 0."""

from pathlib import Path

import pytest
from sqlalchemy.orm import Session

from minova.db import models, quotas
from minova.db.catalogue import images
from minova.db.engine import Database
from minova.objects.catalogue.image import Image
from minova.objects.catalogue.quota import UNLIMITED
from tests.functional.scheduler.cloud import SEEN


@pytest.fixture
def db(tmp_path: Path) -> Database:
    database = Database(f"sqlite:///{tmp_path}/minova.sqlite")
    models.Base.metadata.create_all(database.engine)
    database.run(lambda session: quotas.count_first(session, "p"))
    return database


def take(db: Database, cores: int, limit: int) -> int:
    """Returns the usage afterwards."""
    db.run(lambda session: quotas.take(session, "p", {"cores": cores}, {"cores": limit}))
    return used(db)


def used(db: Database) -> int:
    with db.read() as session:
        return quotas.usages_of(session, "p")["cores"]


def test_the_last_unit_of_a_limit_is_granted_and_the_next_refused(db: Database) -> None:
    assert take(db, 3, limit=4) == 3
    assert take(db, 1, limit=4) == 4
    with pytest.raises(quotas.OverQuota, match="Requested 1, but already used 4 of 4 cores"):
        take(db, 1, limit=4)
    assert used(db) == 4


def test_a_limit_of_0_grants_nothing(db: Database) -> None:
    with pytest.raises(quotas.OverQuota):
        take(db, 1, limit=0)


def test_no_limit_grants_all(db: Database) -> None:
    assert take(db, 1000, limit=UNLIMITED) == 1000


@pytest.mark.parametrize(("given", "left"), [(2, 3), (5, 0), (9, 0), (0, 5)])
def test_a_usage_never_falls_below_0(db: Database, given: int, left: int) -> None:
    take(db, 5, limit=10)
    db.run(lambda session: quotas.give(session, "p", {"cores": given}))
    assert used(db) == left


def test_images_count_for_their_owner(db: Database) -> None:
    def add(session: Session) -> None:
        for number, owner in enumerate(("p", "p", "q")):
            image = Image(id=f"00000000-0000-4000-8000-{number:012d}", name="i", owner=owner, size=2**20 + 1)
            images.add(session, image, SEEN)

    db.run(add)
    with db.read() as session:
        counted = quotas.counted(session, "p", ["image_count_total", "image_size_total"])
    assert counted == {"image_count_total": 2, "image_size_total": 4}
