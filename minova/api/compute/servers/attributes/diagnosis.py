"""`GET /servers/{id}/diagnosis`, minova's own: why the scheduler chose the host of a server, or found none."""

from typing import Any

import msgspec

from minova import errors
from minova.api.compute.collaborators import ComputeApiCollaborators
from minova.api.compute.servers import servers
from minova.api.http import times
from minova.api.http.call import Call
from minova.api.http.definition import Route
from minova.db.api_queries import instances
from minova.db.api_queries.instances import Attempt
from minova.objects.requests.diagnosis import Diagnosis, LostHost
from minova.objects.servers.failures import text_of

HOSTS = "minova:servers:diagnosis:hosts"
# Replaces a host that only administrators may see, so that the number of hosts stays.
_SOMEWHERE = LostHost(host="", node="", reason="")


def show(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    with api.db.read() as session:
        row = servers.find(call, session)
        record = instances.last_diagnosis(session, row.uuid)
        attempts = instances.attempts(session, row.uuid)
    if record is None:
        raise errors.NotFound(
            f"There is no Diagnosis of instance {row.uuid}: it was not scheduled, or that is too long ago."
        )
    diagnosis: dict[str, Any] = msgspec.to_builtins(redact_for(call, record.value, row.uuid))
    return {"diagnosis": diagnosis | {"attempts": [_attempt(call, attempt) for attempt in attempts]}}


def redact_for(call: Call, diagnosis: Diagnosis, own_uuid: str | None = None) -> Diagnosis:
    """Returns all of it for administrators; for users, without hosts and without other servers."""
    return diagnosis if call.permits(HOSTS) else counts_only(diagnosis, own_uuid)


def counts_only(diagnosis: Diagnosis, own_uuid: str | None = None) -> Diagnosis:
    """Keeps the number of hosts, but removes their names and other users' servers."""
    return msgspec.structs.replace(
        diagnosis,
        instance_uuids=() if own_uuid is None else (own_uuid,),
        steps=tuple(msgspec.structs.replace(step, lost=()) for step in diagnosis.steps),
        weighed=(),
        selected=(),
        conflicts=(_SOMEWHERE,) * len(diagnosis.conflicts),
    )


def _attempt(call: Call, attempt: Attempt) -> dict[str, Any]:
    admin, failed = call.permits(HOSTS), attempt.result == "Error"
    return {
        "host": attempt.host if admin else "",
        "result": attempt.result,
        "reason": attempt.reason or "" if admin else text_of(attempt.kind) if failed else "",
        "started_at": times.microseconds(attempt.started_at),
        "finished_at": times.microseconds(attempt.finished_at),
    }


ROUTES: tuple[Route, ...] = (
    Route(method="GET", path="/v2.1/servers/{server_id}/diagnosis", rule="minova:servers:diagnosis", handler=show),
)
