import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from minova.conductor.hosts.placement_audit import MAX_LOGGED, PlacementAudit
from minova.conductor.tasks.worker import TaskWorker
from minova.db.engine import Database
from minova.metrics import REGISTRY
from minova.placement.audit.judge import FindingKind
from tests.functional.placement.cases import claim, claim_of, held, hosts
from tests.functional.scheduler.cloud import fresh, named


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    database = fresh(f"sqlite:///{tmp_path}/minova.sqlite")
    yield database
    database.close()


def metric_of(kind: FindingKind) -> float | None:
    return REGISTRY.get_sample_value("minova_placement_findings", {"kind": kind.value})


def test_what_it_finds_is_logged_and_counted_and_left(db: Database, caplog: pytest.LogCaptureFixture) -> None:
    audit = PlacementAudit(TaskWorker(db, host="c", lease=30.0, threads=1, spawn=lambda work: work()))
    hosts(db, "a", vcpus=64, memory_mb=65536, local_gb=1000)
    with caplog.at_level(logging.INFO, "minova.conductor.hosts.placement_audit"):
        audit.run()
        assert caplog.messages == ["The audit of Placement found nothing wrong"]
        assert metric_of(FindingKind.WITHOUT_INSTANCE) == 0
        claim(db, *(claim_of(f"ghost{number}", "a") for number in range(MAX_LOGGED + 1)))
        caplog.clear()
        audit.run()
    first, *each = caplog.messages
    assert first == (
        f"The audit of Placement found {MAX_LOGGED + 1} x allocation without instance. "
        "To put it right: minova-manage placement audit --fix"
    )
    assert len(each) == MAX_LOGGED
    assert all("Allocation without instance" in line for line in each)
    assert (
        metric_of(FindingKind.WITHOUT_INSTANCE) == audit.counts_by_kind[FindingKind.WITHOUT_INSTANCE] == MAX_LOGGED + 1
    )
    assert held(db, "ghost0")
    assert named("ghost0") in caplog.text
