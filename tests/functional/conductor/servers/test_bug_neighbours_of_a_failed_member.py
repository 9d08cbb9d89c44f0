"""One bad member of what a conductor does for many at once failed the others, for ever where it was tried again whole."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from minova import errors
from minova.conductor.notifications import instances
from minova.conductor.notifications.payloads import instance_info
from minova.conductor.servers import build as build_instances
from minova.conductor.servers.finish import fail_builds
from minova.conductor.tasks.batches import together_or_alone
from minova.db import models
from minova.db import purge as db_purge
from minova.db.hosts import node_audits
from minova.objects.hosts.node_audit import NodeAudit
from minova.objects.servers.failures import Failure
from tests.functional.conductor.conductor_harness import CTX, START, ConductorHarness, request
from tests.functional.conductor.notifications.test_instances import Open, names, open_harness
from tests.tables import make_tables

__all__ = ["open_harness"]
KINDS = [RuntimeError("boom"), errors.Conflict("boom"), IntegrityError("boom", None, Exception("boom"))]


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[ConductorHarness]:
    url = f"sqlite:///{tmp_path}/minova.sqlite"
    make_tables(url)
    harness = ConductorHarness(url)
    yield harness
    harness.close()


@pytest.mark.parametrize("error", KINDS, ids=lambda error: type(error).__name__)
def test_only_members_that_fail_alone_have_failed(error: Exception) -> None:
    done: list[str] = []

    def work(some: Mapping[str, int]) -> None:
        if "b" in some:
            raise error
        done.extend(some)

    assert together_or_alone("Letters", {"a": 1, "b": 2, "c": 3}, work) == {"b": error}
    assert done == ["a", "c"]
    assert together_or_alone("Letters", {"b": 2}, work) == {"b": error}
    assert together_or_alone("Letters", {}, work) == {}


def test_a_database_that_is_away_is_no_members_error() -> None:
    def work(some: Mapping[str, int]) -> None:
        raise errors.ServiceUnavailable("away")

    with pytest.raises(errors.ServiceUnavailable):
        together_or_alone("Letters", {"a": 1, "b": 2}, work)


def test_results_of_audits_are_written_beside_one_that_cannot_be(
    harness: ConductorHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = node_audits.write

    def failing(session: Session, ended: Mapping[int, Any]) -> None:
        write(session, ended)
        if 2 in ended:
            raise RuntimeError("boom")

    monkeypatch.setattr(node_audits, "write", failing)
    with harness.db.write() as session:
        session.query(models.NodeAudit).delete()
    for node_id in (1, 2, 3):
        harness.conductor.collaborators.audit_results.ended(node_id, NodeAudit())
    harness.conductor.collaborators.audit_results.flush()
    with harness.db.read() as session:
        assert {row.node_id for row in session.query(models.NodeAudit)} == {1, 3}
    monkeypatch.undo()
    harness.conductor.collaborators.audit_results.flush()  # what could not be written is not tried for ever


def test_builds_are_sent_again_beside_one_whose_task_cannot_be_read(harness: ConductorHarness) -> None:
    uuids = harness.create(3)
    bad = update(models.Task).where(models.Task.instance_uuid == uuids[1]).values(payload={"alternates": "none"})
    harness.db.run(lambda session: session.execute(bad))
    for host in harness.hosts.values():
        host.builds.clear()
    harness.kill("one")
    harness.now += 1000
    harness.start("two")
    harness.settle()
    sent = {build.instance.uuid for host in harness.hosts.values() for build in host.builds}
    assert sent == {uuids[0], uuids[2]}


def test_builds_past_their_deadline_end_beside_one_that_cannot(
    harness: ConductorHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    uuids = harness.conductor.create_servers(CTX, request=request(3)).instance_uuids
    with harness.db.read() as session:
        epochs = {task.instance_uuid: task.epoch for task in session.query(models.Task)}

    def failing(session: Session, standings: Any, ended: Any, *more: Any) -> None:
        fail_builds(session, standings, ended, *more)
        if any(task.instance_uuid == uuids[1] for task in ended):
            raise RuntimeError("boom")

    monkeypatch.setattr(build_instances, "fail_builds", failing)
    harness.conductor.collaborators.servers.builds.expire(epochs, Failure(kind="BuildTimeout", details="too late"))
    assert [harness.instance(uuid).vm_state for uuid in uuids] == ["error", "building", "error"]


def test_a_notification_that_cannot_be_made_fails_neither_its_transaction_nor_others(
    open_harness: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = open_harness()
    bad: list[str] = []

    def failing(instance: Any, *more: Any) -> Any:
        if not bad:
            bad.append(instance.uuid)
        if instance.uuid in bad:
            raise RuntimeError("boom")
        return instance_info(instance, *more)

    monkeypatch.setattr(instances, "instance_info", failing)
    uuids = harness.create(2)
    assert [harness.instance(uuid).vm_state for uuid in uuids] == ["building", "building"]
    assert [event for _, event in names(harness)] == ["create.start"]


def test_a_purge_that_fails_does_not_end_the_others(harness: ConductorHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: Any) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr(db_purge, "deleted_instances", failing)
    old = {"id": "w", "host": "gone", "lease_until": START - 10_000}
    harness.db.run(lambda session: session.execute(insert(models.Worker), [old]))
    harness.conductor.collaborators.purge.purge()
    with harness.db.read() as session:
        assert session.get(models.Worker, "w") is None
