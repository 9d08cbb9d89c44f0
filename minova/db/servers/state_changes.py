"""Changes of instances' states. Each is one conditional update."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

from sqlalchemy import (
    ClauseElement,
    ColumnElement,
    Update,
    and_,
    bindparam,
    case,
    insert,
    or_,
    select,
    update,
)
from sqlalchemy.orm import Session

from minova.db.engine import WriteSession
from minova.db.models import Instance
from minova.db.servers.instances import LockedInstance, state_of
from minova.db.sql import in_list
from minova.objects.actions.transitions import allowed
from minova.objects.servers.states import State, TaskState, VmState

_TABLE: Any = Instance.__table__
_INSERT = insert(_TABLE)


class StateChange(NamedTuple):
    """A change of state. A new instance has no `before`."""

    uuid: str
    before: State | None
    after: State


class RecordingSession(WriteSession):
    """A session that records the changes of state of its transaction. Other sessions do not have that cost."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.state_changes: list[StateChange] = []


def insert_rows(session: Session, rows: Sequence[Mapping[str, Any]]) -> None:
    session.connection().execute(_INSERT, list(rows))
    if isinstance(session, RecordingSession):
        new_states = ((row["uuid"], state_of(row["vm_state"], row["task_state"])) for row in rows)
        session.state_changes.extend(StateChange(uuid, None, state) for uuid, state in new_states)


def transition(
    session: Session,
    uuids: Collection[str],
    before: Collection[State],
    after: State,
    *conditions: ColumnElement[bool],
    **values: Any,
) -> int:
    """Changes the state of instances whose state is one of `before` and that meet `conditions`. Returns how many
    changed.

    Raises AssertionError if the table of states does not allow the change.
    """
    assert all(allowed(state, after) for state in before), (before, after)
    if isinstance(session, RecordingSession):
        chosen = (Instance.uuid.in_(sorted(uuids)), Instance.deleted_at.is_(None), is_one_of(before), *conditions)
        session.state_changes.extend(_upcoming_changes(session, chosen, after))
    filled = {name: value for name, value in values.items() if not isinstance(value, ClauseElement)}
    expressions = {name: value for name, value in values.items() if name not in filled}
    statement = _transition(tuple(dict.fromkeys(before)), after, tuple(sorted(filled)))
    if conditions or expressions:
        statement = statement.where(*conditions).values({_column(name): value for name, value in expressions.items()})
    rows = {"some": sorted(uuids), **{f"b_{name}": value for name, value in filled.items()}}
    result: Any = session.connection().execute(statement, rows)
    return int(result.rowcount)


@lru_cache(256)
def _transition(before: tuple[State, ...], after: State, names: tuple[str, ...]) -> Update:
    """Built once: building it takes longer than running it. Uses the core table: the mapped class would search the
    session for the rows.
    """
    values: dict[Any, Any] = {_column(name): bindparam(f"b_{name}", type_=_column(name).type) for name in names}
    state = {_TABLE.c.vm_state: after[0].value, _TABLE.c.task_state: after[1] and after[1].value}
    statement = update(_TABLE).where(in_list(_TABLE.c.uuid), _TABLE.c.deleted_at.is_(None), is_one_of(before))
    return statement.values(state | values)


def _column(name: str) -> Any:
    """Returns a column of the table by the name of the attribute."""
    return _TABLE.c[Instance.__mapper__.columns[name].name]


def step_through(
    session: Session, uuid: str, vm_state: VmState, steps: Sequence[TaskState], *, updated_at: datetime
) -> None:
    """Moves the instance from the first of these task states to the last. Intermediate states are written only where
    changes of state are recorded.
    """
    passed = steps if isinstance(session, RecordingSession) else (*steps[:1], *steps[1:][-1:])
    for step, following in pairwise(passed):
        transition(session, [uuid], [(vm_state, step)], (vm_state, following), updated_at=updated_at)


class PreparedTransition:
    """The change of state of `transition`, for instances that differ in their conditions and values.

    The statement is built once. `conditions` and `values` hold `bindparam`s. Each row gives their values, and its
    instance as `b_uuid`.
    """

    def __init__(
        self,
        before: Collection[State],
        after: Mapping[VmState, State],
        *conditions: ColumnElement[bool],
        **values: Any,
    ) -> None:
        """`after`: the new state by the old vm_state."""
        assert all(allowed(state, after[state[0]]) for state in before), (before, after)
        self._after = after
        uuid = bindparam("b_uuid", type_=Instance.uuid.type)
        self._chosen = (Instance.uuid == uuid, Instance.deleted_at.is_(None), is_one_of(before), *conditions)
        state = {
            "vm_state": _by_vm_state({vm_state: new[0].value for vm_state, new in after.items()}),
            "task_state": _by_vm_state({vm_state: new[1] and new[1].value for vm_state, new in after.items()}),
        }
        table: Any = Instance.__table__  # not the mapped class, which would search the session for the rows
        columns = {_column(name): value for name, value in (state | values).items()}
        self._statement = update(table).where(*self._chosen).values(columns)

    def apply(self, session: Session, rows: Sequence[Mapping[str, Any]]) -> int:
        """Returns how many of the rows' instances changed. Rows must be in the order of their uuids, as all other
        writers lock them.
        """
        if isinstance(session, RecordingSession):
            for row in rows:
                session.state_changes.extend(_upcoming_changes(session, self._chosen, self._after, row))
        one_or_many: Any = rows[0] if len(rows) == 1 else list(rows)
        result: Any = session.connection().execute(self._statement, one_or_many)
        return int(result.rowcount)


def _by_vm_state(values: Mapping[VmState, str | None]) -> Any:
    """Returns the new value of a column: a constant, or a CASE over the row's vm_state.

    MariaDB sets columns in their order, so an expression must not read a column that was set before it. That holds
    here: each new value keeps the vm_state or is a constant.
    """
    if len({*values.values()}) == 1:
        return next(iter(values.values()))
    return case(*((Instance.__table__.c.vm_state == vm_state.value, value) for vm_state, value in values.items()))


def _upcoming_changes(
    session: Session,
    chosen: Iterable[ColumnElement[bool]],
    after: State | Mapping[VmState, State],
    filled: Mapping[str, Any] | None = None,
) -> list[StateChange]:
    """Returns the changes that an update is about to make, and locks their rows. `filled`: values of `bindparam`s in
    `chosen`.
    """
    query = select(Instance.uuid, Instance.vm_state, Instance.task_state).where(*chosen).order_by(Instance.uuid)
    rows = session.execute(query.with_for_update(), filled)
    changes = []
    for row in rows:
        before = state_of(row.vm_state, row.task_state)
        changes.append(StateChange(row.uuid, before, after if isinstance(after, tuple) else after[before[0]]))
    return changes


def reset_state(session: Session, locked: LockedInstance, after: State, at: datetime) -> None:
    """Sets the state that an administrator requests, whatever the old state was. The table of states restricts only
    services.
    """
    if isinstance(session, RecordingSession):
        session.state_changes.append(StateChange(locked.uuid, locked.state, after))
    values = {"vm_state": after[0].value, "task_state": after[1] and after[1].value, "updated_at": at}
    session.connection().execute(update(Instance).where(Instance.uuid == locked.uuid).values(values))


def is_one_of(states: Collection[State]) -> ColumnElement[bool]:
    """The condition that a row is in one of these states."""
    by_vm_state: dict[VmState, list[TaskState | None]] = {}
    for vm_state, task_state in states:
        by_vm_state.setdefault(vm_state, []).append(task_state)
    choices = []
    for vm_state, task_states in sorted(by_vm_state.items()):
        values = sorted(state.value for state in task_states if state is not None)
        fits: list[ColumnElement[bool]] = [Instance.task_state.is_(None)] if None in task_states else []
        # Not IN: its list of values does not work with executemany.
        fits += [Instance.task_state == name for name in values]
        choices.append(and_(Instance.vm_state == vm_state.value, or_(*fits)))
    return or_(*choices)
