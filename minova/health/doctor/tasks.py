"""Tasks past their time, and servers that wait for a task that is not there."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from sqlalchemy import func, select

from minova.db.models import Instance, Migration, Task, Worker
from minova.health.doctor.findings import Finding, Patient
from minova.objects.servers.migration import ENDED

AREA = "tasks"
# Seconds that a conductor may need to end a task whose time is over, and to take over the tasks of another one.
GRACE = 60.0


def check(patient: Patient) -> Iterator[Finding]:
    yield from _overdue(patient)
    yield from _without_worker(patient)
    yield from _without_task(patient)


def _overdue(patient: Patient) -> Iterator[Finding]:
    seconds_late = patient.db.now() - Task.deadline
    query = (
        select(Task.instance_uuid, Task.kind, Task.step, Task.host, seconds_late)
        .where(seconds_late > GRACE)
        .order_by(Task.id)
    )
    for uuid, kind, step, host, seconds in patient.session.execute(query):
        yield Finding(
            area=AREA,
            subject=f"the task {kind} ({step}) of server {uuid}",
            problem="is past its time",
            detail=f"by {seconds:.0f} s" + (f", on {host}" if host else ""),
            mend=f"minova server event list {uuid}; minova server set {uuid} --state active ends an action",
        )


def _without_worker(patient: Patient) -> Iterator[Finding]:
    expired = func.coalesce(Worker.lease_until, 0.0) < patient.db.now() - GRACE
    query = (
        select(Task.worker_id, func.count())
        .outerjoin(Worker, Worker.id == Task.worker_id)
        .where(expired)
        .group_by(Task.worker_id)
    )
    for worker, count in patient.session.execute(query):
        yield Finding(
            area=AREA,
            subject=f"tasks of worker {worker}",
            problem="have no living conductor",
            detail=f"{count} of them",
            mend=f"systemctl start {patient.unit('minova-conductor')}: it takes them over",
        )


def _without_task(patient: Patient) -> Iterator[Finding]:
    before = datetime.fromtimestamp(patient.now, UTC).replace(tzinfo=None) - timedelta(seconds=GRACE)
    has_task = select(Task.id).where(Task.instance_uuid == Instance.uuid).exists()
    moves = select(Migration.id).where(Migration.instance_uuid == Instance.uuid, Migration.status.not_in(sorted(ENDED)))
    query = select(Instance.uuid, Instance.task_state).where(
        Instance.deleted_at.is_(None),
        Instance.task_state.is_not(None),
        func.coalesce(Instance.updated_at, Instance.created_at) < before,
        ~has_task,
        ~moves.exists(),
    )
    for uuid, task_state in patient.session.execute(query.order_by(Instance.id)):
        yield Finding(
            area=AREA,
            subject=f"server {uuid}",
            problem="waits for a task that is not there",
            detail=f"its task state is {task_state}",
            mend=f"minova server set {uuid} --state active",
        )
