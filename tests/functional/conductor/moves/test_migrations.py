"""Claims and reports for a move whose server has gone on, and migrations whose server is gone."""

from datetime import datetime

import pytest
from sqlalchemy import func, select, update

from minova import errors
from minova.db import models
from minova.objects.servers.moves import MovePhase, PhaseResult
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness
from tests.functional.conductor.moves.begun_moves import begin, claimed, key, migration_of


def held(harness: ConductorHarness) -> int:
    with harness.db.read() as session:
        return session.scalar(select(func.count()).select_from(models.Allocation)) or 0


def test_a_late_report_changes_nothing_of_a_server_that_is_being_deleted(harness: ConductorHarness) -> None:
    uuid = harness.active("a")
    migration = claimed(harness, uuid)
    harness.delete(uuid)
    before = (harness.state(uuid), migration_of(harness, uuid))
    assert before[0] == "active/deleting on a"
    for failure in (None, "no"):
        result = PhaseResult(failure=failure)
        harness.conductor.phase_ended(CTX, phase=key(migration, MovePhase.CLAIM), host="b", result=result)
    assert (harness.state(uuid), migration_of(harness, uuid)) == before


def test_a_late_claim_of_a_move_that_has_ended_is_stale(harness: ConductorHarness) -> None:
    uuid = harness.active("a")
    migration = begin(harness, uuid)
    result = PhaseResult(failure="no", kind="HypervisorError")
    harness.conductor.phase_ended(CTX, phase=key(migration, MovePhase.CLAIM), host="b", result=result)
    assert migration_of(harness, uuid).status == "error"
    with pytest.raises(errors.StaleAttempt, match="is error to b: host b cannot claim for it"):
        harness.conductor.claim_move(CTX, migration=migration, node=harness.node("b"))
    assert harness.state(uuid) == "active/None on a"


def test_only_the_destination_claims(harness: ConductorHarness) -> None:
    migration = begin(harness, harness.active("a"))
    for host in ("a", "c"):
        with pytest.raises(errors.StaleAttempt):
            harness.conductor.claim_move(CTX, migration=migration, node=harness.node(host))
    assert harness.conductor.claim_move(CTX, migration=migration, node=harness.node("b")).status == "pre-migrating"


@pytest.mark.parametrize("status", ["migrating", "post-migrating", "finished", "confirmed", "reverted", "error", "x"])
def test_no_host_takes_a_step_of_a_move(harness: ConductorHarness, status: str) -> None:
    """The call of 0.1.0. The conductor takes each step."""
    uuid = harness.active("a")
    migration = claimed(harness, uuid)
    before = (harness.state(uuid), migration_of(harness, uuid), held(harness))
    for host in ("a", "b"):
        with pytest.raises(errors.StaleAttempt):
            harness.conductor.step_move(CTX, migration_uuid=migration.uuid, status=status, host=host)
    assert (harness.state(uuid), migration_of(harness, uuid), held(harness)) == before


def test_a_migration_ends_whose_server_is_gone(harness: ConductorHarness) -> None:
    """As after a restored database: nothing else would release what it holds."""
    uuid, other = harness.active("a"), harness.active("a")
    claimed(harness, uuid)
    begin(harness, other)
    with harness.db.write() as session:
        gone = update(models.Instance).where(models.Instance.uuid == uuid)
        session.execute(gone.values(deleted_at=datetime(2026, 11, 28)))  # noqa: DTZ001  - as all times in the tables
    before = held(harness)
    harness.conductor.collaborators.migrations.end_orphaned()
    assert migration_of(harness, uuid).status == "error"
    assert migration_of(harness, other).status == "accepted"
    assert held(harness) == before // 2
