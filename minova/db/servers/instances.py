"""Instances as the conductor reads and changes them. A change of state is one conditional update."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import ColumnElement, Select, and_, bindparam, func, insert, or_, select, update
from sqlalchemy.orm import Session

from minova.db import pci_devices
from minova.db.engine import WriteSession
from minova.db.models import Instance, PurgedInstance, RequestSpecRow
from minova.db.sql import chunked, in_list
from minova.objects import instance as objects
from minova.objects.image import Image
from minova.objects.states import RESOURCE_FREE, PowerState, State, TaskState, VmState
from minova.objects.transitions import allowed

_STRAIGHT = (
    "uuid",
    "display_name",
    "flavor",
    "project_id",
    "user_id",
    "hostname",
    "image_ref",
    "host",
    "node",
    "availability_zone",
    "attempt",
    "launch_index",
    "reservation_id",
    "system_metadata",
    "user_data",
    "key_name",
    "config_drive",
    "numa_topology",
    "progress",
    "created_at",
    "updated_at",
    "launched_at",
    "terminated_at",
)
_COLUMNS = [
    *(getattr(Instance, name) for name in _STRAIGHT),
    Instance.metadata_.label("metadata"),
    Instance.vm_state,
    Instance.task_state,
    Instance.power_state,
    Instance.deleted_at,
    RequestSpecRow.spec,
]
# Built once: every audit of every node asks them.
_WHOLE = (
    select(*_COLUMNS)
    .outerjoin(RequestSpecRow, RequestSpecRow.reservation_id == Instance.reservation_id)
    .order_by(Instance.id)
)
_ON_HOST = _WHOLE.where(
    Instance.host == bindparam("on_host"),
    Instance.deleted_at.is_(None),
    Instance.vm_state.not_in([state.value for state in RESOURCE_FREE]),
)
_ON_NODE = _ON_HOST.where(Instance.node == bindparam("on_node"))
_BY_UUID = _WHOLE.where(in_list(Instance.uuid))
_TABLE: Any = Instance.__table__
_STANDING = (
    select(
        *(
            _TABLE.c[name]
            for name in (
                "uuid",
                "vm_state",
                "task_state",
                "attempt",
                "host",
                "node",
                "user_id",
                "project_id",
                "deleted_at",
                "launched_at",
            )
        )
    )
    .where(in_list(_TABLE.c.uuid))
    .order_by(_TABLE.c.uuid)
    .with_for_update()
)
_INSERT = insert(_TABLE)
_BEGIN_ATTEMPT = (
    update(_TABLE)
    .where(in_list(_TABLE.c.uuid))
    .values(attempt=bindparam("b_attempt"), updated_at=bindparam("b_at", type_=_TABLE.c.updated_at.type))
)


class StateChange(NamedTuple):
    """A change of state; of a new instance there is no `before`."""

    uuid: str
    before: State | None
    after: State


class RecordingSession(WriteSession):
    """A session that records the changes of state of its transaction. Other sessions do not pay for that."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.state_changes: list[StateChange] = []


class LockedInstance(NamedTuple):
    """An instance's state, attempt, place and owner, read under its lock."""

    uuid: str
    state: State
    attempt: int
    host: str | None
    node: str | None
    user_id: str
    project_id: str
    deleted: bool
    launched: bool = True

    @property
    def deleting(self) -> bool:
        return self.state[1] is TaskState.DELETING


def insert_rows(session: Session, rows: Sequence[Mapping[str, Any]]) -> None:
    session.connection().execute(_INSERT, list(rows))
    if isinstance(session, RecordingSession):
        made = ((row["uuid"], state_of(row["vm_state"], row["task_state"])) for row in rows)
        session.state_changes.extend(StateChange(uuid, None, state) for uuid, state in made)


def lock(session: Session, uuids: Iterable[str]) -> dict[str, LockedInstance]:
    """Of those that have a row, deleted or not. Every transaction that locks takes instances first, then tasks."""
    locked = {}
    for chunk in chunked(sorted(uuids)):
        for row in session.connection().execute(_STANDING, {"some": chunk}):
            state = state_of(row.vm_state, row.task_state)
            locked[row.uuid] = LockedInstance(
                row.uuid,
                state,
                row.attempt,
                row.host,
                row.node,
                row.user_id,
                row.project_id,
                row.deleted_at is not None,
                row.launched_at is not None,
            )
    return locked


def transition(
    session: Session,
    uuids: Collection[str],
    before: Collection[State],
    after: State,
    *conditions: ColumnElement[bool],
    **values: Any,
) -> int:
    """Change the state of instances where it is one of `before` and `conditions` hold. Returns how many changed.

    Raises AssertionError if the table of states does not allow the change.
    """
    assert all(allowed(state, after) for state in before), (before, after)
    chosen = (Instance.uuid.in_(sorted(uuids)), Instance.deleted_at.is_(None), is_one_of(before), *conditions)
    if isinstance(session, RecordingSession):
        session.state_changes.extend(_upcoming_changes(session, chosen, after))
    statement = (
        update(Instance)
        .where(*chosen)
        .values(vm_state=after[0].value, task_state=after[1] and after[1].value, **values)
    )
    result: Any = session.connection().execute(statement)
    return int(result.rowcount)


class PreparedTransition:
    """The change of state of `transition`, for instances that differ in their conditions and values.

    The statement is made once. `conditions` and `values` hold `bindparam`s; each row fills them, and names its instance
    with `b_uuid`.
    """

    def __init__(
        self, before: Collection[State], after: State, *conditions: ColumnElement[bool], **values: Any
    ) -> None:
        assert all(allowed(state, after) for state in before), (before, after)
        self._after = after
        uuid = bindparam("b_uuid", type_=Instance.uuid.type)
        self._chosen = (Instance.uuid == uuid, Instance.deleted_at.is_(None), is_one_of(before), *conditions)
        state = {"vm_state": after[0].value, "task_state": after[1] and after[1].value}
        table: Any = Instance.__table__  # not the mapped class, which would look for the rows in the session
        columns = {table.c[Instance.__mapper__.columns[name].name]: value for name, value in (state | values).items()}
        self._statement = update(table).where(*self._chosen).values(columns)

    def apply(self, session: Session, rows: Sequence[Mapping[str, Any]]) -> int:
        """How many of the rows' instances changed. Rows in the order of their uuids lock like all other writers."""
        if isinstance(session, RecordingSession):
            for row in rows:
                session.state_changes.extend(_upcoming_changes(session, self._chosen, self._after, row))
        one_or_many: Any = rows[0] if len(rows) == 1 else list(rows)
        result: Any = session.connection().execute(self._statement, one_or_many)
        return int(result.rowcount)


def _upcoming_changes(
    session: Session, chosen: Iterable[ColumnElement[bool]], after: State, filled: Mapping[str, Any] | None = None
) -> list[StateChange]:
    """The changes that an update is about to make, with their rows locked. `filled`: values of `bindparam`s in `chosen`."""
    query = select(Instance.uuid, Instance.vm_state, Instance.task_state).where(*chosen).order_by(Instance.uuid)
    rows = session.execute(query.with_for_update(), filled)
    return [StateChange(row.uuid, state_of(row.vm_state, row.task_state), after) for row in rows]


def begin_attempt(session: Session, uuids: Collection[str], attempt: int, at: datetime) -> None:
    """From now on reports of lower attempts are stale."""
    session.connection().execute(_BEGIN_ATTEMPT, {"some": sorted(uuids), "b_attempt": attempt, "b_at": at})


def deleted_at(session: Session, uuids: Iterable[str]) -> dict[str, datetime]:
    """Of those that are deleted, and not purged yet."""
    times: dict[str, datetime] = {}
    for chunk in chunked(sorted(set(uuids))):
        query = select(Instance.uuid, Instance.deleted_at).where(Instance.uuid.in_(chunk))
        times.update({uuid: at for uuid, at in session.execute(query) if at is not None})
    return times


def without_row(session: Session, uuids: Collection[str]) -> dict[str, bool]:
    """Those of these that have no row, and whether that is because they were purged."""
    known = row_hosts(session, uuids) if uuids else {}
    missing = sorted(set(uuids) - known.keys())
    purged: set[str] = set()
    for chunk in chunked(missing):
        purged.update(session.scalars(select(PurgedInstance.uuid).where(PurgedInstance.uuid.in_(chunk))))
    return {uuid: uuid in purged for uuid in missing}


def row_hosts(session: Session, uuids: Iterable[str]) -> dict[str, str | None]:
    """The host of each that has a row, deleted or not."""
    hosts: dict[str, str | None] = {}
    for chunk in chunked(sorted(set(uuids))):
        query = select(Instance.uuid, Instance.host).where(Instance.uuid.in_(chunk))
        hosts.update((uuid, host) for uuid, host in session.execute(query))
    return hosts


def set_power_states(session: Session, host: str, states: Mapping[str, int], at: datetime) -> None:
    """Of the host's own idle instances, where they differ. What a task does to an instance is that task's to say."""
    for state in sorted(set(states.values())):
        for chunk in chunked(sorted(uuid for uuid in states if states[uuid] == state)):
            statement = update(Instance).where(
                Instance.uuid.in_(chunk),
                Instance.host == host,
                Instance.deleted_at.is_(None),
                Instance.task_state.is_(None),
                Instance.power_state != state,
            )
            session.connection().execute(statement.values(power_state=state, updated_at=at))


class IdleInstance(NamedTuple):
    uuid: str
    project_id: str
    user_id: str


def idle_in(session: Session, host: str, uuids: Iterable[str], vm_states: Iterable[VmState]) -> list[IdleInstance]:
    """The host's own instances in these states that have no task; locked."""
    idle: list[IdleInstance] = []
    model, names = Instance, [state.value for state in vm_states]
    for chunk in chunked(sorted(set(uuids))):
        query = select(model.uuid, model.project_id, model.user_id).where(
            model.uuid.in_(chunk),
            model.host == host,
            model.deleted_at.is_(None),
            model.task_state.is_(None),
            model.vm_state.in_(names),
        )
        rows = session.execute(query.order_by(model.uuid).with_for_update())
        idle += [IdleInstance(*row) for row in rows]
    return idle


def is_one_of(states: Collection[State]) -> ColumnElement[bool]:
    """The condition that a row is in one of these states."""
    by_vm_state: dict[VmState, list[TaskState | None]] = {}
    for vm_state, task_state in states:
        by_vm_state.setdefault(vm_state, []).append(task_state)
    choices = []
    for vm_state, task_states in sorted(by_vm_state.items()):
        named = sorted(state.value for state in task_states if state is not None)
        fits: list[ColumnElement[bool]] = [Instance.task_state.is_(None)] if None in task_states else []
        # Not IN, whose list of values cannot be executed for many rows at once.
        fits += [Instance.task_state == name for name in named]
        choices.append(and_(Instance.vm_state == vm_state.value, or_(*fits)))
    return or_(*choices)


def load(session: Session, *conditions: ColumnElement[bool]) -> list[objects.Instance]:
    """As the services tell each other of them, with the image of their request and the devices that they have."""
    return _loaded(session, _WHOLE.where(*conditions), {})


def by_uuids(session: Session, uuids: Iterable[str]) -> dict[str, objects.Instance]:
    """Those that have a row, by uuid: as `load`."""
    return {
        instance.uuid: instance
        for chunk in chunked(sorted(uuids))
        for instance in _loaded(session, _BY_UUID, {"some": chunk})
    }


def holding(session: Session, host: str, node: str | None = None) -> list[objects.Instance]:
    """Those that hold something of the host, or of one node of it: as `load`."""
    if node is None:
        return _loaded(session, _ON_HOST, {"on_host": host})
    return _loaded(session, _ON_NODE, {"on_host": host, "on_node": node})


def _loaded(session: Session, query: Select[Any], values: Mapping[str, Any]) -> list[objects.Instance]:
    instances = [to_object(row._mapping) for row in session.execute(query, values)]
    devices = pci_devices.of_instances(session, [instance.uuid for instance in instances if instance.pci_requests])
    return [
        msgspec.structs.replace(instance, pci_devices=devices.get(instance.uuid, ())) if devices else instance
        for instance in instances
    ]


def to_object(row: Mapping[Any, Any]) -> objects.Instance:
    """Without its devices."""
    spec = row["spec"]
    image: Image | None = spec.image if spec is not None else None
    vm_state, task_state = state_of(row["vm_state"], row["task_state"])
    return objects.Instance(
        **{name: row[name] for name in _STRAIGHT},
        metadata=row["metadata"],
        image=image,
        pci_requests=spec.pci_requests if spec is not None else (),
        vm_state=vm_state,
        task_state=task_state,
        power_state=PowerState(row["power_state"]),
        deleted=row["deleted_at"] is not None,
    )


def state_of(vm_state: str, task_state: str | None) -> State:
    return VmState(vm_state), TaskState(task_state) if task_state is not None else None


def count_on(session: Session, hosts: Iterable[str]) -> int:
    """How many stand on these hosts, in whatever state."""
    total = 0
    for chunk in chunked(list(hosts)):
        query = select(func.count(Instance.id)).where(Instance.host.in_(chunk), Instance.deleted_at.is_(None))
        total += session.scalar(query) or 0
    return total


class Location(NamedTuple):
    host: str | None
    node: str | None


def locations(session: Session, uuids: Iterable[str]) -> dict[str, Location]:
    """Of instances that have a row. Deleted instances have neither host nor node."""
    by_uuid: dict[str, Location] = {}
    model = Instance
    for chunk in chunked(list(uuids)):
        query = select(model.uuid, model.host, model.node, model.deleted_at).where(model.uuid.in_(chunk))
        for uuid, host, node, deleted_at in session.execute(query):
            by_uuid[uuid] = Location(host, node) if deleted_at is None else Location(None, None)
    return by_uuid
