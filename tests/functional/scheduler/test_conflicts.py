"""What a Diagnosis tells of claims that another scheduler made impossible."""

import pytest

from minova.db.engine import Database
from minova.metrics import REGISTRY
from minova.scheduler.drivers import claim_writes
from tests.functional.scheduler.cloud import flavor, put_host, spec_of
from tests.functional.scheduler.schedulers import ask, hosts, in_parallel, manager_of

CACHING = {"scheduler__driver": "caching_scheduler"}


def test_a_host_that_another_was_faster_to_fill_is_told(db: Database) -> None:
    put_host(db, "roomy", memory_mb=4096)
    put_host(db, "small", memory_mb=4095)
    first, second = manager_of(db, **CACHING), manager_of(db)
    ask(first, prefix="first", spec=spec_of(flavor(memory_mb=99999)))  # so it has read the hosts
    assert ask(second, prefix="second", spec=spec_of(flavor(memory_mb=4096))).selections[0][0].host == "roomy"
    diagnosis = ask(first, prefix="third", spec=spec_of(flavor(memory_mb=1024))).diagnosis
    assert [(conflict.host, conflict.reason) for conflict in diagnosis.conflicts] == [
        ("roomy", "roomy: free MEMORY_MB 0 < requested 1024 (capacity 4096, used 4096)")
    ]
    assert diagnosis.selected == (("small", "small"),)


def test_without_a_faster_request_nothing_is_told(db: Database) -> None:
    hosts(db, 2)
    assert ask(manager_of(db)).diagnosis.conflicts == ()


def test_requests_in_line_tell_of_their_own_conflicts_only(db: Database) -> None:
    """However they are served, together or alone: the request that chose a full host tells of it, and no other."""
    hosts(db, 3, memory_mb=8192)
    managers = [manager_of(db, **CACHING), manager_of(db, **CACHING)]
    for number, manager in enumerate(managers):
        ask(manager, prefix=f"warm{number}", spec=spec_of(flavor(memory_mb=99999)))
    answers = in_parallel(managers, requests=16, size=1)
    assert sum(len(answer.selections) for answer in answers) == 12
    diagnosis = sum(len(answer.diagnosis.conflicts) for answer in answers)
    assert diagnosis == sum(manager.driver.conflicts.claims_refused for manager in managers)
    reasons = [conflict.reason for answer in answers for conflict in answer.diagnosis.conflicts]
    assert all("free MEMORY_MB 0" in reason for reason in reasons)


def test_bug_a_scheduler_that_is_always_second_refuses_although_there_is_room(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other scheduler takes the best host between each decision and its claim, 20 times in a row."""
    sizes = range(8192, 8192 - 64, -1)
    for memory_mb in sizes:
        put_host(db, f"host{memory_mb}", memory_mb=memory_mb)
    slow, fast = manager_of(db), manager_of(db)
    write, left = claim_writes.write, list(sizes[:20])

    def after_the_other(db: Database, decided: list[claim_writes.Decided]) -> None:
        if decided[0][0].spec.flavor.memory_mb == 8000 and left:
            memory_mb = left.pop(0)
            ask(fast, prefix=f"fast{memory_mb}", spec=spec_of(flavor(memory_mb=memory_mb)))
        write(db, decided)

    monkeypatch.setattr(claim_writes, "write", after_the_other)
    answer = ask(slow, prefix="slow", spec=spec_of(flavor(memory_mb=8000)))
    assert len(answer.selections) == 1, answer.diagnosis.error


def test_conflicts_and_decisions_are_counted(db: Database) -> None:
    put_host(db, "roomy", memory_mb=4096)
    put_host(db, "small", memory_mb=2048)
    first, second = manager_of(db, **CACHING), manager_of(db)
    ask(first, prefix="first", spec=spec_of(flavor(memory_mb=99999)))
    before = conflict_counts()
    ask(second, prefix="second", spec=spec_of(flavor(memory_mb=4096)))
    ask(first, prefix="third")
    assert [now - then for now, then in zip(conflict_counts(), before, strict=True)] == [1, 1, 2]


def conflict_counts() -> list[float]:
    """Claims refused, decisions repeated, decisions."""
    names: list[tuple[str, dict[str, str]]] = [
        ("minova_scheduler_claims_refused_total", {}),
        ("minova_scheduler_decisions_repeated_total", {}),
        ("minova_select_destinations_seconds_count", {"result": "ok"}),
    ]
    return [REGISTRY.get_sample_value(*name) or 0.0 for name in names]
