"""Interfaces of servers whose ports are in Neutron: queries and writes."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, delete, func, insert, or_, select, update
from sqlalchemy.orm import Session

from minova.codecs import Decoder
from minova.db import models
from minova.db.sql import chunked, in_list
from minova.objects.network.vif import Vif
from minova.objects.requests.build_extras import RequestedNic
from minova.objects.servers.states import VmState

Row = models.NeutronPort
_VIF, _NIC = Decoder(Vif), Decoder(RequestedNic)
_HELD = Row.released_at.is_(None)
# Built once: every build and every GET of a server runs it.
_DESCRIBED = (
    select(Row.instance_uuid, Row.nic, Row.port_id, Row.vif, Row.nic_request, Row.tag)
    .where(_HELD, in_list(Row.instance_uuid))
    .order_by(Row.nic, Row.id)
)


def add(
    session: Session,
    instance_uuid: str,
    project_id: str,
    owner: str,
    nics: Mapping[int, RequestedNic],
    *,
    made_for_instance: bool = False,
) -> None:
    """`nics`: by interface number.
    `made_for_instance`: ports that the request names are deleted with the server, too.
    """
    rows = [
        {
            "instance_uuid": instance_uuid,
            "nic": number,
            "project_id": project_id,
            "device_owner": owner,
            "nic_request": msgspec.to_builtins(nic),
            "made_for_instance": made_for_instance or nic.port_id is None,
            "port_id": nic.port_id,
            "held_port_id": nic.port_id,
            "tag": nic.tag,
        }
        for number, nic in nics.items()
    ]
    if rows:
        session.connection().execute(insert(Row), rows)


def expect(session: Session, instance_uuid: str, project_id: str, nic: RequestedNic, at: datetime) -> None:
    """Records that the API is about to create a port for the server. The row is that of an interface already released
    and cleaned: if the API dies, the cleaning finds the row and looks for the port.
    """
    values = {
        "instance_uuid": instance_uuid,
        "nic": 0,
        "project_id": project_id,
        "device_owner": "",
        "nic_request": msgspec.to_builtins(nic),
        "made_for_instance": True,
        "released_at": at,
        "cleaned_at": at,
    }
    session.connection().execute(insert(Row).values(values))


def expects(session: Session, instance_uuid: str, after: datetime) -> bool:
    """Whether a port may have been created for the server after `after` that no row names yet."""
    query = select(Row.id).where(Row.instance_uuid == instance_uuid, Row.port_id.is_(None), Row.released_at > after)
    return session.scalar(query.limit(1)) is not None


def nic_of(row: models.NeutronPort) -> RequestedNic:
    """Returns what the request asked for."""
    return _NIC.from_builtins(row.nic_request)


def of_instance(session: Session, instance_uuid: str) -> list[models.NeutronPort]:
    """Returns the interfaces that the server has, in their order."""
    query = select(Row).where(Row.instance_uuid == instance_uuid, _HELD).order_by(Row.nic, Row.id)
    return list(session.scalars(query.execution_options(populate_existing=True)))


def find(session: Session, instance_uuid: str, port_id: str) -> models.NeutronPort | None:
    """Returns None if the server has no such port."""
    query = select(Row).where(Row.instance_uuid == instance_uuid, Row.port_id == port_id, _HELD)
    return session.scalar(query.execution_options(populate_existing=True))


def vif_of(row: models.NeutronPort) -> Vif:
    return _VIF.from_builtins(row.vif) if row.vif is not None else _unbound(row.port_id, nic_of(row))


def numbers_of(session: Session, instance_uuid: str) -> list[int]:
    """The numbers of a server's interfaces."""
    return list(session.scalars(select(Row.nic).where(Row.instance_uuid == instance_uuid, _HELD)))


def are_there(session: Session) -> bool:
    """Whether there are rows of any server: ports in Neutron, or ports that still have to be cleaned there."""
    return session.scalar(select(Row.id).limit(1)) is not None


def ids_of(session: Session, instance_uuids: Collection[str]) -> dict[str, list[str]]:
    """Returns the ports that servers have, by server and in their order. Ports that are not created
    yet are left out.
    """
    port_ids: dict[str, list[str]] = {}
    query = select(Row.instance_uuid, Row.port_id).where(_HELD, Row.port_id.is_not(None)).order_by(Row.nic, Row.id)
    for chunk in chunked(sorted(set(instance_uuids))):
        for uuid, port_id in session.execute(query.where(Row.instance_uuid.in_(chunk))):
            port_ids.setdefault(uuid, []).append(str(port_id))
    return port_ids


def ports_of_servers(session: Session, port_ids: Collection[str]) -> set[str]:
    """Returns those of these ports that servers have."""
    return {
        str(port_id)
        for chunk in chunked(sorted(port_ids))
        for port_id in session.scalars(select(Row.held_port_id).where(Row.held_port_id.in_(chunk)))
    }


def describe(session: Session, instance_uuids: Iterable[str]) -> dict[str, list[tuple[int, Vif]]]:
    """Returns the interfaces with their numbers, as Neutron showed them last. An interface whose port is not created
    yet has no MAC address and no addresses.
    """
    numbered_vifs: dict[str, list[tuple[int, Vif]]] = {}
    for chunk in chunked(sorted(set(instance_uuids))):
        for uuid, number, port_id, vif, request, tag in session.connection().execute(_DESCRIBED, {"some": chunk}):
            port_vif = _VIF.from_builtins(vif) if vif is not None else _unbound(port_id, _NIC.from_builtins(request))
            numbered_vifs.setdefault(uuid, []).append((number, msgspec.structs.replace(port_vif, tag=tag)))
    return numbered_vifs


def _unbound(port_id: str | None, nic: RequestedNic) -> Vif:
    return Vif(port_id=port_id or "", mac_address="", network_id=nic.network_id, network_type=nic.service, active=False)


def give_port(session: Session, row_id: int, port_id: str) -> bool:
    """Records the port that was created for the interface. Returns False if the interface has another port, or the
    server has lost the interface. Idempotent.
    """
    statement = update(Row).where(Row.id == row_id, or_(Row.port_id.is_(None), Row.port_id == port_id), _HELD)
    result: Any = session.connection().execute(statement.values(port_id=port_id, held_port_id=port_id))
    return bool(result.rowcount)


def write(session: Session, row_id: int, vif: Vif, at: datetime, host: str | None = None) -> bool:
    """Records the interface as Neutron shows it now. `host`: the host to which it is bound; None: unchanged. Returns
    False if the server no longer has it.
    """
    values = {"vif": msgspec.to_builtins(vif), "refreshed_at": at} | ({} if host is None else {"host": host})
    result: Any = session.connection().execute(update(Row).where(Row.id == row_id, _HELD).values(**values))
    return bool(result.rowcount)


def looked_at(session: Session, row_id: int, at: datetime) -> None:
    """Records that the interface was checked and has not changed."""
    session.connection().execute(update(Row).where(Row.id == row_id, _HELD).values(refreshed_at=at))


def forget(session: Session, row_id: int, port_id: str) -> None:
    """Deletes the row, because the port was deleted in Neutron and nothing is left to do there. Idempotent."""
    session.connection().execute(delete(Row).where(Row.id == row_id, Row.port_id == port_id, _HELD))


def release(session: Session, instance_uuid: str, at: datetime, port_id: str) -> None:
    """Takes the interface with this port from the server. Idempotent."""
    mine = update(Row).where(Row.instance_uuid == instance_uuid, Row.port_id == port_id, _HELD)
    session.connection().execute(mine.values(released_at=at, held_port_id=None))


def release_all(session: Session, instance_uuids: Collection[str], at: datetime) -> None:
    """Takes all interfaces from these servers. Idempotent."""
    for chunk in chunked(sorted(instance_uuids)):
        theirs = update(Row).where(Row.instance_uuid.in_(chunk), _HELD)
        session.connection().execute(theirs.values(released_at=at, held_port_id=None))


def release_orphans(session: Session, at: datetime, limit: int) -> int:
    """Releases the ports of deleted servers: a conductor of an older release, which does not know such ports, has
    deleted these servers. Returns the number of servers.
    """
    orphans = select(Row.instance_uuid).outerjoin(models.Instance, models.Instance.uuid == Row.instance_uuid)
    lost = or_(models.Instance.deleted_at.is_not(None), models.Instance.uuid.is_(None))
    uuids = list(session.scalars(orphans.where(_HELD, lost).distinct().limit(limit)))
    release_all(session, uuids, at)
    return len(uuids)


def to_clean(session: Session, before: datetime, limit: int) -> list[str]:
    """Returns servers with released interfaces that were never cleaned in Neutron, or were cleaned before `before`."""
    is_due = or_(Row.cleaned_at.is_(None), Row.cleaned_at < before)
    query = select(Row.instance_uuid).where(Row.released_at.is_not(None), is_due).group_by(Row.instance_uuid)
    return [str(uuid) for uuid in session.scalars(query.order_by(func.min(Row.released_at)).limit(limit))]


def all_of(session: Session, instance_uuid: str) -> list[models.NeutronPort]:
    """Returns all interfaces of the server, also those that it has lost."""
    return list(session.scalars(select(Row).where(Row.instance_uuid == instance_uuid).order_by(Row.id)))


def cleaned(session: Session, rows: Sequence[models.NeutronPort], at: datetime, before: datetime) -> None:
    """Records that Neutron has been updated for these rows. Deletes rows that were already cleaned before `before`:
    this was the last time.
    """
    again = [row.id for row in rows if row.cleaned_at is not None and row.cleaned_at < before]
    first = [row.id for row in rows if row.cleaned_at is None]
    for chunk in chunked(again):
        session.connection().execute(delete(Row).where(Row.id.in_(chunk)))
    for chunk in chunked(first):
        session.connection().execute(update(Row).where(Row.id.in_(chunk)).values(cleaned_at=at))


def _has_no_host() -> ColumnElement[bool]:
    """The condition that the server has left its host and no other host is building it."""
    instance = models.Instance
    resting = instance.vm_state.in_([VmState.SHELVED_OFFLOADED.value, VmState.ERROR.value])
    query = select(instance.id).where(
        instance.uuid == Row.instance_uuid, instance.host.is_(None), instance.task_state.is_(None), resting
    )
    return query.exists()


def without_host(session: Session, limit: int) -> list[models.NeutronPort]:
    """Returns ports that are bound to a host that the server has left."""
    query = select(Row).where(_HELD, Row.host.is_not(None), Row.port_id.is_not(None), _has_no_host())
    return list(session.scalars(query.order_by(Row.id).limit(limit)))


def is_without_host(session: Session, row: models.NeutronPort) -> bool:
    """Whether a row of `without_host` still is one."""
    query = select(Row.id).where(Row.id == row.id, Row.host == row.host, _HELD, _has_no_host())
    return session.scalar(query) is not None


def unbound(session: Session, row: models.NeutronPort) -> bool:
    """Records that a row of `without_host` is no longer bound to a host. Returns False, and changes nothing, if
    `without_host` no longer holds for it.
    """
    statement = update(Row).where(Row.id == row.id, Row.host == row.host, _HELD, _has_no_host())
    result: Any = session.connection().execute(statement.values(host=None))
    return bool(result.rowcount)


def host_of(session: Session, row_id: int) -> str | None:
    """Returns the host of the server that has this interface; None if the server has no host, or has lost the
    interface.
    """
    instance = models.Instance
    query = select(instance.host).join(Row, Row.instance_uuid == instance.uuid)
    return session.scalar(query.where(Row.id == row_id, _HELD, instance.deleted_at.is_(None)))


def oldest(session: Session, limit: int) -> list[str]:
    """Returns servers, those whose interfaces were refreshed longest ago first."""
    query = (
        select(Row.instance_uuid).where(_HELD, Row.refreshed_at.is_not(None)).order_by(Row.refreshed_at).limit(limit)
    )
    return list(dict.fromkeys(str(uuid) for uuid in session.scalars(query)))
