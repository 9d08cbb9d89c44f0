"""Domains that run where the tables do not expect them: which of them must be removed, and which are only reported."""

from collections.abc import Iterable

import msgspec
from sqlalchemy import select
from sqlalchemy.orm import Session

from minova.db.models import Instance, Migration
from minova.db.servers import migrations, tasks
from minova.db.sql import chunked
from minova.objects.compute_node import DomainView
from minova.objects.states import RESOURCE_FREE, VmState

# In these states a domain may be left over on some host.
_UNBUILT = frozenset({VmState.BUILDING, VmState.ERROR, *RESOURCE_FREE})


class Unexpected(msgspec.Struct, frozen=True):
    """`unexpected_domains`: domains of instances that are deleted, run elsewhere, or were given up here.

    `misplaced`: domains of idle instances whose last attempt was here and which no migration took away. So probably the
    row is wrong, not the domain. {uuid: the host in the row}.
    """

    unexpected_domains: tuple[str, ...]
    misplaced: dict[str, str | None]


def unexpected(session: Session, host: str, domains: Iterable[DomainView]) -> Unexpected:
    """Classifies these domains of a host. A domain without a row is not included, because its owner is unknown, nor is
    one that is being moved from or to this host.
    """
    attempts = {domain.uuid: domain.attempt for domain in domains}
    rows = _elsewhere(session, host, attempts)
    waiting = tasks.locations(session, rows)
    moving = migrations.in_progress_of(session, rows)
    candidates = {
        uuid: row
        for uuid, row in rows.items()
        if waiting.get(uuid, tasks.Location()).host != host
        and not (uuid in moving and host in (moving[uuid].source_compute, moving[uuid].dest_compute))
    }
    idle = [uuid for uuid, row in candidates.items() if row.settled and uuid not in waiting and uuid not in moving]
    left = _left(session, host, idle)
    misplaced = {
        uuid: candidates[uuid].host for uuid in idle if uuid not in left and attempts[uuid] == candidates[uuid].attempt
    }
    return Unexpected(tuple(uuid for uuid in attempts if uuid in candidates and uuid not in misplaced), misplaced)


class _Row(msgspec.Struct, frozen=True):
    """`settled`: the instance is built and has no task_state."""

    host: str | None
    attempt: int
    settled: bool


def _elsewhere(session: Session, host: str, uuids: Iterable[str]) -> dict[str, _Row]:
    """Returns the rows of these instances that name another host or are deleted."""
    model, rows = Instance, {}
    columns = (model.uuid, model.host, model.attempt, model.vm_state, model.task_state, model.deleted_at)
    for chunk in chunked(list(uuids)):
        for uuid, at, attempt, vm_state, task_state, deleted_at in session.execute(
            select(*columns).where(model.uuid.in_(chunk))
        ):
            settled = deleted_at is None and task_state is None and vm_state not in _UNBUILT
            if deleted_at is not None or at != host:
                rows[uuid] = _Row(at, attempt, settled)
    return rows


def _left(session: Session, host: str, uuids: Iterable[str]) -> set[str]:
    """Returns the instances that an ended migration took from this host or did not bring to it."""
    uuids_left: set[str] = set()
    model = Migration
    for chunk in chunked(list(uuids)):
        query = select(model.instance_uuid).where(
            model.instance_uuid.in_(chunk), (model.source_compute == host) | (model.dest_compute == host)
        )
        uuids_left.update(session.scalars(query))
    return uuids_left
