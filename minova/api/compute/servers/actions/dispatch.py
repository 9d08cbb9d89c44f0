"""`POST /servers/{id}/action`: the only key of the body is the action.

- Actions of `objects/actions/table.py`: the conductor starts them, and the request is answered before they end. The
  exception is `changePassword`.
- Actions of `consoles.py` and `attributes/locks.py`, `forceDelete`, which is a deletion, and `evacuate`: answered at once.

minova's own: `POST /servers/{id}/action/dry-run` returns where an action that moves the server would take it.
"""

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

import msgspec

from minova import errors
from minova.api.compute.collaborators import ComputeApiCollaborators
from minova.api.compute.servers import consoles, security_groups, servers
from minova.api.compute.servers.actions import (
    evacuate,
    images,
    interfaces,
    moves,
    password,
    rebuild,
    rescue,
    shelving,
)
from minova.api.compute.servers.actions.completion import Complete, as_they_are
from minova.api.compute.servers.attributes import locks
from minova.api.http.call import Call
from minova.api.http.definition import Route
from minova.api.http.microversions import History, added, removed
from minova.codecs import Decoder
from minova.objects.actions.action import Arguments, ServerAction
from minova.objects.actions.table import ACTIONS, BY_KEY

FORCE_DELETE = "forceDelete"
# Policies by the key of the action.
POLICIES = {
    **consoles.POLICIES,
    **locks.POLICIES,
    **security_groups.POLICIES,
    **interfaces.POLICIES,
    **evacuate.POLICIES,
    FORCE_DELETE: "os_compute_api:os-deferred-delete:force",
    **{action.key: f"os_compute_api:{action.policy}" for action in ACTIONS if action.key},
}
DRY_RUN_POLICIES = {
    **evacuate.POLICIES,
    **{action.key: f"os_compute_api:{action.policy}" for action in moves.DRY_RUNS},
}
# 404 if the microversion does not have the action.
KEYS = History(
    None,
    removed("2.6", *consoles.TYPES, note="POST /servers/{server_id}/remote-consoles replaces them"),
    added("2.17", "trigger_crash_dump"),
    removed("2.44", *interfaces.ACTIONS, note="os-interface and ports replace them"),
    title="actions of servers",
)
# Actions that are answered at once.
_AT_ONCE = {
    **consoles.ACTIONS,
    **locks.ACTIONS,
    **security_groups.ACTIONS,
    **interfaces.ACTIONS,
    **evacuate.ACTIONS,
    FORCE_DELETE: servers.force_delete,
}
# Actions for which Nova answers 410 Gone.
REMOVED = frozenset({"resetNetwork"})
# Actions of Nova, and why they are refused.
_FLOATING = "minova's networks have no floating addresses; those of Neutron are given by the Network API"
NOT_SERVED: Mapping[str, str] = {
    "addFloatingIp": _FLOATING,
    "removeFloatingIp": _FLOATING,
    "injectNetworkInfo": "No guest on libvirt takes it",
}
_COMPLETE: Mapping[str, Complete] = {
    **rescue.COMPLETE,
    **images.COMPLETE,
    **rebuild.COMPLETE,
    **shelving.COMPLETE,
    **password.COMPLETE,
    **moves.COMPLETE,
}
_ARGUMENTS: Mapping[str, Decoder[Arguments]] = {
    key: Decoder(actions[0].arguments, strict=False) for key, actions in BY_KEY.items()
}


def act(api: ComputeApiCollaborators, call: Call) -> Any:
    """Raises BadRequest if there is no such action, or not exactly one; NotFound if there is no such server, even for
    an unknown action.
    """
    if len(call.body) != 1:
        raise errors.BadRequest("Malformed request body: it must hold one action.")
    ((name, arguments),) = call.body.items()
    if name in BY_KEY:
        return start(api, call, name, arguments)
    if name not in _AT_ONCE:
        with api.db.read() as session:
            servers.find(call, session)
        if name in REMOVED:
            raise errors.Gone("This resource is no longer available. No forwarding address is given.")
        if name in NOT_SERVED:
            raise errors.BadRequest(f"Not served: {name}. {NOT_SERVED[name]}.")
        raise errors.BadRequest(f"There is no such action: {name[:64]}")
    return _AT_ONCE[name](api, call, arguments)


def dry_run(api: ComputeApiCollaborators, call: Call) -> Any:
    """Raises BadRequest if the body does not hold exactly one action that moves the server. Raises as the action does."""
    name = next(iter(call.body)) if len(call.body) == 1 else ""
    if name not in DRY_RUN_POLICIES:
        raise errors.BadRequest(f"Malformed request body: it must hold one of {', '.join(DRY_RUN_POLICIES)}.")
    if name in evacuate.DRY_RUNS:
        return evacuate.DRY_RUNS[name](api, call, call.body[name])
    action, arguments = requested(name, call.body[name])
    with api.db.read() as session:
        row = servers.find(call, session)
        sent = _COMPLETE[name](api, call, session, row, arguments).sent
    answer = api.conductor.preview_move(
        call.ctx, instance_uuid=row.uuid, action=action.kind, arguments=sent, override_lock=call.ctx.is_admin
    )
    return evacuate.dry_run_answer(call, answer)


def start(api: ComputeApiCollaborators, call: Call, key: str, body: Any) -> Any:
    """Answers as soon as the conductor has stored the action; `changePassword` when the action has ended.

    Raises Conflict if the server's state does not allow the action, BadRequest if the arguments are wrong.
    """
    action, arguments = requested(key, body)
    complete = _COMPLETE.get(key, as_they_are)
    with api.db.read() as session:
        row = servers.find(call, session)
        begin = complete(api, call, session, row, arguments)
    with begin.during or nullcontext():
        api.conductor.start_action(
            call.ctx,
            instance_uuid=row.uuid,
            action=action.kind,
            arguments=begin.sent,
            override_lock=call.ctx.is_admin,
        )
    call.response.status = begin.status
    return begin.answer if begin.answer_after is None else begin.answer_after()


def requested(key: str, body: Any) -> tuple[ServerAction, Arguments]:
    """Returns the action and its arguments. As in Nova, an action without arguments ignores the value of its key."""
    actions = BY_KEY[key]
    if actions[0].arguments is Arguments:
        return actions[0], Arguments()
    try:
        arguments = _ARGUMENTS[key].from_builtins(body if body is not None else {})
    except msgspec.ValidationError as error:
        raise errors.BadRequest(f"Invalid input for {key}: {error}") from None
    return next(action for action in actions if action.variant in {"", arguments.variant}), arguments


ROUTES: tuple[Route, ...] = (
    Route(
        method="POST",
        path="/v2.1/servers/{server_id}/action",
        actions=POLICIES,
        action_history=KEYS,
        handler=act,
        body=dict[str, Any],
        set_by_handler={202: "", 200: "for `rescue` and consoles", 204: "for `confirmResize`"},
    ),
    Route(
        method="POST",
        path="/v2.1/servers/{server_id}/action/dry-run",
        actions=DRY_RUN_POLICIES,
        handler=dry_run,
        body=dict[str, Any],
    ),
)
