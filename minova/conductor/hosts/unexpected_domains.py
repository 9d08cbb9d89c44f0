"""Domains that run where the tables do not expect them: which of them must go, and which are only told of."""

from collections.abc import Iterable

import msgspec
from sqlalchemy import select
from sqlalchemy.orm import Session

from minova.db.models import Instance, Migration
from minova.db.servers import migrations, tasks
from minova.db.sql import chunked
from minova.objects.compute_node import DomainView
from minova.objects.states import RESOURCE_FREE, VmState

# States of which a domain may be left over somewhere.
_UNBUILT = frozenset({VmState.BUILDING, VmState.ERROR, *RESOURCE_FREE})


class Unexpected(msgspec.Struct, frozen=True):
    """`unexpected_domains`: domains of instances that are deleted, that have gone elsewhere, or were given up here.

    `misplaced`: of idle instances whose last attempt was here and which no move took away, so that rather their row is
    wrong than the domain: {uuid: the host of the row}.
    """

    unexpected_domains: tuple[str, ...]
    misplaced: dict[str, str | None]


def unexpected(session: Session, host: str, domains: Iterable[DomainView]) -> Unexpected:
    """Of these domains of a host. One that no row knows is none of them: its owner is not known. Nor is one that is being
    moved from or to here.
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
    """`settled`: it is built, and has no task of its own."""

    host: str | None
    attempt: int
    settled: bool


def _elsewhere(session: Session, host: str, uuids: Iterable[str]) -> dict[str, _Row]:
    """The rows of these that do not say this host."""
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
    """Those that a move, which has ended, took from this host or did not bring to it."""
    uuids_left: set[str] = set()
    model = Migration
    for chunk in chunked(list(uuids)):
        query = select(model.instance_uuid).where(
            model.instance_uuid.in_(chunk), (model.source_compute == host) | (model.dest_compute == host)
        )
        uuids_left.update(session.scalars(query))
    return uuids_left
