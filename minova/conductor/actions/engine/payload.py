"""The payload of an action's task (`tasks.payload`)."""

from typing import Any

import msgspec

from minova.codecs import Decoder
from minova.db.models import Task
from minova.objects.actions.host_arguments import HostArguments
from minova.objects.actions.table import BY_KIND


class QueuedAction(msgspec.Struct, frozen=True, kw_only=True):
    """An action on a port that was accepted during another action of its server. It follows that action."""

    port_id: str
    action_id: int


class ActionPayload(msgspec.Struct, frozen=True, kw_only=True):
    """How often the host was asked, whether the action has begun, and what the host gets beside the instance.

    `waits`: the kind of failure of its host for which the action waits, as its record says; empty: it does not wait.
    `before`: columns of the instance that are restored if nothing happens to its guest.
    `co_ending_actions`: records of other actions that end with the same result as this one.
    `queued`: actions that follow this one, whatever its result.
    """

    asks: int = 1
    begun: bool = False
    waits: str = ""
    arguments: HostArguments = HostArguments()
    before: dict[str, Any] = {}
    co_ending_actions: tuple[int, ...] = msgspec.field(name="carried", default=())
    queued: tuple[QueuedAction, ...] = msgspec.field(name="waiting", default=())


_PAYLOAD = Decoder(ActionPayload)


def payload_of(task: Task) -> ActionPayload:
    return decoded(task.payload)


def decoded(payload: Any) -> ActionPayload:
    return _PAYLOAD.from_builtins(payload)


def records_of(task: Task, *, queued: bool = True) -> list[int]:
    """Returns the ids of the actions that end with the task. `queued`: including those that would follow it."""
    if task.action_id is None:
        return []
    if task.kind not in BY_KIND:
        return [task.action_id]
    payload = payload_of(task)
    return [task.action_id, *payload.co_ending_actions, *(each.action_id for each in payload.queued if queued)]
