"""A select_destinations that was delivered twice moved the allocation: the conductor used the first answer, the rows
had the second one.
"""

import threading
from pathlib import Path

import pytest

from minova import errors
from minova.db.engine import Database
from minova.objects.requests.diagnosis import ScheduleAnswer
from minova.placement.allocations import claims
from minova.scheduler.manager import SchedulerManager
from tests.functional.placement.cases import held
from tests.functional.scheduler.cloud import CTX, fresh, inventory_rows, named, put_host, spec_of, unbalanced, uuids
from tests.functional.scheduler.schedulers import ask, hosts, manager_of

REQUESTS = 20


def outcome(manager: SchedulerManager, prefix: str, claim_number: int = 1) -> ScheduleAnswer | errors.StaleClaim:
    try:
        return ask(manager, prefix=prefix, claim_number=claim_number)
    except errors.StaleClaim as error:
        return error


def holder(db: Database, prefix: str) -> set[str]:
    return {host for host, _ in held(db, f"{prefix}-0")}


def true_duplicates(first: SchedulerManager, second: SchedulerManager) -> dict[str, list[object]]:
    """Each request reaches both schedulers at the same time."""
    answers_by_prefix: dict[str, list[object]] = {f"r{number}": [] for number in range(REQUESTS)}

    def deliver(manager: SchedulerManager, prefix: str) -> None:
        answers_by_prefix[prefix].append(outcome(manager, prefix))

    threads = [
        threading.Thread(target=deliver, args=(manager, prefix))
        for prefix in answers_by_prefix
        for manager in (first, second)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return answers_by_prefix


@pytest.mark.parametrize("schedulers", [1, 2])
def test_every_answer_names_the_host_that_holds_the_allocation(tmp_path: Path, schedulers: int) -> None:
    """With one scheduler both deliveries may be in the same batch."""
    db = fresh(f"sqlite:///{tmp_path}/minova.sqlite")
    hosts(db, 8)
    managers = [manager_of(db) for _ in range(schedulers)]
    for prefix, answers in true_duplicates(managers[0], managers[-1]).items():
        selected = {answer.selections[0][0].host for answer in answers if isinstance(answer, ScheduleAnswer)}
        assert len(answers) == 2
        assert selected == holder(db, prefix), answers
    assert not unbalanced(inventory_rows(db))
    db.close()


def test_a_late_delivery_moves_nothing(db: Database) -> None:
    hosts(db, 4)
    first, second = manager_of(db), manager_of(db)
    for number in range(REQUESTS):
        (selections,) = ask(first, prefix=f"r{number}").selections
        assert isinstance(outcome(second, f"r{number}"), errors.StaleClaim | ScheduleAnswer)
        assert holder(db, f"r{number}") == {selections[0].host}
    assert not unbalanced(inventory_rows(db))


def test_a_late_delivery_after_the_last_room_was_taken_is_no_refusal(db: Database) -> None:
    """NoValidHost would put a server into ERROR that has its host."""
    put_host(db, "only", memory_mb=2048)
    (selections,) = ask(manager_of(db)).selections
    with pytest.raises(errors.StaleClaim, match="already"):
        ask(manager_of(db))
    assert {host for host, _ in held(db, "i-0")} == {selections[0].host}


def test_a_late_delivery_after_the_release_claims_nothing(db: Database) -> None:
    """The server has been deleted or shelved meanwhile."""
    hosts(db, 2)
    ask(manager_of(db))
    db.run(lambda session: claims.release(session, [named("i-0")]))
    with pytest.raises(errors.StaleClaim, match="comes after"):
        ask(manager_of(db))
    assert held(db, "i-0") == {}


def test_a_late_delivery_of_a_group_of_servers_moves_none_of_them(db: Database) -> None:
    hosts(db, 6)
    first, second = manager_of(db), manager_of(db)
    ask(first, 4)
    before = [held(db, f"i-{number}") for number in range(4)]
    # The same servers in another order: each would get another host.
    for manager in (first, second):
        with pytest.raises(errors.StaleClaim):
            manager.select_destinations(CTX, spec_of(num_instances=4), tuple(reversed(uuids(4, "i"))), 1, 2)
    assert [held(db, f"i-{number}") for number in range(4)] == before
