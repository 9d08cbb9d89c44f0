"""Tasks and the workers that own them. Times are of the cloud clock."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Insert, Select, Update, bindparam, case, delete, func, insert, select, update
from sqlalchemy.orm import Session
from sqlalchemy.orm.attributes import set_committed_value

from minova.db.clock import for_insert, later
from minova.db.models import Instance, Migration, Task, TaskStep, Worker
from minova.db.sql import chunked, in_list
from minova.objects.servers.migration import ENDED, MigrationType

# Built once: every audit of every node runs them.
_BUILDS_ON_HOST = select(Task).where(
    Task.host == bindparam("on_host"), Task.kind == "build", Task.step == TaskStep.BUILD
)
_BUILDS_ON_NODE = _BUILDS_ON_HOST.where(Task.node == bindparam("on_node"))
# Steps that send messages to the host until it reports.
_UNTIL_REPORTED = (TaskStep.DELETE, TaskStep.ACTION, TaskStep.MOVE)
_TASKS: Any = Task.__table__
_WORKERS: Any = Worker.__table__
_REMOVE = delete(_TASKS).where(in_list(_TASKS.c.instance_uuid)).returning(_TASKS.c.action_id)
# In the order of `EndedBuild`.
_OF_BUILD = (
    _TASKS.c.instance_uuid,
    _TASKS.c.reservation_id,
    _TASKS.c.action_id,
    select(Instance.shelved_image_id)
    .where(Instance.uuid == _TASKS.c.instance_uuid)
    .correlate(_TASKS)
    .scalar_subquery()
    .label("image_id"),
    select(Migration.id)
    .where(
        Migration.instance_uuid == _TASKS.c.instance_uuid,
        Migration.migration_type == MigrationType.EVACUATION,
        Migration.status.not_in(sorted(ENDED)),
    )
    .correlate(_TASKS)
    .exists()
    .label("evacuated"),
)
_BUILDS: Any = select(*_OF_BUILD).where(in_list(_TASKS.c.instance_uuid))
_END_BUILDS = delete(_TASKS).where(in_list(_TASKS.c.instance_uuid)).returning(*_OF_BUILD)
# Overwrites what the session may have read before the lock.
_LOCK = (
    select(Task)
    .where(in_list(Task.instance_uuid))
    .order_by(Task.instance_uuid)
    .with_for_update()
    .execution_options(populate_existing=True)
)


# The database's clock is one expression, made once. Tests use a new expression for each moment.
@lru_cache(16)
def _insert(now: ColumnElement[float]) -> Insert:
    times = {"wake_at": now + bindparam("b_wake_in"), "deadline": now + bindparam("b_deadline_in"), "begun_at": now}
    return insert(_TASKS).values(times)


@lru_cache(64)
def _update(now: ColumnElement[float], names: tuple[str, ...], *, deadline: bool) -> Update:
    """Uses the core table: the mapped class would search the session for the rows."""
    values: dict[str, Any] = {name: bindparam(f"b_{name}", type_=_TASKS.c[name].type) for name in names}
    if deadline:
        values["deadline"] = now + bindparam("b_deadline_in")
    return update(_TASKS).where(_TASKS.c.id == bindparam("b_id")).values(wake_at=now + bindparam("b_wake_in"), **values)


@lru_cache(16)
def _count_by_step(now: ColumnElement[float]) -> "Select[str, int, int]":
    """Built once, as what follows: every conductor runs these every second, and renews its lease twice in it."""
    due_count = func.count(case((Task.wake_at <= now, 1)))
    return select(Task.step, func.count(), due_count).where(Task.worker_id == bindparam("b_worker")).group_by(Task.step)


@lru_cache(16)
def _due_tasks(now: ColumnElement[float]) -> Select[Any]:
    own = select(Task).where(Task.worker_id == bindparam("b_worker"), Task.wake_at <= now)
    return own.order_by(Task.wake_at, Task.id).limit(bindparam("b_limit"))


@lru_cache(16)
def _renewal(now: ColumnElement[float]) -> Update:
    until = later(_WORKERS.c.lease_until, now + bindparam("b_lease"))
    return update(_WORKERS).where(_WORKERS.c.id == bindparam("b_worker")).values(lease_until=until)


@lru_cache(16)
def _orphaned(now: ColumnElement[float]) -> Select[Any]:
    owns = select(Task.id).where(Task.worker_id == Worker.id).exists()
    return select(Worker.id).where(Worker.id != bindparam("b_worker"), Worker.lease_until <= now, owns).limit(1)


def insert_rows(session: Session, rows: Sequence[Mapping[str, Any]], now: ColumnElement[float]) -> None:
    """`wake_at` and `deadline` of the rows are in seconds from now."""
    renamed = {"wake_at": "b_wake_in", "deadline": "b_deadline_in"}
    filled = [{renamed.get(k, k): v for k, v in row.items()} for row in rows]
    session.connection().execute(_insert(for_insert(session, now)), filled)


def lock(session: Session, instance_uuids: Iterable[str]) -> dict[str, Task]:
    """Locks and returns the tasks by instance uuid. The caller has locked the instances: see `instances.lock`."""
    locked = {}
    for chunk in chunked(sorted(instance_uuids)):
        locked.update({task.instance_uuid: task for task in session.scalars(_LOCK, {"some": chunk})})
    return locked


def change(
    session: Session,
    changes: Sequence[tuple[Task, Mapping[str, Any]]],
    wake_in: float,
    now: ColumnElement[float],
    *,
    deadline_in: float | None = None,
) -> None:
    """Writes the same fields of many locked tasks in one statement. The tasks are processed again in `wake_in` seconds.

    `deadline_in`: seconds until their new deadline; None: unchanged.
    """
    if not changes:
        return
    statement = _update(now, tuple(changes[0][1]), deadline=deadline_in is not None)
    times = {"b_wake_in": wake_in} | ({"b_deadline_in": deadline_in} if deadline_in is not None else {})
    rows = [{"b_id": task.id, **times, **{f"b_{name}": value for name, value in new.items()}} for task, new in changes]
    session.connection().execute(statement, rows if len(rows) > 1 else rows[0])
    for task, new in changes:
        for name, value in new.items():
            set_committed_value(task, name, value)


def payload_on(session: Session, instance_uuid: str, host: str, kind: str) -> dict[str, Any] | None:
    """Returns the payload of the instance's task of this kind if it waits for this host."""
    return session.scalar(
        select(Task.payload).where(Task.instance_uuid == instance_uuid, Task.host == host, Task.kind == kind)
    )


def kind_of(session: Session, instance_uuid: str) -> str | None:
    """Returns the kind of the instance's task."""
    return session.scalar(select(Task.kind).where(Task.instance_uuid == instance_uuid))


def set_payload(session: Session, task: Task, payload: Mapping[str, Any]) -> None:
    """Changes the payload of a locked task. `wake_at` does not change."""
    session.connection().execute(update(Task).where(Task.id == task.id).values(payload=payload))
    set_committed_value(task, "payload", payload)


def remove(session: Session, instance_uuids: Collection[str]) -> list[int]:
    """Removes the tasks of these instances. Returns the ids of their actions."""
    action_ids: list[int | None] = []
    connection = session.connection()
    for chunk in chunked(sorted(instance_uuids)):
        if connection.dialect.delete_returning:
            action_ids += connection.scalars(_REMOVE, {"some": chunk})
        else:
            action_ids += connection.scalars(select(Task.action_id).where(Task.instance_uuid.in_(chunk)))
            connection.execute(delete(_TASKS).where(_TASKS.c.instance_uuid.in_(chunk)))
    return [action_id for action_id in action_ids if action_id is not None]


class EndedBuild(NamedTuple):
    """A build whose task is removed.

    `image_id`: of a server that was unshelved.
    `evacuated`: whether it was built on another host than the one that is down.
    """

    instance_uuid: str
    reservation_id: str
    action_id: int | None
    image_id: str | None
    evacuated: bool


def end_builds(session: Session, instance_uuids: Collection[str]) -> list[EndedBuild]:
    """Removes the tasks of these locked instances, which are built. Returns what was built."""
    rows: list[Any] = []
    connection = session.connection()
    for chunk in chunked(sorted(instance_uuids)):
        if connection.dialect.delete_returning:
            rows += connection.execute(_END_BUILDS, {"some": chunk})
        else:
            rows += connection.execute(_BUILDS, {"some": chunk})
            connection.execute(delete(_TASKS).where(_TASKS.c.instance_uuid.in_(chunk)))
    return [EndedBuild(*row) for row in rows]


def due(session: Session, worker_id: str, now: ColumnElement[float], limit: int) -> Sequence[Task]:
    """Returns the worker's tasks whose `wake_at` has passed, those that wait longest first."""
    return session.scalars(_due_tasks(now), {"b_worker": worker_id, "b_limit": limit}).all()


class TaskCount(NamedTuple):
    """`due`: those of them whose `wake_at` has passed."""

    all: int
    due: int


def count_by_step(session: Session, worker_id: str, now: ColumnElement[float]) -> dict[str, TaskCount]:
    """Counts the worker's tasks by step."""
    rows = session.connection().execute(_count_by_step(now), {"b_worker": worker_id})
    return {step: TaskCount(count, due_count) for step, count, due_count in rows}


def past_deadline(session: Session, instance_uuids: Iterable[str], now: ColumnElement[float]) -> set[str]:
    """Returns the instances whose tasks are past their deadline."""
    overdue: set[str] = set()
    for chunk in chunked(sorted(instance_uuids)):
        query = select(Task.instance_uuid).where(Task.instance_uuid.in_(chunk), Task.deadline <= now)
        overdue.update(session.scalars(query))
    return overdue


def on_hosts(
    session: Session, worker_id: str, hosts: Collection[str], steps: Collection[str], limit: int
) -> Sequence[Task]:
    """Returns the worker's tasks in one of these steps that wait for one of these hosts."""
    waiting_tasks: list[Task] = []
    for chunk in chunked(sorted(hosts)):
        query = select(Task).where(Task.worker_id == worker_id, Task.host.in_(chunk), Task.step.in_(steps))
        query = query.order_by(Task.id)
        waiting_tasks += session.scalars(query.limit(limit - len(waiting_tasks)))
    return waiting_tasks


def unreported_on(session: Session, host: str) -> Sequence[Task]:
    """Returns all workers' tasks that send messages to this host until it reports, in the order in which tasks are
    locked.
    """
    query = select(Task).where(Task.host == host, Task.step.in_(_UNTIL_REPORTED))
    return session.scalars(query.order_by(Task.instance_uuid)).all()


def builds_since(session: Session, worker_id: str, before: ColumnElement[float], limit: int) -> Sequence[Task]:
    """Returns the worker's builds that were requested before `before`, whatever they wait for."""
    query = select(Task).where(Task.worker_id == worker_id, Task.kind == "build", Task.begun_at <= before)
    return session.scalars(query.order_by(Task.id).limit(limit)).all()


def builds_on(session: Session, host: str, node: str | None = None) -> Sequence[Task]:
    """Returns open builds that are committed to the host."""
    if node is None:
        return session.scalars(_BUILDS_ON_HOST, {"on_host": host}).all()
    return session.scalars(_BUILDS_ON_NODE, {"on_host": host, "on_node": node}).all()


class TaskLocation(NamedTuple):
    """The host and the node that a task works on, with its step and its build attempt."""

    host: str | None = None
    node: str | None = None
    step: str = ""
    attempt: int = 0


def locations(session: Session, instance_uuids: Iterable[str]) -> dict[str, TaskLocation]:
    """Returns the locations of the tasks of these instances."""
    by_uuid: dict[str, TaskLocation] = {}
    for chunk in chunked(list(instance_uuids)):
        query = select(Task.instance_uuid, Task.host, Task.node, Task.step, Task.attempt)
        rows = session.execute(query.where(Task.instance_uuid.in_(chunk)))
        by_uuid.update({uuid: TaskLocation(host, node, step, attempt) for uuid, host, node, step, attempt in rows})
    return by_uuid


# -- workers -----------------------------------------------------------------------------------------------------------


def register_worker(session: Session, worker_id: str, host: str, now: ColumnElement[float], lease: float) -> None:
    """Creates the worker's row. An earlier worker of the same host has ended, or is fenced off when its tasks are taken
    over.
    """
    until = for_insert(session, now) + lease
    values = {"id": worker_id, "host": host, "lease_until": until, "cloud_clock": True}
    session.connection().execute(update(Worker).where(Worker.host == host).values(lease_until=0.0))
    session.connection().execute(insert(Worker).values(**values))


def renew_lease(session: Session, worker_id: str, now: ColumnElement[float], lease: float) -> bool:
    """Returns whether there was a row to renew. This never shortens a lease: see `end_lease`."""
    result: Any = session.connection().execute(_renewal(now), {"b_worker": worker_id, "b_lease": lease})
    return bool(result.rowcount)


def first_worker(session: Session, now: ColumnElement[float]) -> str | None:
    """Returns the lowest id of the workers whose lease is valid: every worker gets the same answer."""
    return session.scalar(select(func.min(Worker.id)).where(Worker.lease_until > now))


def unclaimed(session: Session, worker_id: str, instance_uuids: Collection[str] | None = None) -> Sequence[Task]:
    """Returns the worker's tasks, all or those of these instances, that wait for a host that may not have received
    them: builds that the host has not claimed, deletions and server actions.
    """
    # The row of a server that is evacuated names the host that is down until the next one claims it.
    elsewhere = Instance.host.is_(None) | (Instance.host != Task.host)
    waiting = select(Instance.uuid).where(Instance.uuid == Task.instance_uuid, elsewhere).exists()
    own_tasks = select(Task).where(
        Task.worker_id == worker_id, Task.step.in_(_UNTIL_REPORTED) | ((Task.step == TaskStep.BUILD) & waiting)
    )
    if instance_uuids is None:
        return session.scalars(own_tasks.order_by(Task.id)).all()
    unclaimed_tasks: list[Task] = []
    for chunk in chunked(sorted(instance_uuids)):
        unclaimed_tasks += session.scalars(own_tasks.where(Task.instance_uuid.in_(chunk)).order_by(Task.id))
    return unclaimed_tasks


def any_orphaned(session: Session, worker_id: str, now: ColumnElement[float]) -> bool:
    """Whether another worker whose lease has ended owns tasks. Reads few rows and writes nothing."""
    return session.connection().scalar(_orphaned(now), {"b_worker": worker_id}) is not None


def count_living(session: Session, now: ColumnElement[float]) -> int:
    """Returns the number of workers whose lease is valid."""
    return session.scalar(select(func.count()).select_from(Worker).where(Worker.lease_until > now)) or 0


def end_lease(session: Session, worker_id: str) -> None:
    """Ends the lease, so that other workers may take its tasks over at once."""
    session.connection().execute(update(Worker).where(Worker.id == worker_id).values(lease_until=0.0))


def take_over(session: Session, worker_id: str, now: ColumnElement[float], limit: int) -> list[Task]:
    """Makes this worker the owner of tasks whose owner's lease has ended, and raises their epoch. Returns the tasks
    that it got.

    The update itself has the condition, so if two workers try, only one gets a task.
    """
    living = select(Worker.id).where(Worker.lease_until > now)
    orphaned = (Task.worker_id != worker_id) & Task.worker_id.not_in(living)
    ids = session.scalars(select(Task.id).where(orphaned).order_by(Task.id).limit(limit)).all()
    if not ids:
        return []
    changes = {"worker_id": worker_id, "epoch": Task.epoch + 1, "begun_at": func.coalesce(Task.begun_at, now)}
    statement = update(Task).where(Task.id.in_(ids), orphaned).values(changes)
    session.connection().execute(statement)
    return list(session.scalars(select(Task).where(Task.id.in_(ids), Task.worker_id == worker_id)))


def forget_workers(session: Session, before: ColumnElement[float]) -> None:
    """Removes workers that own no task and whose lease ended before `before`."""
    owners = select(Task.worker_id).distinct().scalar_subquery()
    before = for_insert(session, before)
    session.connection().execute(delete(Worker).where(Worker.lease_until < before, Worker.id.not_in(owners)))
