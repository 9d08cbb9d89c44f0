"""Gives a compute host another name: every row that contains the name changes in one transaction."""

from collections.abc import Mapping

import msgspec
from sqlalchemy import ColumnElement, delete, or_, select, update
from sqlalchemy.orm import Session

from minova import errors
from minova.codecs import Decoder
from minova.conductor.hosts.liveness import COMPUTE
from minova.db.hosts import identity, services
from minova.db.models import (
    AggregateHost,
    ComputeNode,
    Instance,
    Migration,
    Port,
    PurgedInstance,
    RequestSpecRow,
    ResourceProvider,
    Service,
    Task,
    TaskStep,
    UnexpectedGuest,
)
from minova.db.recovery import cloud, unexpected
from minova.objects.requests.request_spec import RequestSpec, Selection
from minova.objects.servers.migration import Migration as MigrationObject
from minova.placement import changes
from minova.placement.providers import of_node as providers

replace = msgspec.structs.replace


class _Places(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The hosts in the plan of a build or a move."""

    host: str | None = None
    alternates: tuple[Selection, ...] = ()
    tried: tuple[tuple[str, str], ...] = ()


class _Removing(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The hosts in the payload of a deletion, beside that of its task."""

    others: tuple[tuple[str, str | None], ...] = ()
    owing: tuple[str, ...] = ()


_PLACES, _REMOVING = Decoder(_Places), Decoder(_Removing)


class Renaming(msgspec.Struct, frozen=True, kw_only=True):
    """`nodes`: {old name: new name} of every node of the host, whether its name changes or not."""

    old: str
    new: str
    nodes: Mapping[str, str]

    def place(self, host: str | None, node: str | None) -> tuple[str | None, str | None]:
        """Returns the new names of host and node."""
        if host != self.old:
            return host, node
        return self.new, self.nodes.get(node, node) if node is not None else None


def node_names(old: str, new: str, nodes: list[str], new_node: str | None) -> dict[str, str]:
    """Returns {old name: new name} of the nodes of a renamed host. `new_node`: the new name of its only node.

    A node that is named after its host follows it, with its domain if it has one; other nodes keep their names. Raises
    BadRequest if `new_node` is given for a host with several nodes.
    """
    if new_node is not None:
        if len(nodes) != 1:
            raise errors.BadRequest(f"--node: host {old} has {len(nodes)} nodes; it is for hosts with one.")
        return {nodes[0]: new_node}
    names = {}
    for name in nodes:
        short, dot, domain = name.partition(".")
        names[name] = new if name == old else f"{new}{dot}{domain}" if short == old and dot else name
    return names


def rename(
    session: Session, old: str, new: str, node: str | None, *, down_time: float, now: ColumnElement[float]
) -> Renaming:
    """Raises NotFound if there is no such host, Conflict if its compute is up or a name is taken."""
    service = identity.service_of(session, old, COMPUTE)
    if service is None:
        raise errors.NotFound(f"There is no minova-compute on host {old}.")
    _require_stopped(session, service, down_time, now)
    names = list(identity.nodes_of(session, old))
    renaming = Renaming(old=old, new=new, nodes=node_names(old, new, names, node))
    _require_free(session, renaming)
    _rename_service(session, service, renaming)
    _rename_nodes(session, renaming)
    _rename_instances(session, renaming)
    _rename_migrations(session, renaming)
    _rename_tasks(session, renaming)
    _rename_reports(session, renaming)
    _rename_ports(session, renaming)
    _rename_in_aggregates(session, renaming)
    # Host tables use host names as keys in many places, so they are read anew.
    changes.append(session, [changes.EVERY_NODE], now)
    return renaming


def _require_stopped(session: Session, service: Service, down_time: float, now: ColumnElement[float]) -> None:
    # A process that has stopped gracefully leaves process_place set and process empty.
    stopped = service.process is None and service.process_place is not None
    silence = services.silence_of(session, service.id, now)
    if stopped or service.forced_down or silence is None or silence > down_time:
        return
    raise errors.Conflict(
        f"minova-compute of host {service.host} was heard {max(0.0, silence):.0f} s ago. Stop it first; if it was killed, wait "
        f"until it counts as down (service_down_time: {down_time:.0f} s)."
    )


def _require_free(session: Session, renaming: Renaming) -> None:
    if renaming.new != renaming.old and (
        identity.service_of(session, renaming.new, COMPUTE) is not None or identity.nodes_of(session, renaming.new)
    ):
        raise errors.Conflict(
            f"There is a host {renaming.new} already. If it is left over from a start under that name, delete its service "
            "first: minova service delete."
        )
    new_names = [name for before, name in renaming.nodes.items() if name != before]
    own = select(ComputeNode.uuid).where(ComputeNode.host == renaming.old)
    occupant = session.scalar(
        select(ResourceProvider.name).where(ResourceProvider.name.in_(new_names), ResourceProvider.uuid.not_in(own))
    )
    if occupant is not None or len(set(renaming.nodes.values())) != len(renaming.nodes):
        raise errors.Conflict(f"Another resource provider is named {occupant or new_names[0]} already.")


def _rename_service(session: Session, service: Service, renaming: Renaming) -> None:
    former = [name for name in service.former_hosts or [] if name != renaming.new]
    if renaming.new != renaming.old and renaming.old not in former:
        former.append(renaming.old)
    services.change(session, service.id, host=renaming.new, former_hosts=former)


def _rename_nodes(session: Session, renaming: Renaming) -> None:
    for before, after in renaming.nodes.items():
        row = session.scalar(
            select(ComputeNode)
            .where(ComputeNode.host == renaming.old, ComputeNode.hypervisor_hostname == before)
            .with_for_update()
        )
        assert row is not None
        row.host, row.hypervisor_hostname = renaming.new, after
        row.generation += 1
        session.flush()
        providers.ensure(session, row.uuid, after)


def _rename_instances(session: Session, renaming: Renaming) -> None:
    """Renames the host of deleted instances, too, because their domains may be left."""
    on_host = Instance.host == renaming.old
    for before, after in renaming.nodes.items():
        session.connection().execute(update(Instance).where(on_host, Instance.node == before).values(node=after))
    session.connection().execute(update(Instance).where(on_host).values(host=renaming.new))


def _rename_migrations(session: Session, renaming: Renaming) -> None:
    """Renames the host in ended migrations, too, because they identify domains that are left over."""
    is_of_host = or_(Migration.source_compute == renaming.old, Migration.dest_compute == renaming.old)
    for row in session.scalars(select(Migration).where(is_of_host).with_for_update()):
        value: MigrationObject = row.value
        source_compute, source_node = renaming.place(value.source_compute, value.source_node)
        dest_compute, dest_node = renaming.place(value.dest_compute, value.dest_node)
        row.value = replace(
            value,
            source_compute=source_compute or "",
            source_node=source_node or "",
            dest_compute=dest_compute,
            dest_node=dest_node,
            cleanup_host=renaming.place(value.cleanup_host, None)[0],
        )
        row.source_compute, row.source_node = row.value.source_compute, row.value.source_node
        row.dest_compute, row.dest_node = dest_compute, dest_node
        row.cleanup_host = row.value.cleanup_host
    session.flush()


def _rename_tasks(session: Session, renaming: Renaming) -> None:
    """Renames the host in tasks that wait for it, and in builds and moves that may still go there, with their request specs."""
    reservations = set()
    for task in session.scalars(select(Task).order_by(Task.instance_uuid).with_for_update()):
        task.host, task.node = renaming.place(task.host, task.node)
        if task.kind == "build":
            reservations.add(task.reservation_id)
        if task.kind == "build" or task.step == TaskStep.MOVE:
            renamed = task.payload | msgspec.to_builtins(_renamed_places(_PLACES.from_builtins(task.payload), renaming))
        elif task.step == TaskStep.DELETE:
            renamed = task.payload | msgspec.to_builtins(
                _renamed_removing(_REMOVING.from_builtins(task.payload), renaming)
            )
        else:
            continue
        if renamed != task.payload:
            task.payload = renamed
    for reservation_id in sorted(reservations):
        row = session.get(RequestSpecRow, reservation_id)
        if row is not None and (spec := _renamed_spec(row.spec, renaming)) != row.spec:
            row.spec = spec
    session.flush()


def _renamed_places(places: _Places, renaming: Renaming) -> _Places:
    alternates = []
    for alternate in places.alternates:
        host, node = renaming.place(alternate.host, alternate.node)
        alternates.append(replace(alternate, host=host or "", node=node or ""))
    tried = tuple(renaming.place(host, node) for host, node in places.tried)
    return _Places(
        host=renaming.place(places.host, None)[0],
        alternates=tuple(alternates),
        tried=tuple((host or "", node or "") for host, node in tried),
    )


def _renamed_removing(removing: _Removing, renaming: Renaming) -> _Removing:
    others = (renaming.place(host, node) for host, node in removing.others)
    owing = (renaming.place(host, None)[0] for host in removing.owing)
    return _Removing(
        others=tuple((host or "", node) for host, node in others), owing=tuple(host or "" for host in owing)
    )


def _renamed_spec(spec: RequestSpec, renaming: Renaming) -> RequestSpec:
    def named(hosts: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(renaming.new if host == renaming.old else host for host in hosts)

    destination = spec.requested_destination
    if destination is not None and destination.host == renaming.old:
        destination = replace(destination, host=renaming.new)
    return replace(
        spec,
        requested_destination=destination,
        force_hosts=named(spec.force_hosts),
        ignore_hosts=named(spec.ignore_hosts),
    )


def _rename_reports(session: Session, renaming: Renaming) -> None:
    """What the host has unexpectedly: otherwise nothing would ever report it again under the former name. What operators have
    decided about it follows. What concerned an earlier host of the new name is no decision about this one.
    """
    if renaming.new == renaming.old:
        return
    unexpected.forget_host(session, renaming.new)
    connection = session.connection()
    for table in (UnexpectedGuest, PurgedInstance):
        connection.execute(update(table).where(table.host == renaming.old).values(host=renaming.new))
    cloud.rename_host(session, renaming.old, renaming.new)


def _rename_ports(session: Session, renaming: Renaming) -> None:
    """The ports of its servers, and those that are held for guests without a row. Neutron keeps the name to which it has bound its ports."""
    session.connection().execute(update(Port).where(Port.host == renaming.old).values(host=renaming.new))


def _rename_in_aggregates(session: Session, renaming: Renaming) -> None:
    if renaming.new == renaming.old:
        return
    table = AggregateHost
    joined = select(table.aggregate_id).where(table.host == renaming.new)
    ids = list(session.scalars(joined))
    connection = session.connection()
    connection.execute(delete(table).where(table.host == renaming.old, table.aggregate_id.in_(ids)))
    connection.execute(update(table).where(table.host == renaming.old).values(host=renaming.new))
