"""The cost of a refresh depended on the numbers of the change feed that transactions took and never used."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest
from sqlalchemy import delete, event, insert, select, update

from minova.db import models
from minova.db.engine import Database
from minova.scheduler.refresh.change_feed import COUNT_FIRST, ChangeFeed
from minova.scheduler.refresh.feed_gaps import LIFETIME, MAX_RANGES
from tests.functional.scheduler.cloud import flavor, put_host, spec_of
from tests.functional.scheduler.schedulers import ask, hosts, manager_of
from tests.functional.scheduler.test_refresh import Clock, source_of

NODES = 5


class Statement(NamedTuple):
    text: str
    parameters: int


@contextmanager
def feed_queries(db: Database) -> Iterator[list[Statement]]:
    """The queries of `host_changes` inside."""
    statements: list[Statement] = []

    def note(_connection: Any, _cursor: Any, text: str, parameters: Any, _context: Any, _many: bool) -> None:
        if text.startswith("SELECT") and "host_changes" in text:
            statements.append(Statement(text, len(parameters)))

    event.listen(db.engine, "before_cursor_execute", note)
    try:
        yield statements
    finally:
        event.remove(db.engine, "before_cursor_execute", note)


def write(db: Database, *changes: tuple[int, int]) -> None:
    """Rows (number, node id), as a transaction that took these numbers earlier commits them."""
    rows = [{"seq": number, "node_id": node_id, "at": 1.0} for number, node_id in changes]
    db.run(lambda session: session.execute(insert(models.HostChange), rows))


class Writer(NamedTuple):
    """A transaction that has taken its numbers and has yet to end; one without changes is rolled back."""

    ends_at: float
    changes: list[tuple[int, int]]


class Writers:
    """Transactions that take numbers in steps, wait, and are committed or rolled back. `stored` stands for the rows of the
    hosts, `table` for what a reader knows of them.
    """

    def __init__(self, db: Database, seed: int) -> None:
        self.db, self.rng, self.clock = db, random.Random(seed), Clock()
        self.feed = ChangeFeed(self.clock)
        self.step, self.number = self.rng.randint(1, 5), self.rng.randint(1, 50)
        self.stored = dict.fromkeys(range(1, NODES + 1), 0)
        self.table = dict(self.stored)
        self.open: list[Writer] = []
        write(db, (self.number, 1))
        with db.read() as session:
            self.feed.restart(session)

    def begin(self) -> None:
        changes = []
        for _ in range(self.rng.randint(0, 4)):
            self.number += self.step * self.rng.choice([1, 1, 1, 2, 40])
            changes.append((self.number, self.rng.randint(1, NODES)))
        delay = self.rng.choice([0.0, 0.0, 0.0, 1.0, 20.0, LIFETIME - 1])
        self.open.append(Writer(self.clock.now + delay, changes if self.rng.random() < 0.6 else []))

    def end(self, by: float) -> None:
        ended = [transaction for transaction in self.open if transaction.ends_at <= by]
        self.open = [transaction for transaction in self.open if transaction.ends_at > by]
        for change in (change for writer in ended for change in writer.changes):
            write(self.db, change)
            self.stored[change[1]] += 1

    def read(self, *, every_gap: bool) -> None:
        with self.db.read() as session:
            changed = self.feed.read(session, every_gap=every_gap)
        assert changed is not None
        self.table |= {node_id: self.stored[node_id] for node_id in changed}


@pytest.mark.parametrize("seed", range(12))
def test_a_reader_misses_no_change_whatever_the_numbers(db: Database, seed: int) -> None:
    """Writers with delays up to a transaction's longest, rollbacks, steps of 1 to 5, and 100,000 unused numbers."""
    writers = Writers(db, seed)
    for turn in range(200):
        if turn % 50 == 25:
            writers.number += 25_000
        writers.begin()
        writers.end(writers.clock.now)
        with feed_queries(db) as queries:
            writers.read(every_gap=turn % 3 == 0)
        assert writers.table == writers.stored or turn % 3
        assert len(queries) <= 2
        assert all(query.parameters <= 2 * MAX_RANGES + 1 for query in queries)
        writers.clock.now += writers.rng.choice([0.0, 0.1, 0.5, 3.0, 10.0])
    writers.end(writers.clock.now + LIFETIME)
    writers.read(every_gap=True)
    assert writers.table == writers.stored
    writers.clock.now += LIFETIME
    writers.read(every_gap=True)
    assert len(writers.feed.gaps) == 0


@pytest.mark.parametrize("unused", [66_000, 100_000])
@pytest.mark.parametrize("step", [2, 100_000])
def test_a_refresh_with_many_unused_numbers_has_few_parameters_and_reads_few_rows(
    db: Database, unused: int, step: int
) -> None:
    """Each second number is unused, or all in one piece."""
    put_host(db, "a")
    clock = Clock()
    source = source_of(db, clock)
    source.refresh()
    last = 1 + 2 * unused if step == 2 else 1 + unused
    numbers = range(3, last + 1, 2) if step == 2 else [last]
    write(db, *((number, 1) for number in numbers))
    source.refresh()
    with feed_queries(db) as queries:
        for _ in range(3):
            source.refresh()
            clock.now += 0.1
            write(db, (last := last + step, 1))
        assert max(query.parameters for query in queries) <= 2 * MAX_RANGES + 1
        assert len(queries) <= 6
    with db.read() as session:
        source._feed.read(session, every_gap=True)
        ranges = source._feed.gaps.to_ask(clock.now, every=False)
    assert ranges.read_count <= COUNT_FIRST


def test_a_number_that_appears_late_is_seen_before_a_no_and_two_seconds_later_in_any_case(db: Database) -> None:
    clock = Clock()
    put_host(db, "a")
    write(db, (50, 1))
    source = source_of(db, clock)
    source.refresh()
    for number, (wait, before_a_no) in enumerate([(1.9, True), (60.0, True), (0.5, False), (3.0, False)], 20):
        clock.now += wait
        db.run(lambda s, mb=1000 + number: s.execute(update(models.ComputeNode).values(memory_mb=mb)))  # type: ignore[misc]
        write(db, (number, 1))
        if not before_a_no:
            clock.now += 2.0
        assert source.refresh(liveness=before_a_no).host(0).memory_mb == 1000 + number


def test_a_gap_that_was_not_asked_for_in_its_lifetime_is_asked_for_once_more(db: Database) -> None:
    """It was dropped unasked when no request came for two minutes, and its change was lost."""
    clock = Clock()
    put_host(db, "a")
    source = source_of(db, clock)
    source.refresh()
    write(db, (10, 1))
    source.refresh()
    db.run(lambda s: s.execute(update(models.ComputeNode).values(memory_mb=7)))
    write(db, (9, 1))
    clock.now += LIFETIME + 1
    source._compared_at = clock.now  # the comparison of generations would not find an allocation
    assert source.refresh().host(0).memory_mb == 7


def test_a_number_below_the_only_row_at_the_first_reading_is_not_missed(db: Database) -> None:
    """All rows but the newest are trimmed, and one with a lower number is yet to be committed."""
    put_host(db, "a", announce=False)
    db.run(lambda s: s.execute(delete(models.HostChange)))
    write(db, (50, 1))
    source = source_of(db)
    source.refresh()
    db.run(lambda s: s.execute(update(models.ComputeNode).values(memory_mb=7)))
    write(db, (49, 1))
    assert source.refresh().host(0).memory_mb == 7


def test_a_refused_batch_writes_nothing_to_the_feed(db: Database) -> None:
    """Not even in a transaction that is rolled back: on a server its numbers would be gone."""
    hosts(db, 2, memory_mb=4096)
    first, second = manager_of(db, scheduler__driver="caching_scheduler"), manager_of(db)
    ask(first, prefix="warm", spec=spec_of(flavor(memory_mb=99999)))
    assert ask(second, prefix="other", spec=spec_of(flavor(memory_mb=4096))).selections
    with db.read() as session:
        before = session.scalars(select(models.HostChange.seq)).all()
    inserted: list[str] = []
    event.listen(
        db.engine,
        "before_cursor_execute",
        lambda _c, _cursor, text, *_: inserted.append(text) if text.startswith("INSERT INTO host_changes") else None,
    )
    answer = ask(first, 2, prefix="two", spec=spec_of(flavor(memory_mb=4096)))
    assert not answer.selections
    assert answer.diagnosis.conflicts
    assert inserted == []
    with db.read() as session:
        assert session.scalars(select(models.HostChange.seq)).all() == before
