"""The change feed of real servers: numbers that are rolled back are gone, and a Galera cluster counts in steps."""

import contextlib
import random
import threading
from collections.abc import Iterator

import pytest
from sqlalchemy import event, insert, select
from sqlalchemy.orm import Session

from minova.db import models
from minova.db.engine import Database
from minova.placement import changes
from minova.scheduler.refresh.change_feed import ChangeFeed
from tests.functional.placement.cases import RefusedBatch, claim_of, hosts, refuse
from tests.functional.scheduler.cloud import fresh
from tests.functional.scheduler.test_bug_unused_feed_numbers import feed_queries
from tests.functional.scheduler.test_refresh import Clock

WRITERS = 3


class RolledBack(Exception):
    """The transaction is given up."""


@pytest.fixture(params=["fresh_postgresql_url", "fresh_mariadb_url"])
def url(request: pytest.FixtureRequest) -> str:
    database_url: str = request.getfixturevalue(request.param)()
    return database_url


@pytest.fixture
def db(url: str) -> Iterator[Database]:
    database = fresh(url)
    yield database
    database.close()


def counting_as_galera(db: Database, offset: int) -> None:
    """As a node of three does; other engines count by one."""
    if db.dialect == "postgresql":
        return

    def set_step(connection: object, _record: object) -> None:
        with connection.cursor() as cursor:  # type: ignore[attr-defined]
            cursor.execute(f"SET SESSION auto_increment_increment=3, auto_increment_offset={offset}")

    event.listen(db.engine, "connect", set_step)


def numbers(db: Database) -> list[int]:
    with db.read() as session:
        return list(session.scalars(select(models.HostChange.seq).order_by(models.HostChange.seq)))


def test_a_refused_batch_of_200_leaves_no_gap(db: Database) -> None:
    hosts(db, "a", vcpus=64)
    db.run(lambda session: changes.append(session, [1]))
    claims = [claim_of(f"i{number}", "a", VCPU=1) for number in range(200)]
    with pytest.raises(RefusedBatch):
        db.run(lambda session: refuse(session, claims))
    db.run(lambda session: changes.append(session, [1]))
    newest = numbers(db)[-2:]
    assert newest[1] == newest[0] + 1


def write(door: Database, writer: int, committed: set[int]) -> None:
    """Forty transactions, each with a node id of its own; about a third is rolled back after it has taken a number."""
    rng = random.Random(writer)

    def work(session: Session, node_id: int, fails: bool) -> None:
        changes.append(session, [node_id])
        if fails:
            session.execute(insert(models.HostChange).values(node_id=node_id, at=1.0))
            raise RolledBack

    for number in range(40):
        node_id, fails = writer * 1000 + number + 1, rng.random() < 0.3
        with contextlib.suppress(RolledBack):
            door.run(lambda session, n=node_id, f=fails: work(session, n, f))  # type: ignore[misc]
            committed.add(node_id)


def test_a_reader_follows_nodes_that_count_in_steps_and_writers_that_roll_back(url: str, db: Database) -> None:
    """Three writers at once, each with an offset of its own."""
    doors = [Database(url) for _ in range(WRITERS)]
    for offset, door in enumerate(doors, 1):
        counting_as_galera(door, offset)
    clock = Clock()
    feed = ChangeFeed(clock)
    committed: list[set[int]] = [set() for _ in doors]
    threads = [threading.Thread(target=write, args=(door, n, committed[n])) for n, door in enumerate(doors)]
    read: set[int] = set()
    for thread in threads:
        thread.start()
    with feed_queries(db) as queries:
        while any(thread.is_alive() for thread in threads):
            read |= read_once(db, feed)
            clock.now += 0.01
        read |= read_once(db, feed)
    assert all(query.parameters <= 20 for query in queries)
    assert read == set().union(*committed)
    seen = numbers(db)
    assert seen[-1] - seen[0] > len(seen)  # there were gaps
    for door in doors:
        door.close()


def read_once(db: Database, feed: ChangeFeed) -> set[int]:
    """All that is committed; a feed that was empty before is read whole."""
    with db.read() as session:
        changed = feed.read(session, every_gap=True)
        if changed is None:
            feed.restart(session)
            changed = set(session.scalars(select(models.HostChange.node_id)))
    return changed


def test_a_refresh_asks_the_same_with_many_unused_numbers(db: Database) -> None:
    """66,000 of them: one of each two, so that no piece is longer than one number."""
    feed = ChangeFeed(Clock())
    rows = [{"seq": 2 * number + 1, "node_id": 1, "at": 1.0} for number in range(66_000)]
    with db.read() as session:
        feed.restart(session)
    db.run(lambda session: session.execute(insert(models.HostChange), rows[:1]))
    read_once(db, feed)
    db.run(lambda session: session.execute(insert(models.HostChange), rows[1:]))
    read_once(db, feed)
    assert len(feed.gaps) == 65_999
    with feed_queries(db) as queries:
        assert read_once(db, feed) == set()
    assert [query.parameters for query in queries] == [16, 1]
