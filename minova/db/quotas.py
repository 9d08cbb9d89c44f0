"""Limits and usages. A usage changes by conditional updates, in the transaction that writes what it counts.

Transactions always change the rows of one project in the order of the resources, so that they cannot deadlock.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from typing import Any

from oslo_config import cfg
from oslo_utils import units
from sqlalchemy import BigInteger, Update, bindparam, case, delete, func, insert, select, union_all, update
from sqlalchemy.orm import Session

from minova import errors
from minova.db.models import (
    AddressGroup,
    Image,
    Instance,
    InstanceGroup,
    Migration,
    Network,
    Port,
    Quota,
    QuotaClass,
    QuotaUsage,
    SecurityGroup,
    SecurityGroupRule,
    Subnet,
    SubnetPool,
)
from minova.db.sql import in_list
from minova.objects.catalogue.flavor import Flavor
from minova.objects.catalogue.image import Image as ImageRecord
from minova.objects.catalogue.quota import COUNTED, DEFAULT_CLASS, RESOURCES, UNLIMITED, Overrun, overruns, refusal
from minova.objects.servers.migration import ENDED
from minova.objects.servers.migration import Migration as MigrationObject
from minova.objects.servers.states import TaskState, VmState


class OverQuota(errors.Forbidden):
    """`used`, `limits`: of the resources, as the transaction saw them."""

    def __init__(self, over: tuple[Overrun, ...], used: Mapping[str, int], limits: Mapping[str, int]) -> None:
        super().__init__(refusal(over))
        self.over = over
        self.used = used
        self.limits = limits


class UsageNotCounted(Exception):
    """A project has no rows yet, and `count_first` must make them in a transaction of its own."""

    def __init__(self, project_id: str) -> None:
        super().__init__(project_id)
        self.project_id = project_id


_MATCHES = (QuotaUsage.project_id == bindparam("b_project"), QuotaUsage.resource == bindparam("b_resource"))
_ADD = update(QuotaUsage).where(*_MATCHES).values(used=QuotaUsage.used + bindparam("b_n"))
_GIVE = (
    update(QuotaUsage)
    .where(*_MATCHES)
    .values(used=case((QuotaUsage.used > bindparam("b_n"), QuotaUsage.used - bindparam("b_n")), else_=0))
)
_SET = update(QuotaUsage).where(*_MATCHES).values(used=bindparam("b_n"))
_LIMITS: Any = union_all(
    select(QuotaClass.resource, QuotaClass.hard_limit, bindparam("b_default", 0).label("own")).where(
        QuotaClass.class_name == DEFAULT_CLASS
    ),
    select(Quota.resource, Quota.hard_limit, bindparam("b_own", 1).label("own")).where(
        Quota.project_id == bindparam("b_project")
    ),
)
_OWN_LIMIT = select(Quota.hard_limit).where(
    Quota.project_id == QuotaUsage.project_id, Quota.resource == QuotaUsage.resource
)
_CLASS_LIMIT = select(QuotaClass.hard_limit).where(
    QuotaClass.class_name == DEFAULT_CLASS, QuotaClass.resource == QuotaUsage.resource
)
# The usages of a project, with the limits that an operator has set, in the order in which every transaction locks them.
_LOCK = (
    select(
        QuotaUsage.resource,
        QuotaUsage.used,
        func.coalesce(_OWN_LIMIT.scalar_subquery(), _CLASS_LIMIT.scalar_subquery()).label("hard_limit"),
    )
    .where(QuotaUsage.project_id == bindparam("b_project"), in_list(QuotaUsage.resource))
    .order_by(QuotaUsage.resource)
    .with_for_update()
)


# -- limits ------------------------------------------------------------------------------------------------------------


def limits_of(session: Session, conf: cfg.ConfigOpts, project_id: str) -> dict[str, int]:
    """Returns the limit of every resource: the project's own limit, else that of the default class, else the option."""
    rows = session.connection().execute(_LIMITS, {"b_project": project_id}).all()
    stored = {resource: limit for resource, limit, _ in sorted(rows, key=lambda row: int(row[2]))}
    return configured(conf) | {name: limit for name, limit in stored.items() if name in RESOURCES}


def defaults(session: Session, conf: cfg.ConfigOpts, class_name: str = DEFAULT_CLASS) -> dict[str, int]:
    """Returns the limits of projects without their own limits."""
    stored = select(QuotaClass.resource, QuotaClass.hard_limit).where(QuotaClass.class_name == class_name)
    class_limits = {name: limit for name, limit in session.execute(stored).all() if name in RESOURCES}
    return configured(conf) | class_limits


def configured(conf: cfg.ConfigOpts) -> dict[str, int]:
    return {
        name: UNLIMITED if resource.option is None else int(conf.quota[resource.option])
        for name, resource in RESOURCES.items()
    }


def set_limits(session: Session, project_id: str, limits: Mapping[str, int]) -> None:
    _replace(session, Quota, {"project_id": project_id}, limits)


def set_class(session: Session, class_name: str, limits: Mapping[str, int]) -> None:
    _replace(session, QuotaClass, {"class_name": class_name}, limits)


def remove_limits(session: Session, project_id: str, resources: Collection[str]) -> None:
    own = delete(Quota).where(Quota.project_id == project_id, Quota.resource.in_(sorted(resources)))
    session.connection().execute(own)


def _replace(session: Session, table: Any, key: dict[str, str], limits: Mapping[str, int]) -> None:
    """Updates before it inserts, and does not delete rows. On MariaDB a delete would lock the gap into which another
    transaction inserts.
    """
    conditions = [getattr(table, name) == value for name, value in key.items()]
    for name, limit in sorted(limits.items()):
        statement = update(table).where(*conditions, table.resource == name).values(hard_limit=limit)
        result: Any = session.connection().execute(statement)
        if not result.rowcount:
            session.connection().execute(insert(table).values(**key, resource=name, hard_limit=limit))


# -- usages ------------------------------------------------------------------------------------------------------------


def take(session: Session, project_id: str, amounts: Mapping[str, int], options: Mapping[str, int] | None) -> None:
    """Counts what the transaction creates. After either exception nothing may be committed.

    `options`: the limits of projects without limits in the database; None: whatever the limits are.

    Raises OverQuota if not everything fits, UsageNotCounted before the first use.
    """
    counts = {name: amount for name, amount in sorted(amounts.items()) if amount > 0}
    if not counts:
        return
    locked = session.connection().execute(_LOCK, {"b_project": project_id, "some": [*counts]}).all()
    if len(locked) < len(counts):
        raise UsageNotCounted(project_id)
    if options is not None:
        used = {row.resource: int(row.used) for row in locked}
        limits = {**options, **{row.resource: row.hard_limit for row in locked if row.hard_limit is not None}}
        if over := overruns(counts, used, limits):
            raise OverQuota(over, used, limits)
    session.connection().execute(_raising(tuple(counts)), {"b_project": project_id, **_named(counts)})


@lru_cache(64)
def _raising(names: tuple[str, ...]) -> Update:
    """Returns the statement that raises these usages, which are locked. Built once: each server that is made needs it."""
    raised = case(*((QuotaUsage.resource == name, bindparam(f"b_{name}", type_=BigInteger)) for name in names), else_=0)
    of_project = (QuotaUsage.project_id == bindparam("b_project"), QuotaUsage.resource.in_(names))
    return update(QuotaUsage.__table__).where(*of_project).values(used=QuotaUsage.used + raised)  # type: ignore[arg-type]


def _named(counts: Mapping[str, int]) -> dict[str, int]:
    return {f"b_{name}": count for name, count in counts.items()}


def give(session: Session, project_id: str, amounts: Mapping[str, int]) -> None:
    """Subtracts what the transaction removes, never below 0."""
    for name, amount in sorted(amounts.items()):
        if amount > 0:
            _write(session, _GIVE, {"b_project": project_id, "b_resource": name, "b_n": amount})


def add(session: Session, project_id: str, amounts: Mapping[str, int]) -> None:
    """Counts existing records again, regardless of limits. Resources that the project has never used are counted at
    their first use.
    """
    for name, amount in sorted(amounts.items()):
        _write(session, _ADD, {"b_project": project_id, "b_resource": name, "b_n": amount})


def usages_of(session: Session, project_id: str) -> dict[str, int]:
    """Returns the counted usages. Empty before the first use."""
    query = select(QuotaUsage.resource, QuotaUsage.used).where(QuotaUsage.project_id == project_id)
    return {name: int(used) for name, used in session.execute(query).all()}


def current_usages(session: Session, project_id: str) -> dict[str, int]:
    """As `usages_of`, but resources that were never used are counted from their rows."""
    used = usages_of(session, project_id)
    return used | counted(session, project_id, [name for name in COUNTED if name not in used])


def _write(session: Session, statement: Update, row: Mapping[str, Any]) -> None:
    session.connection().execute(statement, row)


def of_servers(flavor: Flavor, count: int = 1) -> dict[str, int]:
    return {"instances": count, "cores": count * flavor.vcpus, "ram": count * flavor.memory_mb}


def more_than(flavor: Flavor, other: Flavor) -> dict[str, int]:
    """Returns what a server of this flavor takes beyond one of the other. A server that is moved counts with the larger
    of both sizes, so that it can go back.
    """
    sizes, others = of_servers(flavor), of_servers(other)
    return {name: amount - others[name] for name, amount in sizes.items() if amount > others[name]}


# -- counting ----------------------------------------------------------------------------------------------------------


def count_first(session: Session, project_id: str) -> None:
    """Creates the usage rows that a project lacks. Raises IntegrityError if another transaction creates them."""
    missing = [name for name in COUNTED if name not in usages_of(session, project_id)]
    counts = counted(session, project_id, missing)
    rows = [{"project_id": project_id, "resource": name, "used": counts[name]} for name in missing]
    if rows:
        session.connection().execute(insert(QuotaUsage), rows)


def recount(session: Session, project_id: str) -> dict[str, tuple[int, int]]:
    """Corrects usages that differ from the rows. Returns {resource: (old, new)}.

    It locks the usages first. Every writing transaction holds these locks until its rows are visible, and no new
    transaction can begin to count meanwhile.
    """
    lock = (
        select(QuotaUsage.resource, QuotaUsage.used)
        .where(QuotaUsage.project_id == project_id)
        .order_by(QuotaUsage.resource)
        .with_for_update()
    )
    before = {name: int(used) for name, used in session.execute(lock).all()}
    resources = [name for name in COUNTED if name in before]
    after = counted(session, project_id, resources)
    changed = {name: (before[name], after[name]) for name in resources if before[name] != after[name]}
    for name, (_, right) in sorted(changed.items()):
        _write(session, _SET, {"b_project": project_id, "b_resource": name, "b_n": right})
    return changed


def projects(session: Session) -> list[str]:
    """Returns the projects that have usages."""
    return [*session.scalars(select(QuotaUsage.project_id).distinct().order_by(QuotaUsage.project_id))]


def counted(session: Session, project_id: str, names: Collection[str]) -> dict[str, int]:
    """Counts from the rows themselves."""
    result: Counter[str] = Counter(dict.fromkeys(names, 0))
    for counter in {_COUNTERS[name] for name in names}:
        for name, amount in counter(session, project_id).items():
            if name in result:
                result[name] = amount
    return dict(result)


def _count_servers(session: Session, project_id: str) -> dict[str, int]:
    """Counts servers whose records are not destroyed, also failed builds, but no soft-deleted ones, as in Nova."""
    total: Counter[str] = Counter()
    query = select(Instance.flavor).where(
        Instance.project_id == project_id,
        Instance.deleted_at.is_(None),
        # A server that is being restored counts.
        (Instance.vm_state != VmState.SOFT_DELETED) | (Instance.task_state == TaskState.RESTORING),
    )
    for flavor in session.scalars(query):
        total.update(of_servers(flavor))
    moving = select(Instance.flavor, Migration.value).join(Migration, Migration.instance_uuid == Instance.uuid)
    of_project = (Instance.project_id == project_id, Instance.deleted_at.is_(None))
    for flavor, migration in session.execute(moving.where(*of_project, Migration.status.not_in(sorted(ENDED)))).all():
        total.update(_beside(flavor, migration))
    return dict(total)


def _beside(flavor: Flavor, migration: MigrationObject) -> dict[str, int]:
    """Returns what the server takes beside its own flavor while it is moved."""
    other = migration.old_flavor if flavor == migration.new_flavor else migration.new_flavor
    return more_than(other, flavor)


def _count_groups(session: Session, project_id: str) -> dict[str, int]:
    query = select(func.count(InstanceGroup.id)).where(InstanceGroup.project_id == project_id)
    return {"server_groups": int(session.scalar(query) or 0)}


_OF_NETWORKS: Mapping[str, Any] = {
    "networks": Network,
    "subnets": Subnet,
    "ports": Port,
    "security_group": SecurityGroup,
    "security_group_rule": SecurityGroupRule,
    "address_group": AddressGroup,
    "subnetpool": SubnetPool,
}


def _count_networks(session: Session, project_id: str) -> dict[str, int]:
    return {
        name: int(session.scalar(select(func.count(table.id)).where(table.project_id == project_id)) or 0)
        for name, table in _OF_NETWORKS.items()
    }


def _count_images(session: Session, project_id: str) -> dict[str, int]:
    total: Counter[str] = Counter()
    for image in session.scalars(select(Image.value)):
        if image.owner == project_id:
            total.update(of_image(image))
    return dict(total)


def of_image(image: ImageRecord) -> dict[str, int]:
    """The size of an image's data in MB, rounded up, and of the data that are still coming. An image that another service stores
    is counted by that service.
    """
    if image.service:
        return {"image_count_total": 0, "image_size_total": 0}
    return {"image_count_total": 1, "image_size_total": -(-max(image.size or 0, image.reserved) // units.Mi)}


Counted = Callable[[Session, str], Mapping[str, int]]
_COUNTERS: Mapping[str, Counted] = {
    "instances": _count_servers,
    "cores": _count_servers,
    "ram": _count_servers,
    "server_groups": _count_groups,
    **dict.fromkeys(_OF_NETWORKS, _count_networks),
    "image_count_total": _count_images,
    "image_size_total": _count_images,
}


def give_server(session: Session, instance_uuid: str, more: Mapping[str, int] = {}, *, counted: bool = True) -> None:
    """Subtracts a server from the usages, and `more` of its project, in the transaction that destroys its record.

    `counted` False: it was soft-deleted and no longer counts.
    """
    query = select(Instance.project_id, Instance.flavor).where(Instance.uuid == instance_uuid)
    moves = select(Migration.value).where(
        Migration.instance_uuid == instance_uuid, Migration.status.not_in(sorted(ENDED))
    )
    for project_id, flavor in session.execute(query).all():
        total = Counter({**(of_servers(flavor) if counted else {}), **more})
        for migration in session.scalars(moves):
            total.update(_beside(flavor, migration))
        give(session, project_id, total)
