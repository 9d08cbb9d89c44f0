"""Schedulers, and how the tests ask them."""

import threading
from typing import Any

from minova.db.engine import Database
from minova.objects.requests.diagnosis import ScheduleAnswer
from minova.objects.requests.request_spec import RequestSpec
from minova.scheduler.manager import SchedulerManager
from tests.functional.scheduler.cloud import CTX, conf_of, put_host, spec_of, uuids


def manager_of(db: Database, **options: Any) -> SchedulerManager:
    return SchedulerManager(conf_of(**options), db, None, host="scheduler")


def hosts(db: Database, count: int, **node: Any) -> None:
    for number in range(count):
        put_host(db, f"h{number}", **node)


def ask(
    manager: SchedulerManager,
    count: int = 1,
    prefix: str = "i",
    claim_number: int = 1,
    alternates: int = 2,
    spec: RequestSpec | None = None,
) -> ScheduleAnswer:
    return manager.select_destinations(CTX, spec or spec_of(), uuids(count, prefix), claim_number, alternates)


def in_parallel(managers: list[SchedulerManager], requests: int, size: int) -> list[ScheduleAnswer]:
    """Each request in its own thread, to the managers in turn; a request's instances are named by its number."""
    answers: list[ScheduleAnswer] = []
    threads = [
        threading.Thread(target=lambda n=n: answers.append(ask(managers[n % len(managers)], size, f"r{n}")))
        for n in range(requests)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return answers
