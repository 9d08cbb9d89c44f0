"""A member of a batch that failed by another error than Refused or StaleClaim failed up to 63 neighbours."""

import threading
from collections.abc import Sequence
from typing import Any

import pytest
from sqlalchemy.exc import IntegrityError

from minova import errors
from minova.db.engine import Database
from minova.objects.requests.diagnosis import ScheduleAnswer
from minova.scheduler.drivers import claim_loop, claim_writes
from minova.scheduler.drivers.claim_writes import Decided
from minova.scheduler.drivers.request import Request, schedule_answer
from minova.scheduler.manager import SchedulerManager
from tests.functional.placement.cases import held
from tests.functional.scheduler.cloud import inventory_rows, unbalanced, uuids
from tests.functional.scheduler.schedulers import ask, hosts, manager_of

KINDS: list[Exception] = [
    RuntimeError("boom"),
    KeyError("boom"),
    errors.Conflict("Consumer boom was removed at the same time."),
    errors.BadRequest("boom"),
    errors.StaleClaim("boom"),
    errors.ServiceUnavailable("boom"),
    IntegrityError("boom", None, Exception("boom")),
    MemoryError("boom"),
]
BAD = "r2"


def has_bad_member(request: Request, bad: Sequence[str]) -> bool:
    return any(request.instance_uuids == uuids(1, prefix) for prefix in bad)


def batch_of(manager: SchedulerManager, count: int) -> dict[str, ScheduleAnswer | BaseException]:
    """Answers or errors of requests that are decided together: they wait in the queue until all have come."""
    answer_by_prefix: dict[str, ScheduleAnswer | BaseException] = {}

    def caller(prefix: str) -> None:
        try:
            answer_by_prefix[prefix] = ask(manager, prefix=prefix)
        except Exception as error:  # noqa: BLE001  - the case looks at it
            answer_by_prefix[prefix] = error

    queue = manager.driver._claim_loop.queue
    threads = [threading.Thread(target=caller, args=(f"r{number}",)) for number in range(count)]
    with queue._turn:
        for thread in threads:
            thread.start()
        while len(queue._waiting) < count:
            threading.Event().wait(0.001)
    for thread in threads:
        thread.join(60)
    return answer_by_prefix


@pytest.mark.parametrize("error", KINDS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("where", ["write", "decide", "answer"])
def test_only_the_member_that_fails_gets_its_error(
    db: Database, monkeypatch: pytest.MonkeyPatch, error: Exception, where: str
) -> None:
    hosts(db, 4)
    manager = manager_of(db)
    ask(manager, prefix="warm")
    inject(manager, monkeypatch, where, error, [BAD])
    answer_by_prefix = batch_of(manager, 6)
    assert type(answer_by_prefix.pop(BAD)) is type(error)
    assert all(isinstance(answer, ScheduleAnswer) and answer.selections for answer in answer_by_prefix.values()), (
        answer_by_prefix
    )
    assert all(held(db, f"{prefix}-0") for prefix in answer_by_prefix)
    assert not unbalanced(inventory_rows(db))


def inject(
    manager: SchedulerManager, monkeypatch: pytest.MonkeyPatch, where: str, error: Exception, bad: Sequence[str]
) -> None:
    """The error meets each attempt to do this for one of these requests."""
    if where == "write":
        write = claim_writes.write

        def failing_write(db: Database, decided: Sequence[Decided]) -> None:
            if any(has_bad_member(request, bad) for request, _ in decided):
                raise error
            write(db, decided)

        monkeypatch.setattr(claim_writes, "write", failing_write)
    elif where == "decide":
        loop = manager.driver._claim_loop
        decide = loop._decide

        def failing_decide(table: Any, request: Request) -> Any:
            if has_bad_member(request, bad):
                raise error
            return decide(table, request)

        monkeypatch.setattr(loop, "_decide", failing_decide)
    else:

        def failing_answer(request: Request, *more: Any) -> Any:
            if has_bad_member(request, bad):
                raise error
            return schedule_answer(request, *more)

        monkeypatch.setattr(claim_loop, "schedule_answer", failing_answer)


def test_with_the_database_away_a_batch_does_not_wait_for_it_once_for_each_member(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts(db, 4)
    manager = manager_of(db)
    ask(manager, prefix="warm")
    tried: list[int] = []

    def away(_db: Database, decided: Sequence[Decided]) -> None:
        tried.append(len(decided))
        raise errors.ServiceUnavailable("The database does not answer")

    monkeypatch.setattr(claim_writes, "write", away)
    answer_by_prefix = batch_of(manager, 20)
    assert all(isinstance(error, errors.ServiceUnavailable) for error in answer_by_prefix.values())
    assert tried == [20, 1, 1]
