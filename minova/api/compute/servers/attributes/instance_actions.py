"""`/servers/{id}/os-instance-actions`: the actions on a server, the requests that started them, and their results."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy.orm import Session

from minova import errors
from minova.api.compute.collaborators import ComputeApiCollaborators
from minova.api.compute.servers import servers
from minova.api.compute.servers.view import host_id
from minova.api.http import links, times
from minova.api.http.call import Call
from minova.api.http.definition import Route
from minova.api.http.links import Link
from minova.api.http.microversions import History, added
from minova.api.http.structs import PageQuery, page_size
from minova.db import models
from minova.db.api_queries import instances
from minova.objects.servers.failures import text_of

EVENTS = "os_compute_api:os-instance-actions:events"
DETAILS = "os_compute_api:os-instance-actions:events:details"
# From this version on, actions of deleted servers are shown.
OF_DELETED = "2.21"
# From this version on, users see events, too.
OWN_EVENTS = "2.51"


class ActionsQuery(PageQuery, frozen=True, kw_only=True):
    """`marker`: the id of a request. The filters by time compare the last change of an action."""

    changes_since: str | None = msgspec.field(name="changes-since", default=None)
    changes_before: str | None = msgspec.field(name="changes-before", default=None)


class ActionView(msgspec.Struct, frozen=True, kw_only=True):
    """`user_id`: None if no user has asked for it: the guest or its host has changed by itself.
    `events`: only if a single action is shown. `finish_time` and `result` are minova's own: in Nova the events have
    them.
    """

    action: str
    instance_uuid: str
    request_id: str
    user_id: str | None
    project_id: str
    start_time: str | None
    message: str | None
    updated_at: str | None
    events: tuple["EventView", ...] | msgspec.UnsetType = msgspec.UNSET
    finish_time: str | msgspec.UnsetType | None = msgspec.UNSET
    result: str | msgspec.UnsetType | None = msgspec.UNSET


class EventView(msgspec.Struct, frozen=True, kw_only=True):
    """`traceback` and `details`: the reason of a failure. These and `host` are shown if policies permit it."""

    event: str
    start_time: str | None
    finish_time: str | None
    result: str | None
    traceback: str | msgspec.UnsetType | None = msgspec.UNSET
    host: str | msgspec.UnsetType | None = msgspec.UNSET
    host_id: str = msgspec.field(name="hostId")
    details: str | msgspec.UnsetType | None = msgspec.UNSET


QUERY_HISTORY = History(
    ActionsQuery,
    added("2.58", "limit", "marker", "changes-since"),
    added("2.66", "changes-before"),
    strict_since=(2, 58),
)
ANSWER_HISTORY = History(ActionView, added("2.58", "updated_at"))
EVENT_ANSWER_HISTORY = History(EventView, added("2.62", "host", "hostId"), added("2.84", "details"))


def index(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    """Lists the newest actions first; all of them in versions without pages."""
    query: ActionsQuery = call.query
    since, before = times.span(query.changes_since, query.changes_before)
    size = page_size(query.limit, api.conf.api.max_limit) if call.has(QUERY_HISTORY, "limit") else None
    with api.db.read() as session:
        row = servers.find(call, session, deleted=call.since(OF_DELETED))
        actions = instances.actions(session, row.uuid)
        raw = _with_raw_texts(call, session, actions)
    chosen = [
        action
        for action in actions
        if (since is None or _updated(action) >= since) and (before is None or _updated(action) <= before)
    ]
    if query.marker is not None:
        requests = [action.request_id for action in actions]
        if query.marker not in requests:
            raise errors.BadRequest(f"Marker {query.marker[:64]} could not be found.")
        later = {action.id for action in actions[requests.index(query.marker) + 1 :]}
        chosen = [action for action in chosen if action.id in later]
    page = chosen if size is None else chosen[:size]
    answer: dict[str, Any] = {"instanceActions": [_action(call, action, raw) for action in page]}
    if size is not None and links.is_full(page, size):
        answer["links"] = links.next_page(call, page[-1].request_id)
    return answer


def show(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    """Shows the events, too, if the policy permits it.

    Raises NotFound if no request with this id has changed the server.
    """
    request_id = call.path["request_id"]
    with api.db.read() as session:
        row = servers.find(call, session, deleted=call.since(OF_DELETED))
        action = instances.action(session, row.uuid, request_id)
        if action is None:
            raise errors.NotFound(f"Action for request_id {request_id[:64]} on instance {row.uuid} not found")
        answer = _action(call, action, _with_raw_texts(call, session, [action]))
        if call.permits(EVENTS) or call.since(OWN_EVENTS):
            events = [_event(call, row.project_id, event) for event in instances.events(session, action.id)]
            answer = msgspec.structs.replace(answer, events=tuple(events))
    return {"instanceAction": answer}


def _with_raw_texts(call: Call, session: Session, actions: Sequence[models.InstanceAction]) -> frozenset[int]:
    """Returns the ids of actions whose texts an older release has stored. These texts name hosts, paths and hypervisor
    errors, so only administrators see them.
    """
    if call.ctx.is_admin:
        return frozenset()
    return instances.without_kinds(session, [action.id for action in actions if action.result == "Error"])


def _action(call: Call, action: models.InstanceAction, raw: Collection[int]) -> ActionView:
    own: dict[str, Any] = {}
    if call.shows_all:
        own = {"finish_time": _time(action.finish_time), "result": action.result}
    complete = ActionView(
        action=action.action,
        instance_uuid=action.instance_uuid,
        request_id=action.request_id,
        user_id=action.user_id or None,
        project_id=action.project_id,
        start_time=times.microseconds(action.start_time),
        message=text_of(None) if action.id in raw else action.message,
        updated_at=times.microseconds(_updated(action)),
        **own,
    )
    return call.shown(ANSWER_HISTORY, complete)


def _updated(action: models.InstanceAction) -> datetime:
    return action.finish_time or action.start_time


def _event(call: Call, project_id: str, event: models.InstanceActionEvent) -> EventView:
    all_of_it, reason = call.permits(EVENTS), call.permits(DETAILS)
    complete = EventView(
        event=event.event,
        start_time=times.microseconds(event.start_time),
        finish_time=_time(event.finish_time),
        result=event.result,
        traceback=(event.details if reason else None) if all_of_it else msgspec.UNSET,
        host=event.host if all_of_it else msgspec.UNSET,
        host_id=host_id(project_id, event.host),
        details=event.details if reason else msgspec.UNSET,
    )
    return call.shown(EVENT_ANSWER_HISTORY, complete)


def _time(at: datetime | None) -> str | None:
    return None if at is None else times.microseconds(at)


ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/v2.1/servers/{server_id}/os-instance-actions",
        rule="os_compute_api:os-instance-actions:list",
        handler=index,
        answer={"instanceActions": list[ActionView], "links?": list[Link]},
        query=ActionsQuery,
    ),
    Route(
        method="GET",
        path="/v2.1/servers/{server_id}/os-instance-actions/{request_id}",
        rule="os_compute_api:os-instance-actions:show",
        handler=show,
        answer={"instanceAction": ActionView},
    ),
)
