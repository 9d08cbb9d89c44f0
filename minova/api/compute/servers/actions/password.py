"""`changePassword`: as in Nova, the only server action whose request waits until the action has ended."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from sqlalchemy.orm import Session

from minova import errors
from minova.api.compute.collaborators import ComputeApiCollaborators
from minova.api.compute.servers.actions.completion import ActionStart, Complete
from minova.api.http.call import Call
from minova.backoff import Backoff
from minova.db.api_queries import instances
from minova.db.api_queries.instances import InstanceRow
from minova.objects.actions.action import SECRET_TIMEOUT, Arguments
from minova.objects.actions.password import CHANGE_PASSWORD

# Seconds between two reads of the action's record: the first and the longest pause.
POLLS = Backoff(first=0.05, longest=0.5, factor=1.5)
# Seconds beyond the host's own time-out, until a conductor notices that the action has ended.
MARGIN = 30.0


def wait(api: ComputeApiCollaborators, call: Call, instance_uuid: str) -> None:
    """Waits until the action of this request has ended.

    Raises Conflict or GuestAgentUnresponsive, with Nova's text, if it has failed.
    """
    until = time.monotonic() + SECRET_TIMEOUT + MARGIN
    for pause in POLLS.pauses():
        with api.db.read() as session:
            if _has_ended(session, call, instance_uuid):
                return
        if time.monotonic() >= until:
            raise _failed(instance_uuid, "its host has not answered in time")
        time.sleep(pause)


def _has_ended(session: Session, call: Call, instance_uuid: str) -> bool:
    action = instances.action(session, instance_uuid, call.ctx.request_id)
    if action is None or action.finish_time is None:
        return False
    if action.result != "Error":
        return True
    kinds = [event.kind for event in instances.events(session, action.id)]
    raise _error(instance_uuid, kinds[0] if kinds else None, action.message or "")


def _error(instance_uuid: str, kind: str | None, message: str) -> errors.MinovaError:
    if kind == errors.GuestAgentNotEnabled.__name__:
        return errors.GuestAgentNotEnabled("QEMU guest agent is not enabled")
    if kind == errors.GuestAgentUnresponsive.__name__:
        return errors.GuestAgentUnresponsive("Unable to set password on instance")
    if kind == errors.GuestNotRunning.__name__:
        return _failed(instance_uuid, f"instance {instance_uuid} is not running")
    if kind == errors.GuestAgentRefused.__name__:
        return _failed(instance_uuid, f"error setting admin password. {message}")
    return _failed(instance_uuid, "error setting admin password")


def _failed(instance_uuid: str, reason: str) -> errors.Conflict:
    return errors.Conflict(f"Failed to set admin password on {instance_uuid} because {reason}")


@contextmanager
def _waiting(api: ComputeApiCollaborators, call: Call, row: InstanceRow) -> Iterator[None]:
    with api.waiting.place(row.project_id):
        yield
        wait(api, call, row.uuid)


def _change_password(
    api: ComputeApiCollaborators, call: Call, session: Session, row: InstanceRow, arguments: Arguments
) -> ActionStart:
    return ActionStart(arguments.sent, during=_waiting(api, call, row))


COMPLETE: Mapping[str, Complete] = {CHANGE_PASSWORD.key: _change_password}
