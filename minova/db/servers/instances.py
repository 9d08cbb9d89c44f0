"""Instances as rows and as objects: what the conductor reads of them, and locks."""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import (
    ColumnElement,
    Select,
    bindparam,
    case,
    exists,
    func,
    null,
    or_,
    select,
    true,
    update,
)
from sqlalchemy.orm import Session

from minova.db.models import (
    Instance,
    Migration,
    NeutronPort,
    Port,
    PurgedInstance,
    RequestSpecRow,
    Task,
    TaskStep,
)
from minova.db.networks import vifs
from minova.db.servers import pci_devices
from minova.db.servers.request_specs import image_of_server
from minova.db.sql import chunked, in_list
from minova.objects.network.vif import Vif
from minova.objects.requests.request_spec import RequestSpec
from minova.objects.servers import instance as objects
from minova.objects.servers.migration import ENDED
from minova.objects.servers.states import (
    EVACUABLE,
    EVACUATION_STEPS,
    RESOURCE_FREE,
    UNSHELVING_STEPS,
    PowerState,
    State,
    TaskState,
    VmState,
    power_state_of,
)

_PLAIN_COLUMNS = (
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
    "key_data",
    "key_type",
    "config_drive",
    "numa_topology",
    "progress",
    "created_at",
    "updated_at",
    "launched_at",
    "terminated_at",
)
_COLUMNS = [
    *(getattr(Instance, name) for name in _PLAIN_COLUMNS),
    Instance.metadata_.label("metadata"),
    Instance.vm_state,
    Instance.task_state,
    Instance.power_state,
    Instance.deleted_at,
    Instance.image,
    RequestSpecRow.spec,
]


def is_holding() -> ColumnElement[bool]:
    """The condition that a row with a host holds resources there: the negation of `objects.states.is_resource_free`."""
    return or_(
        Instance.vm_state.not_in(sorted(state.value for state in RESOURCE_FREE)), Instance.task_state.is_not(None)
    )


# Built once: every audit of every node runs them.
_WHOLE = (
    select(*_COLUMNS)
    .outerjoin(RequestSpecRow, RequestSpecRow.reservation_id == Instance.reservation_id)
    .order_by(Instance.id)
)
# Columns that only a build needs and that may be long. Otherwise every audit would send them for each instance of the
# host.
_OF_BUILDS = ("user_data", "key_data")
_ON_HOST = _WHOLE.with_only_columns(
    *(null().label(column.key) if column.key in _OF_BUILDS else column for column in _COLUMNS)
).where(
    Instance.host == bindparam("on_host"),
    Instance.deleted_at.is_(None),
    is_holding(),
)
_ON_NODE = _ON_HOST.where(Instance.node == bindparam("on_node"))
# Most instances have no ports of one kind or of either: statements for those are left out.
_BY_UUID = _WHOLE.add_columns(
    exists().where(Port.instance_uuid == Instance.uuid).label("has_ports"),
    exists().where(NeutronPort.instance_uuid == Instance.uuid).label("has_neutron_ports"),
).where(in_list(Instance.uuid))
_TABLE: Any = Instance.__table__
_STATE_COLUMNS = (
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
    "locked_by",
    "shelved_image_id",
    "power_state",
)
_STATES = select(*(_TABLE.c[name] for name in _STATE_COLUMNS)).where(in_list(_TABLE.c.uuid)).order_by(_TABLE.c.uuid)
_LOCK = _STATES.with_for_update()
_OWN_COLUMNS = [column for column in _COLUMNS if column is not RequestSpecRow.spec]
_LOCK_WHOLE = (
    select(*_OWN_COLUMNS, Instance.locked_by, Instance.shelved_image_id)
    .where(in_list(_TABLE.c.uuid))
    .order_by(_TABLE.c.uuid)
    .with_for_update()
)
_BEGIN_ATTEMPT = (
    update(_TABLE)
    .where(in_list(_TABLE.c.uuid))
    .values(attempt=bindparam("b_attempt"), updated_at=bindparam("b_at", type_=_TABLE.c.updated_at.type))
)


class LockedInstance(NamedTuple):
    """An instance's state, attempt, host and owner, read under its lock."""

    uuid: str
    state: State
    attempt: int
    host: str | None
    node: str | None
    user_id: str
    project_id: str
    deleted: bool
    launched: bool = True
    locked_by: str | None = None
    shelved_image_id: str | None = None
    power_state: PowerState = PowerState.RUNNING

    @property
    def deleting(self) -> bool:
        return self.state[1] is TaskState.DELETING

    @property
    def unshelving(self) -> bool:
        """Whether it is being built from the image of a shelved server."""
        return self.state[0] is VmState.SHELVED_OFFLOADED and self.state[1] in UNSHELVING_STEPS

    @property
    def evacuating(self) -> bool:
        """Whether it is being built on another host than the one that is down. A rebuild on its own host has the same
        states, but no task of kind `build`.
        """
        return self.state[0] in EVACUABLE and self.state[1] in EVACUATION_STEPS


def is_removed(session: Session, instance_uuid: str) -> bool:
    """Whether the instance is being deleted, or is deleted. Locks nothing."""
    query = select(Instance.task_state, Instance.deleted_at).where(Instance.uuid == instance_uuid)
    row = session.execute(query).first()
    return row is not None and (row.deleted_at is not None or row.task_state == TaskState.DELETING)


def lock(session: Session, uuids: Iterable[str]) -> dict[str, LockedInstance]:
    """Locks the instances that have a row, deleted or not. Every transaction locks instances before tasks."""
    locked = {}
    for chunk in chunked(sorted(uuids)):
        for row in session.connection().execute(_LOCK, {"some": chunk}):
            locked[row.uuid] = _locked(row)
    return locked


def not_locked(session: Session, uuid: str) -> LockedInstance | None:
    """As `lock`, for a preview, which decides nothing: another transaction may change the instance at once."""
    row = session.connection().execute(_STATES, {"some": [uuid]}).one_or_none()
    return None if row is None else _locked(row)


class WholeRow(NamedTuple):
    """A locked instance, and what `to_object` needs of its row."""

    locked: LockedInstance
    values: Mapping[Any, Any]


def lock_whole(session: Session, uuids: Iterable[str]) -> dict[str, WholeRow]:
    """As `lock`, for a transaction that sends the instances to hosts."""
    rows = {}
    for chunk in chunked(sorted(uuids)):
        for row in session.connection().execute(_LOCK_WHOLE, {"some": chunk}):
            rows[row.uuid] = WholeRow(_locked(row), row._mapping)
    return rows


def _locked(row: Any) -> LockedInstance:
    return LockedInstance(
        row.uuid,
        state_of(row.vm_state, row.task_state),
        row.attempt,
        row.host,
        row.node,
        row.user_id,
        row.project_id,
        row.deleted_at is not None,
        row.launched_at is not None,
        row.locked_by,
        row.shelved_image_id,
        power_state_of(row.power_state),
    )


def set_attributes(session: Session, uuid: str, at: datetime, values: Mapping[str, Any]) -> None:
    """Sets columns of a locked instance that are not part of its state."""
    columns = {getattr(Instance, name): value for name, value in values.items()}
    session.connection().execute(
        update(Instance).where(Instance.uuid == uuid).values({Instance.updated_at: at, **columns})
    )


def metadata_of(session: Session, uuid: str) -> dict[str, str]:
    return dict(session.scalar(select(Instance.metadata_).where(Instance.uuid == uuid)) or {})


def system_metadata_of(session: Session, uuid: str) -> dict[str, str]:
    return dict(session.scalar(select(Instance.system_metadata).where(Instance.uuid == uuid)) or {})


def pinned_zone(session: Session, uuid: str) -> str | None:
    return session.scalar(select(Instance.availability_zone).where(Instance.uuid == uuid))


def begin_attempt(session: Session, uuids: Collection[str], attempt: int, at: datetime) -> None:
    """Records the attempt. Reports of lower attempts are stale from now on."""
    session.connection().execute(_BEGIN_ATTEMPT, {"some": sorted(uuids), "b_attempt": attempt, "b_at": at})


def deleted_for(session: Session, uuids: Iterable[str], now: ColumnElement[float]) -> dict[str, float]:
    """Returns for how many seconds the instances have been deleted. Instances that are not deleted, or are already purged, are
    left out.
    """
    times: dict[str, float] = {}
    for chunk in chunked(sorted(set(uuids))):
        query = select(Instance.uuid, now - func.coalesce(Instance.deleted_since, now)).where(
            Instance.uuid.in_(chunk), Instance.deleted_at.is_not(None)
        )
        times.update({uuid: float(seconds) for uuid, seconds in session.execute(query)})
    return times


def without_row(session: Session, host: str, uuids: Collection[str]) -> dict[str, bool]:
    """Returns those of these instances that have no row, and whether they were purged, or removed from this host."""
    hosts_by_uuid = row_hosts(session, uuids) if uuids else {}
    missing = sorted(set(uuids) - hosts_by_uuid.keys())
    purged: set[str] = set()
    for chunk in chunked(missing):
        may_be_here = PurgedInstance.host.is_(None) | (PurgedInstance.host == host)
        purged.update(session.scalars(select(PurgedInstance.uuid).where(PurgedInstance.uuid.in_(chunk), may_be_here)))
    return {uuid: uuid in purged for uuid in missing}


def row_hosts(session: Session, uuids: Iterable[str]) -> dict[str, str | None]:
    """Returns the host of each instance that has a row, deleted or not."""
    hosts: dict[str, str | None] = {}
    for chunk in chunked(sorted(set(uuids))):
        query = select(Instance.uuid, Instance.host).where(Instance.uuid.in_(chunk))
        hosts.update((uuid, host) for uuid, host in session.execute(query))
    return hosts


def hide_faults(session: Session, uuids: Collection[str]) -> None:
    """The last fault of these instances is over."""
    chosen = (Instance.uuid.in_(sorted(uuids)), Instance.has_fault.is_(True))
    session.connection().execute(update(Instance).where(*chosen).values(has_fault=False))


def set_power_states(session: Session, host: str, states: Mapping[str, int], at: datetime) -> None:
    """Updates the host's idle instances whose power state differs. Instances with a task are left to the task."""
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


def shelved_before(session: Session, before: ColumnElement[float]) -> list[str]:
    """Returns idle instances that have been shelved since `before` and are still on their hosts."""
    query = select(Instance.uuid).where(
        Instance.vm_state == VmState.SHELVED,
        Instance.task_state.is_(None),
        Instance.deleted_at.is_(None),
        Instance.host.is_not(None),
        Instance.shelved_since <= before,
    )
    return list(session.scalars(query.order_by(Instance.uuid)))


class IdleInstance(NamedTuple):
    uuid: str
    project_id: str
    vm_state: VmState
    power_state: PowerState


def idle_on(session: Session, host: str, uuids: Iterable[str]) -> list[IdleInstance]:
    """Locks and returns those of these instances that are on the host and have no task."""
    idle: list[IdleInstance] = []
    model = Instance
    for chunk in chunked(sorted(set(uuids))):
        query = select(model.uuid, model.project_id, model.vm_state, model.power_state).where(
            model.uuid.in_(chunk), model.host == host, model.deleted_at.is_(None), model.task_state.is_(None)
        )
        rows = session.execute(query.order_by(model.uuid).with_for_update())
        idle += [
            IdleInstance(uuid, project_id, state_of(vm_state, None)[0], power_state_of(power_state))
            for uuid, project_id, vm_state, power_state in rows
        ]
    return idle


def load(session: Session, *conditions: ColumnElement[bool]) -> list[objects.Instance]:
    """Returns instances as services send them to each other: with the image of their request and their devices."""
    return _loaded(session, _WHOLE.where(*conditions), {})


def by_uuids(session: Session, uuids: Iterable[str], *, networks: bool = True) -> dict[str, objects.Instance]:
    """As `load`, by uuid, for those that have a row. `networks`: with their interfaces."""
    return {
        instance.uuid: instance
        for chunk in chunked(sorted(uuids))
        for instance in _loaded(session, _BY_UUID, {"some": chunk}, networks=networks)
    }


def image_on(session: Session, instance_uuid: str, host: str) -> str | None:
    """Returns the id of the instance's image if the instance is on this host, or is being built or moved there."""
    shelved = (Instance.vm_state == VmState.SHELVED_OFFLOADED.value, Instance.shelved_image_id)
    image = case(shelved, else_=Instance.image_ref)
    query = select(image).where(Instance.uuid == instance_uuid, Instance.deleted_at.is_(None))
    return session.scalar(query.where(_works_on(host)))


def works_on(session: Session, instance_uuid: str, host: str) -> bool:
    """Whether the instance is on this host, or is being built or moved there."""
    query = select(Instance.id).where(Instance.uuid == instance_uuid, Instance.deleted_at.is_(None), _works_on(host))
    return session.scalar(query) is not None


def _works_on(host: str) -> ColumnElement[bool]:
    builds = exists().where(Task.instance_uuid == Instance.uuid, Task.host == host, Task.step == TaskStep.BUILD)
    moves = exists().where(
        Task.instance_uuid == Instance.uuid,
        Task.step == TaskStep.MOVE,
        Migration.instance_uuid == Instance.uuid,
        Migration.dest_compute == host,
        Migration.status.not_in(sorted(ENDED)),
    )
    return or_(Instance.host == host, builds, moves)


def holding(session: Session, host: str, node: str | None = None) -> list[objects.Instance]:
    """Returns the instances that hold resources of the host, or of one node of it.

    As `load`, but without user data and key, and without interfaces if `node` is given.
    """
    if node is None:
        return _loaded(session, _ON_HOST, {"on_host": host})
    return _loaded(session, _ON_NODE, {"on_host": host, "on_node": node}, networks=False)


def _loaded(
    session: Session, query: Select[Any], values: Mapping[str, Any], *, networks: bool = True
) -> list[objects.Instance]:
    """`networks`: with their interfaces."""
    rows = session.connection().execute(query, values).mappings().all()
    instances = [to_object(row) for row in rows]
    devices = pci_devices.of_instances(session, [instance.uuid for instance in instances if instance.pci_requests])
    interfaces: dict[str, tuple[Vif, ...]] = {}
    if networks:
        with_ports, with_neutron_ports = (
            [row["uuid"] for row in rows if row.get(name, True)] for name in ("has_ports", "has_neutron_ports")
        )
        interfaces = vifs.of_instances(session, with_ports, neutron=with_neutron_ports, rules=True)
    if not devices and not interfaces:
        return instances
    return [
        msgspec.structs.replace(
            instance,
            pci_devices=devices.get(instance.uuid, ()),
            network_info=interfaces.get(instance.uuid, ()),
        )
        for instance in instances
    ]


def to_object(row: Mapping[Any, Any], spec: RequestSpec | None = None) -> objects.Instance:
    """Leaves out devices and interfaces. `spec`: of the instance's request; None: the row may have it."""
    spec = spec or row["spec"]
    vm_state, task_state = state_of(row["vm_state"], row["task_state"])
    return objects.Instance(
        **{name: row[name] for name in _PLAIN_COLUMNS},
        metadata=row["metadata"],
        image=image_of_server(row["image"], spec),
        pci_requests=spec.pci_requests if spec is not None else (),
        vm_state=vm_state,
        task_state=task_state,
        power_state=PowerState(row["power_state"]),
        deleted=row["deleted_at"] is not None,
    )


def state_of(vm_state: str, task_state: str | None) -> State:
    return VmState(vm_state), TaskState(task_state) if task_state is not None else None


def count_on(session: Session, hosts: Iterable[str]) -> int:
    """Returns how many instances are on these hosts, in any state."""
    total = 0
    for chunk in chunked(list(hosts)):
        query = select(func.count(Instance.id)).where(Instance.host.in_(chunk), Instance.deleted_at.is_(None))
        total += session.scalar(query) or 0
    return total


class InstanceLocation(NamedTuple):
    host: str | None
    node: str | None


def locations(session: Session, uuids: Iterable[str]) -> dict[str, InstanceLocation]:
    """Returns host and node of the instances that have a row. Deleted instances have neither."""
    by_uuid: dict[str, InstanceLocation] = {}
    model = Instance
    for chunk in chunked(list(uuids)):
        query = select(model.uuid, model.host, model.node, model.deleted_at).where(model.uuid.in_(chunk))
        for uuid, host, node, deleted_at in session.execute(query):
            by_uuid[uuid] = InstanceLocation(host, node) if deleted_at is None else InstanceLocation(None, None)
    return by_uuid


def soft_deleted(session: Session, before: ColumnElement[float], uuid: str | None = None) -> list[str]:
    """Returns idle instances that were soft-deleted before `before`: all of them, or only `uuid`."""
    query = select(Instance.uuid).where(
        Instance.vm_state == VmState.SOFT_DELETED,
        Instance.task_state.is_(None),
        Instance.deleted_at.is_(None),
        Instance.soft_deleted_since < before,
        Instance.uuid == uuid if uuid is not None else true(),
    )
    return list(session.scalars(query.order_by(Instance.uuid)))
