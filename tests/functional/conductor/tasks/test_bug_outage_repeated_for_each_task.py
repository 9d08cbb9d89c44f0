"""While the database was away, the log had a line for each task and each try beside the one for the outage."""

import logging
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import text

from minova import errors
from minova.concurrency.daemon_pool import DaemonPool
from minova.conductor.tasks.pools import WorkKind
from minova.conductor.tasks.worker import TaskWorker
from minova.context import service_context
from minova.db.engine import Database
from minova.retry import retry_call
from tests.waiting import wait_for

Run = Callable[[str, Callable[[], Any]], None]


def as_task(name: str, work: Callable[[], Any]) -> None:
    db = Database("sqlite://")
    worker = TaskWorker(db, host="c", lease=9.0, threads=1, spawn=lambda task: task())
    worker.in_background(service_context(), WorkKind.ACTION, name, work)
    db.close()


def in_a_pool(name: str, work: Callable[[], Any]) -> None:
    pool, done = DaemonPool(name, 1), []
    assert pool.spawn(work)
    assert pool.spawn(lambda: done.append(True))
    wait_for("the work", lambda: done)
    pool.stop(5)


def repeated(name: str, work: Callable[[], Any]) -> None:
    with pytest.raises(errors.ServiceUnavailable):
        retry_call(name, work, seconds=60, wait=lambda _: True)


@pytest.mark.parametrize("run", [as_task, in_a_pool, repeated])
def test_outage_of_the_database_is_one_line_whatever_fails_by_it(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    db = Database("postgresql+psycopg://minova@127.0.0.1:1/minova")  # nothing listens there
    with caplog.at_level(logging.WARNING):
        for number in range(5):
            run(str(number), lambda: db.run(lambda session: session.execute(text("SELECT 1"))))
    db.close()
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("The database does not answer: ")


@pytest.mark.parametrize("run", [as_task, in_a_pool, repeated])
def test_reason_that_no_other_line_has_is_logged_for_each(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    def unanswered() -> None:
        raise errors.ServiceUnavailable("No conductor service has answered in time.")

    for number in range(2):
        run(str(number), unanswered)
    assert caplog.text.count("No conductor service has answered in time.") == 2
