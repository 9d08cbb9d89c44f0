"""What a reader of the database makes of what it reads."""

from pathlib import Path

import pytest
from sqlalchemy import delete, insert
from sqlalchemy.orm import Session

from minova.db.engine import Database
from minova.db.models.cloud import ChangeCounter, Cloud
from minova.db.recovery import cloud
from minova.db.recovery.cloud_watch import CloudWatch
from minova.objects.hosts.cloud import LOST, UNKNOWN, WitnessRecord
from minova.safe_mode import SafeMode
from minova.witness import Witness
from tests.tables import make_tables


@pytest.fixture
def db(tmp_path: Path) -> Database:
    url = f"sqlite:///{tmp_path}/minova.sqlite"
    make_tables(url)
    return Database(url)


def count(session: Session, counter: str, number: int) -> None:
    session.execute(delete(ChangeCounter).where(ChangeCounter.id == counter))
    session.execute(insert(ChangeCounter).values(id=counter, host=counter, number=number, changed_at=float(number)))


def test_a_row_is_read_with_the_newest_marks_first_in_one_statement(db: Database) -> None:
    with db.write() as session:
        before, no_marks = cloud.record_and_marks(session, db.now())
        assert before is not None
        assert no_marks == ()
        count(session, "old", 3)
        count(session, "new", 7)
        row, marks = cloud.record_and_marks(session, db.now())
        assert row is not None
        assert row.uuid == before.uuid
        assert [(mark.counter, mark.number, mark.at) for mark in marks] == [("new", 7, 7.0), ("old", 3, 3.0)]
        assert all(mark == row.sealed(mark) for mark in marks)
        session.execute(delete(Cloud))
        assert cloud.record_and_marks(session, db.now()) == (None, ())


def test_a_new_witness_believes_any_database_that_has_an_identity(db: Database) -> None:
    safe_mode, witness = SafeMode(), Witness(None)
    watch = CloudWatch("api", db, safe_mode, witness)
    watch.run()
    assert safe_mode.reason is None
    assert witness.seen is not None


def test_a_database_without_an_identity_is_not_believed(db: Database) -> None:
    safe_mode, witness = SafeMode(), Witness(None)
    with db.write() as session:
        session.execute(delete(Cloud))
    CloudWatch("api", db, safe_mode, witness).run()
    assert safe_mode.reason == UNKNOWN
    assert witness.seen is None


def test_a_counter_that_shows_less_than_what_was_seen_is_told(db: Database) -> None:
    safe_mode, witness = SafeMode(), Witness(None)
    told: list[WitnessRecord] = []
    watch = CloudWatch("api", db, safe_mode, witness, tell=told.append)
    db.run(lambda session: count(session, "one", 7))
    watch.run()
    db.run(lambda session: count(session, "one", 8))
    watch.run()
    assert safe_mode.reason is None
    seen = witness.seen
    db.run(lambda session: count(session, "one", 5))
    watch.run()
    assert safe_mode.reason == LOST
    assert told == [seen]
