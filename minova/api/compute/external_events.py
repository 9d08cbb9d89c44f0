"""`/os-server-external-events`: events of servers that other services report.

An event is a hint. On Neutron's network events a conductor reads the server's interfaces from Neutron again and informs
the host, which may wait for them. All events are logged, and answered as in Nova.
"""

import logging
from typing import Annotated, Any, Literal

import msgspec

from minova import errors
from minova.api.compute.collaborators import ComputeApiCollaborators
from minova.api.http.call import Call
from minova.api.http.definition import Route
from minova.api.http.microversions import History, changed, text
from minova.db.api_queries import instances

LOG = logging.getLogger(__name__)
_UUID = r"^[0-9a-fA-F]{8}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{12}$"
# The names of events, and the microversion from which each is accepted.
SINCE = {
    "network-changed": "2.1",
    "network-vif-plugged": "2.1",
    "network-vif-unplugged": "2.1",
    "network-vif-deleted": "2.1",
    "volume-extended": "2.51",
    "power-update": "2.76",
    "accelerator-request-bound": "2.82",
    "volume-reimaged": "2.93",
}
_OF_NEUTRON = "network-"
# Events that need a tag: without it their subject is unknown.
TAGGED = frozenset({"volume-extended", "power-update", "accelerator-request-bound"})


class NewEvent(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    name: str
    server_uuid: Annotated[str, msgspec.Meta(pattern=_UUID)]
    status: Literal["failed", "completed", "in-progress"] | None = None
    tag: Annotated[str, msgspec.Meta(max_length=255)] | None = None


class CreateEvents(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    events: Annotated[list[NewEvent], msgspec.Meta(min_length=1)]


BODY_HISTORY = History(
    NewEvent, *(changed(since, "name", note=f"may be {name}") for name, since in SINCE.items() if since != "2.1")
)


def create(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    """Answers 200 if every event is accepted, else 207; each event has its own code.

    Raises BadRequest if the microversion does not have the name of an event.
    """
    body: CreateEvents = call.body
    for event in body.events:
        _check_name(call, event.name)
    answers: list[tuple[NewEvent, int]] = []
    changed_on: dict[str, str] = {}
    with api.db.read() as session:
        for event in body.events:
            row = instances.instance(session, event.server_uuid, None)
            host = None if row is None else row.host
            answers.append((event, _code(event, server_exists=row is not None, host=host)))
            if api.neutron is not None and host is not None and event.name.startswith(_OF_NEUTRON):
                changed_on[event.server_uuid] = host
    for instance_uuid, host in changed_on.items():
        api.conductor.network_changed(call.ctx, instance_uuid=instance_uuid, host=host)
    for event, code in answers:
        LOG.info("Event %s %s of server %s: %s", event.name, event.tag or "", event.server_uuid, code)
    call.response.status = 200 if all(code == 200 for _, code in answers) else 207
    return {"events": [_answer(event, code) for event, code in answers]}


def _check_name(call: Call, name: str) -> None:
    known_names = [event_name for event_name, since in SINCE.items() if call.since(since) or call.shows_all]
    if name not in known_names:
        raise errors.BadRequest(
            f"Invalid input for field/attribute name. Value: {name[:64]}. '{name[:64]}' is not one of {known_names} at {text(call.version)}"
        )


def _code(event: NewEvent, *, server_exists: bool, host: str | None) -> int:
    if not server_exists:
        return 404
    if event.name in TAGGED and event.tag is None:
        return 400
    return 200 if host is not None else 422


def _answer(event: NewEvent, code: int) -> dict[str, Any]:
    fields = {key: value for key, value in msgspec.structs.asdict(event).items() if value is not None}
    return fields | {"status": "completed" if code == 200 else "failed", "code": code}


ROUTES: tuple[Route, ...] = (
    Route(
        method="POST",
        path="/v2.1/os-server-external-events",
        rule="os_compute_api:os-server-external-events:create",
        handler=create,
        answer={"events": list[dict[str, Any]]},
        body=CreateEvents,
        set_by_handler={200: "", 207: "where an event is not taken"},
    ),
)
