"""The record of a server whose guest runs on two hosts: its own, and the copy that a move has left on another one."""

from collections.abc import Collection
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from minova.context import RequestContext
from minova.db.models import Instance
from minova.db.servers import actions

ACTION = "guest_paused"
TEXT = "A copy of the guest that a move has left on another host was running there, and is paused."


def record(session: Session, ctx: RequestContext, host: str, instance_uuids: Collection[str], at: datetime) -> None:
    """Shows in the servers' actions that the copies on this host are paused. A record names no user, since none has asked for it."""
    ended: dict[str, Any] = {"start_time": at, "finish_time": at, "result": "Error"}
    query = select(Instance.uuid, Instance.project_id).where(Instance.uuid.in_(sorted(instance_uuids)))
    common = {"action": ACTION, "message": TEXT, "request_id": ctx.request_id, "user_id": "", **ended}
    rows = [{"instance_uuid": uuid, "project_id": project_id, **common} for uuid, project_id in session.execute(query)]
    if not rows:
        return
    details = f"The guest on host {host} is not that of the server's host: see docs/operators/moves.md"
    events = {"event": ACTION, "host": host, "details": details, **ended}
    actions.begin_events(session, [{"action_id": number, **events} for number in actions.begin(session, rows).values()])
