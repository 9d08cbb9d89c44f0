"""The record of a server whose guest runs on two hosts: its own, and the copy that a move has left on another one.

A host may turn its copy on and off as often as it likes, so there is one record for each host and attempt of the server. Only moves and
builds, which hosts do not begin, raise the attempt.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID, uuid5

from sqlalchemy import select
from sqlalchemy.orm import Session

from minova.db.models import Instance
from minova.db.servers import actions
from minova.db.servers.actions import ActionKey

ACTION = "guest_paused"
TEXT = "A copy of the guest that a move has left on another host was running there, and is paused."
_RECORDS = UUID("3c6ef9ad-4c1d-4f0b-9a51-5a0d7a2e7c36")


def record(session: Session, host: str, attempts: Mapping[str, int], at: datetime) -> None:
    """Shows in the servers' actions that the copies on this host are paused. `attempts`: of the servers, by their rows. A record names no
    user, since none has asked for it.
    """
    keys = {uuid: ActionKey(uuid, _request_id(host, uuid, attempt), ACTION) for uuid, attempt in attempts.items()}
    begun = actions.already_begun(session, keys.values()) if keys else set()
    new = {uuid: key.request_id for uuid, key in keys.items() if key not in begun}
    ended: dict[str, Any] = {"start_time": at, "finish_time": at, "result": "Error"}
    query = select(Instance.uuid, Instance.project_id).where(Instance.uuid.in_(sorted(new)))
    common = {"action": ACTION, "message": TEXT, "user_id": "", **ended}
    rows = [
        {"instance_uuid": uuid, "project_id": project_id, "request_id": new[uuid], **common}
        for uuid, project_id in session.execute(query)
    ]
    if not rows:
        return
    details = f"The guest on host {host} is not that of the server's host: see docs/operators/moves.md"
    events = {"event": ACTION, "host": host, "details": details, **ended}
    actions.begin_events(session, [{"action_id": number, **events} for number in actions.begin(session, rows).values()])


def _request_id(host: str, instance_uuid: str, attempt: int) -> str:
    """Returns the ID of the one record. It is not that of the report, which the host chooses."""
    return f"req-{uuid5(_RECORDS, f'{instance_uuid} {attempt} {host}')}"
