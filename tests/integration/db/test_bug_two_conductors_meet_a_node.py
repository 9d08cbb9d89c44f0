"""Two conductors that wrote the first audit of a node at the same moment, or the first heartbeat of a service, met an
IntegrityError: the log had a traceback, and the audits of a second waited.
"""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from minova.conductor.hosts.audit_results import AuditResults
from minova.conductor.tasks.worker import TaskWorker
from minova.db import models
from minova.db.engine import Database
from minova.db.hosts import node_audits
from minova.objects.hosts.node_audit import NodeAudit
from tests.functional.conductor.conductor_harness import ConductorHarness

BOTH = 2


@pytest.fixture(params=["postgresql_tables", "mariadb_tables"])
def url(request: pytest.FixtureRequest) -> str:
    database_url: str = request.getfixturevalue(request.param)
    return database_url


@pytest.fixture
def db(url: str) -> Iterator[Database]:
    harness = ConductorHarness(url, hosts=("a", "b"))
    yield harness.db
    harness.close()


def test_both_write_the_first_audit(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    with db.read() as session:
        node_ids = session.scalars(select(models.ComputeNode.id)).all()
    barrier = threading.Barrier(BOTH)
    write: Callable[..., None] = node_audits._write
    met: set[int] = set()

    def together(session: Session, *arguments: Any) -> None:
        """Both have looked before either writes, the first time."""
        me = threading.get_ident()
        if me not in met:
            met.add(me)
            barrier.wait(30)
        write(session, *arguments)

    monkeypatch.setattr(node_audits, "_write", together)
    both = [
        AuditResults(TaskWorker(db, host=name, lease=60, threads=1, spawn=lambda work: work()))
        for name in ("one", "two")
    ]
    for audits in both:
        for node_id in node_ids:
            audits.ended(node_id, NodeAudit())
    with ThreadPoolExecutor(BOTH) as pool:
        list(pool.map(lambda audits: audits.flush(), both))
    with db.read() as session:
        assert session.scalar(select(func.count(models.NodeAudit.node_id))) == len(node_ids)
