"""`/servers`: list, show, delete; `create` has a file of its own."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy.orm import Session

from minova import errors
from minova.api.compute.collaborators import Collaborators
from minova.api.compute.servers import filters
from minova.api.compute.servers.view import ServerView, brief, shows_fault, view
from minova.api.http import links
from minova.api.http.call import Call
from minova.api.http.structs import page_size
from minova.api.policies.enforcer import Target
from minova.db import models
from minova.db.api_queries import availability_zones, instances


def list_servers(api: Collaborators, call: Call) -> dict[str, Any]:
    with api.db.read() as session:
        rows, more = _rows(api, call, session)
    return _page(call, [brief(call, row) for row in rows], rows, more)


def list_detail(api: Collaborators, call: Call) -> dict[str, Any]:
    with api.db.read() as session:
        rows, more = _rows(api, call, session)
        shown = _views(api, call, session, rows)
    return _page(call, shown, rows, more)


def show(api: Collaborators, call: Call) -> dict[str, Any]:
    with api.db.read() as session:
        row = find(call, session)
        return {"server": _views(api, call, session, [row])[0]}


def delete(api: Collaborators, call: Call) -> None:
    with api.db.read() as session:
        row = find(call, session)
    api.conductor.delete_server(call.ctx, instance_uuid=row.uuid)


def find(call: Call, session: Session) -> models.Instance:
    """The server in the path. Raises NotFound also for a server that the caller may not see, Forbidden if the policy of the
    route does not permit it for this server.
    """
    wanted = call.path["server_id"]
    row = None
    if len(wanted) <= 36:
        row = instances.instance(session, wanted, None if call.ctx.is_admin else call.ctx.project_id)
    if row is None:
        raise errors.NotFound(f"Instance {wanted[:255]} could not be found.")
    call.require_for(Target(project_id=row.project_id, user_id=row.user_id))
    return row


class Page(NamedTuple):
    """`more`: further rows follow."""

    rows: Sequence[models.Instance] = ()
    more: bool = False


def _rows(api: Collaborators, call: Call, session: Session) -> Page:
    query: filters.ServersQuery = call.query
    size = page_size(query.limit, api.conf.api.max_limit)
    wanted = filters.wanted(query, call.ctx.project_id, filters.rights_of(call))
    order = filters.order(query)
    if wanted is None or size == 0:
        return Page()
    try:
        zone = api.conf.scheduler.default_availability_zone
        rows = instances.instances(session, wanted, order, query.marker, size + 1, zone)
    except LookupError:
        raise errors.BadRequest(f"marker [{query.marker}] not found") from None
    return Page(rows[:size], more=len(rows) > size)


def _page(call: Call, shown: list[Any], rows: Sequence[models.Instance], more: bool) -> dict[str, Any]:
    answer: dict[str, Any] = {"servers": shown}
    if more:
        answer["servers_links"] = links.next_page(call, rows[-1].uuid)
    return answer


def _views(api: Collaborators, call: Call, session: Session, rows: Sequence[models.Instance]) -> list[ServerView]:
    broken = [row.uuid for row in rows if shows_fault(row)]
    faults = instances.last_faults(session, broken)
    zones = availability_zones.by_host(session, {row.host for row in rows if row.host is not None})
    default = api.conf.scheduler.default_availability_zone
    return [view(call, row, faults.get(row.uuid), zones.get(row.host or "", default)) for row in rows]
