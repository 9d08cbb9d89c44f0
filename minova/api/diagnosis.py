"""`GET /servers/{id}/diagnosis`, minova's own: why the scheduler put a server where it is, or nowhere."""

from typing import Any

import msgspec

from minova import errors
from minova.api import servers
from minova.api.call import Api, Call
from minova.db import read_instances
from minova.objects.diagnosis import Diagnosis


def show(api: Api, call: Call) -> dict[str, Any]:
    with api.db.read() as session:
        row = servers.find(call, session)
        found = read_instances.last_diagnosis(session, row.uuid)
    if found is None:
        raise errors.NotFound(
            f"There is no Diagnosis of instance {row.uuid}: it was not scheduled, or that is too long ago."
        )
    return {"diagnosis": found.value if call.ctx.is_admin else counts_only(found.value, row.uuid)}


def counts_only(diagnosis: Diagnosis, own_uuid: str) -> Diagnosis:
    """For people without the admin role: how many hosts, but neither their names nor other people's servers."""
    steps = tuple(msgspec.structs.replace(step, lost=()) for step in diagnosis.steps)
    return msgspec.structs.replace(diagnosis, instance_uuids=(own_uuid,), steps=steps, weighed=(), selected=())
