"""`/os-migrations`: moves of servers between hosts and sizes. `/servers/{id}/migrations`: the live migrations of a
server in progress.

minova's own: `DELETE /servers/{id}/migrations/{id}` also cancels a resize or a cold migration until the server is at its
destination; minova's clients see the phase, the speed and the downtime of a live migration.
"""

from collections.abc import Iterable
from typing import Any

import msgspec
from sqlalchemy.orm import Session

from minova import errors
from minova.api.compute.collaborators import ComputeApiCollaborators
from minova.api.compute.servers import servers
from minova.api.http import times
from minova.api.http.call import Call
from minova.api.http.definition import Route
from minova.api.http.links import Link, is_full, links_to, next_page
from minova.api.http.microversions import History, added
from minova.api.http.structs import PageQuery, is_true, page_size
from minova.api.policies.enforcer import Target
from minova.db.api_queries import migrations
from minova.db.api_queries.instances import InstanceRow
from minova.db.api_queries.migrations import MigrationRow
from minova.objects.servers.migration import COLD_STEPS, ENDED, MigrationType
from minova.objects.servers.states import TaskState

OTHER_PROJECTS = "os_compute_api:os-migrations:index:all_projects"
HOSTS = "os_compute_api:os-migrations:index:host"
HOSTS_OF_SERVER = "os_compute_api:servers:migrations:index:host"
# More migrations than exist before they are purged. Versions without pages list all of them.
_ALL = 1_000_000


class MigrationsQuery(PageQuery, frozen=True, kw_only=True):
    """`host`: of the source or of the destination.
    `hidden`: has no effect, because minova hides no migrations.
    `marker`: a UUID.
    """

    hidden: str | None = None
    host: str | None = None
    instance_uuid: str | None = None
    source_compute: str | None = None
    status: str | None = None
    migration_type: str | None = None
    changes_since: str | None = msgspec.field(name="changes-since", default=None)
    changes_before: str | None = msgspec.field(name="changes-before", default=None)
    user_id: str | None = None
    project_id: str | None = None


class MigrationView(msgspec.Struct, frozen=True, kw_only=True):
    """Hosts are null for callers that may not see them. `links`: only of a live migration in progress."""

    id: int
    uuid: str
    instance_uuid: str
    status: str
    migration_type: str
    source_compute: str | None
    source_node: str | None
    dest_compute: str | None
    dest_node: str | None
    dest_host: str | None
    old_instance_type_id: int | None
    new_instance_type_id: int | None
    created_at: str | None
    updated_at: str | None
    user_id: str | None
    project_id: str | None
    links: tuple[Link, ...] | msgspec.UnsetType = msgspec.UNSET


class ServerMigrationView(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes are null until the source has reported them. `phase` and the fields after it: minova's own."""

    id: int
    uuid: str
    server_uuid: str
    status: str
    source_compute: str | msgspec.UnsetType | None
    source_node: str | msgspec.UnsetType | None
    dest_compute: str | msgspec.UnsetType | None
    dest_node: str | msgspec.UnsetType | None
    dest_host: str | msgspec.UnsetType | None
    memory_total_bytes: int | None = None
    memory_processed_bytes: int | None = None
    memory_remaining_bytes: int | None = None
    disk_total_bytes: int | None = None
    disk_processed_bytes: int | None = None
    disk_remaining_bytes: int | None = None
    created_at: str | None
    updated_at: str | None
    user_id: str | None
    project_id: str | None
    phase: str | msgspec.UnsetType | None = msgspec.UNSET
    bytes_per_second: int | msgspec.UnsetType | None = msgspec.UNSET
    seconds: float | msgspec.UnsetType | None = msgspec.UNSET
    downtime_ms: int | msgspec.UnsetType | None = msgspec.UNSET


class ForceComplete(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    force_complete: None


QUERY_HISTORY = History(
    MigrationsQuery,
    added("2.59", "limit", "marker", "changes-since"),
    added("2.66", "changes-before"),
    added("2.80", "user_id", "project_id"),
    strict_since=(2, 59),
)
ANSWER_HISTORY = History(
    MigrationView,
    added("2.23", "migration_type", "links"),
    added("2.59", "uuid"),
    added("2.80", "user_id", "project_id"),
)
SHOWN_OF_SERVER = History(ServerMigrationView, added("2.59", "uuid"), added("2.80", "user_id", "project_id"))


def index(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    """Lists the newest migrations first in versions with pages.

    Raises Forbidden for migrations of other projects unless the policy permits them.
    """
    query: MigrationsQuery = call.query
    if query.project_id is None or query.project_id != call.ctx.project_id:
        call.require(OTHER_PROJECTS)
    since, before = times.span(query.changes_since, query.changes_before)
    migration_filter = migrations.MigrationFilter(
        instance_uuid=query.instance_uuid,
        host=query.host,
        source_compute=query.source_compute,
        status=query.status,
        migration_type=query.migration_type,
        user_id=query.user_id,
        project_id=query.project_id,
        since=since,
        before=before,
    )
    paged = call.has(QUERY_HISTORY, "limit")
    size = page_size(query.limit, api.conf.api.max_limit) if paged else _ALL
    with api.db.read() as session:
        if is_true(query.hidden):
            rows = []
        elif paged:
            rows = migrations.newest_first(session, migration_filter, query.marker, size)
        else:
            rows = migrations.oldest_first(session, migration_filter, size)
        numbers = migrations.flavor_ids(session, _flavorids(rows))
    answer: dict[str, Any] = {"migrations": [_view(call, row, numbers) for row in rows]}
    if paged and is_full(rows, size):
        answer["migrations_links"] = next_page(call, rows[-1].value.uuid)
    return answer


def index_of_server(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    with api.db.read() as session:
        row = servers.find(call, session)
        live_migrations = migrations.live_in_progress(session, row.uuid)
    with_hosts = call.permits(HOSTS_OF_SERVER, Target(project_id=row.project_id, user_id=row.user_id))
    return {"migrations": [_view_of_server(call, migration, with_hosts=with_hosts) for migration in live_migrations]}


def show_of_server(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    """Raises NotFound, with Nova's text, unless the migration is a live migration of this server in progress."""
    migration_id = call.path["migration_id"]
    with api.db.read() as session:
        server = servers.find(call, session)
        migration = _find(session, server.uuid, migration_id)
    if migration is None:
        raise errors.NotFound(f"In-progress live migration {migration_id[:64]} is not found for server {server.uuid}.")
    if migration.value.migration_type != migrations.LIVE:
        raise errors.NotFound(f"Migration {migration.id} for server {server.uuid} is not live-migration.")
    if migration.status not in migrations.IN_PROGRESS:
        raise errors.NotFound(f"Live migration {migration.id} for server {server.uuid} is not in progress.")
    return {"migration": _view_of_server(call, migration, with_hosts=True)}


def abort(api: ComputeApiCollaborators, call: Call) -> None:
    """Raises NotFound if the server has no such migration. Raises BadRequest, with Nova's text, if it is too late or too early.
    Raises Conflict if the server does not move.
    """
    migration_id = call.path["migration_id"]
    with api.db.read() as session:
        server = servers.find(call, session)
        migration = _find(session, server.uuid, migration_id)
    if migration is None or not _is_cold(migration, server.task_state):
        _require_migrating(server, ABORT)
        if migration is None:
            raise errors.NotFound(f"Migration {migration_id[:64]} not found for instance {server.uuid}")
        _require_status(migration, server.uuid, ABORT, _ABORTABLE if call.since("2.65") or call.shows_all else _RUNNING)
    migration_uuid = migration.value.uuid
    api.conductor.cancel_move(
        call.ctx, instance_uuid=server.uuid, migration_uuid=migration_uuid, override_lock=call.ctx.is_admin
    )


def force_complete(api: ComputeApiCollaborators, call: Call) -> None:
    """Raises BadRequest, with Nova's text, if no guest migrates in this migration. Raises Conflict if the server does not migrate
    live.
    """
    migration_id = call.path["migration_id"]
    with api.db.read() as session:
        server = servers.find(call, session)
        migration = _find(session, server.uuid, migration_id)
    _require_migrating(server, FORCE_COMPLETE)
    if migration is None:
        raise errors.BadRequest(f"Migration {migration_id[:64]} not found for instance {server.uuid}")
    _require_status(migration, server.uuid, "force complete", _RUNNING)
    api.conductor.force_complete_migration(
        call.ctx, instance_uuid=server.uuid, migration_uuid=migration.value.uuid, override_lock=call.ctx.is_admin
    )


ABORT, FORCE_COMPLETE = "abort live migration", "force_complete"
_RUNNING = frozenset({"running"})
# From 2.65 on.
_ABORTABLE = _RUNNING | {"queued", "preparing"}


def _find(session: Session, server_uuid: str, migration_id: str) -> MigrationRow | None:
    number = (
        int(migration_id) if migration_id.isascii() and migration_id.isdigit() and len(migration_id) < _DIGITS else 0
    )
    return migrations.find(session, server_uuid, number)


def _is_cold(row: MigrationRow, task_state: str | None) -> bool:
    """Whether this is a resize or a cold migration on its way to its destination."""
    kinds = (MigrationType.MIGRATION, MigrationType.RESIZE)
    return row.value.migration_type in kinds and row.status not in ENDED and task_state in COLD_STEPS


def _require_migrating(server: InstanceRow, what: str) -> None:
    if server.task_state != TaskState.MIGRATING:
        state = f"task_state {server.task_state}"
        raise errors.Conflict(f"Cannot '{what}' instance {server.uuid} while it is in {state}")


def _require_status(row: MigrationRow, server_uuid: str, what: str, statuses: frozenset[str]) -> None:
    if row.status not in statuses:
        raise errors.BadRequest(
            f"Migration {row.id} state of instance {server_uuid} is {row.status}. Cannot {what} while the migration is in this "
            "state."
        )


# One more than the digits of the largest id.
_DIGITS = 20


def _flavorids(rows: Iterable[MigrationRow]) -> set[str]:
    return {flavor.flavorid for row in rows for flavor in (row.value.old_flavor, row.value.new_flavor)}


def _view(call: Call, row: MigrationRow, numbers: dict[str, int]) -> MigrationView:
    migration, with_hosts = row.value, call.permits(HOSTS)
    in_progress = migration.migration_type == migrations.LIVE and row.status in migrations.IN_PROGRESS
    place = f"servers/{migration.instance_uuid}/migrations"
    view = MigrationView(
        id=row.id,
        uuid=migration.uuid,
        instance_uuid=migration.instance_uuid,
        status=row.status,
        migration_type=migration.migration_type,
        source_compute=migration.source_compute if with_hosts else None,
        source_node=migration.source_node if with_hosts else None,
        dest_compute=migration.dest_compute if with_hosts else None,
        dest_node=migration.dest_node if with_hosts else None,
        dest_host=row.dest_host_ip if with_hosts else None,
        old_instance_type_id=numbers.get(migration.old_flavor.flavorid),
        new_instance_type_id=numbers.get(migration.new_flavor.flavorid),
        created_at=times.microseconds(row.created_at),
        updated_at=times.microseconds(row.updated_at),
        user_id=row.user_id,
        project_id=row.project_id,
        links=links_to(call, place, str(row.id)) if in_progress else msgspec.UNSET,
    )
    return call.shown(ANSWER_HISTORY, view)


def _view_of_server(call: Call, row: MigrationRow, *, with_hosts: bool) -> ServerMigrationView:
    migration, progress = row.value, row.progress
    own = {}
    if call.shows_all:
        own = {name: getattr(progress, attribute, None) for name, attribute in _OWN.items()}
    view = ServerMigrationView(
        id=row.id,
        uuid=migration.uuid,
        server_uuid=migration.instance_uuid,
        status=row.status,
        source_compute=migration.source_compute if with_hosts else msgspec.UNSET,
        source_node=migration.source_node if with_hosts else msgspec.UNSET,
        dest_compute=migration.dest_compute if with_hosts else msgspec.UNSET,
        dest_node=migration.dest_node if with_hosts else msgspec.UNSET,
        dest_host=row.dest_host_ip if with_hosts else msgspec.UNSET,
        created_at=times.microseconds(row.created_at),
        updated_at=times.microseconds(row.updated_at),
        user_id=row.user_id,
        project_id=row.project_id,
        **{f"{name}_bytes": getattr(progress, name, None) for name in _SIZES},
        **own,
    )
    return call.shown(SHOWN_OF_SERVER, view)


_SIZES = tuple(f"{what}_{which}" for what in ("memory", "disk") for which in ("total", "processed", "remaining"))
_OWN = {"phase": "phase", "bytes_per_second": "speed", "seconds": "seconds", "downtime_ms": "downtime_ms"}


ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/v2.1/servers/{server_id}/migrations",
        rule="os_compute_api:servers:migrations:index",
        handler=index_of_server,
        answer={"migrations": list[ServerMigrationView]},
        since=(2, 23),
    ),
    Route(
        method="GET",
        path="/v2.1/servers/{server_id}/migrations/{migration_id}",
        rule="os_compute_api:servers:migrations:show",
        handler=show_of_server,
        answer={"migration": ServerMigrationView},
        since=(2, 23),
    ),
    Route(
        method="DELETE",
        path="/v2.1/servers/{server_id}/migrations/{migration_id}",
        rule="os_compute_api:servers:migrations:delete",
        handler=abort,
        status=202,
        since=(2, 24),
    ),
    Route(
        method="POST",
        path="/v2.1/servers/{server_id}/migrations/{migration_id}/action",
        rule="os_compute_api:servers:migrations:force_complete",
        handler=force_complete,
        body=ForceComplete,
        status=202,
        since=(2, 22),
    ),
    Route(
        method="GET",
        path="/v2.1/os-migrations",
        rule="os_compute_api:os-migrations:index",
        handler=index,
        answer={"migrations": list[MigrationView], "migrations_links?": list[Link]},
        query=MigrationsQuery,
    ),
)
