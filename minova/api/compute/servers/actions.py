"""`POST /servers/{id}/action`: the only key of the body is the action.

- Actions of `objects/actions/table.py`: the conductor starts them, and the request is answered before they end. The
  exception is `changePassword`.
- Actions of `consoles.py` and `attributes/locks.py`, and `forceDelete`, which is a deletion: answered at once.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple

import msgspec
from sqlalchemy.orm import Session

from minova import errors
from minova.api.compute.collaborators import Collaborators
from minova.api.compute.servers import (
    consoles,
    rebuild,
    security_groups,
    servers,
    shelving,
    snapshots,
)
from minova.api.compute.servers.attributes import interfaces, locks, passwords
from minova.api.compute.servers.guest_data import new_password
from minova.api.http.call import Call
from minova.api.http.definition import Route
from minova.api.http.microversions import History, added, removed
from minova.codecs import Decoder
from minova.db.api_queries.instances import InstanceRow
from minova.objects.actions.action import Arguments, ServerAction
from minova.objects.actions.images import CREATE_BACKUP, CREATE_IMAGE, CreateBackupArguments, CreateImageArguments
from minova.objects.actions.password import CHANGE_PASSWORD
from minova.objects.actions.rebuild import REBUILD, RebuildArguments
from minova.objects.actions.rescue import RESCUE, RescueArguments
from minova.objects.actions.shelving import SHELVE, UNSHELVE
from minova.objects.actions.table import ACTIONS, BY_KEY
from minova.objects.catalogue.image import Image

FORCE_DELETE = "forceDelete"
# Policies by the key of the action.
POLICIES = {
    **consoles.POLICIES,
    **locks.POLICIES,
    **security_groups.POLICIES,
    **interfaces.POLICIES,
    FORCE_DELETE: "os_compute_api:os-deferred-delete:force",
    **{action.key: f"os_compute_api:{action.policy}" for action in ACTIONS if action.key},
}
# 404 if the microversion does not have the action.
KEYS = History(
    None,
    removed("2.6", *consoles.TYPES, note="POST /servers/{server_id}/remote-consoles replaces them"),
    added("2.17", "trigger_crash_dump"),
    removed("2.44", *interfaces.ACTIONS, note="os-interface and ports replace them"),
    title="actions of servers",
)
_IMAGE = Decoder(Image)
# Actions that are answered at once.
_AT_ONCE = {
    **consoles.ACTIONS,
    **locks.ACTIONS,
    **security_groups.ACTIONS,
    **interfaces.ACTIONS,
    FORCE_DELETE: servers.force_delete,
}
# Actions for which Nova answers 410 Gone.
REMOVED = frozenset({"resetNetwork"})
_ARGUMENTS: Mapping[str, Decoder[Arguments]] = {
    key: Decoder(actions[0].arguments, strict=False) for key, actions in BY_KEY.items()
}


def act(api: Collaborators, call: Call) -> Any:
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
        served = ", ".join([*_AT_ONCE, *BY_KEY])
        raise errors.BadRequest(f"There is no such action: {name[:64]}. minova serves {served} so far.")
    return _AT_ONCE[name](api, call, arguments)


def start(api: Collaborators, call: Call, key: str, body: Any) -> Any:
    """Answers as soon as the conductor has stored the action; `changePassword` when the action has ended.

    Raises Conflict if the server's state does not allow the action, BadRequest if the arguments are wrong.
    """
    action, arguments = requested(key, body)
    complete = _COMPLETE.get(key, _as_they_are)
    with api.db.read() as session:
        row = servers.find(call, session)
        begin = complete(api, call, session, row, arguments)
    with api.waiting.place(row.project_id) if action is CHANGE_PASSWORD else nullcontext():
        with _announced(api, call, begin.sent) if action.makes_image else nullcontext(begin.sent) as sent:
            api.conductor.start_action(
                call.ctx,
                instance_uuid=row.uuid,
                action=action.kind,
                arguments=sent,
                override_lock=call.ctx.is_admin,
            )
        if action is CHANGE_PASSWORD:
            passwords.wait(api, call, row.uuid)
    call.response.status = begin.status
    if action is REBUILD:
        call.response.set_header("Location", call.url(f"/v2.1/servers/{row.uuid}"))
        return {"server": rebuild.shown(api, call) | begin.answer}
    return begin.answer


class Begin(NamedTuple):
    """`sent`: the arguments for the conductor.
    `answer`, `status`: for the user.
    """

    sent: dict[str, Any]
    answer: Any = None
    status: int = 202


Complete = Callable[[Collaborators, Call, Session, InstanceRow, Arguments], Begin]


def _as_they_are(api: Collaborators, call: Call, session: Session, row: InstanceRow, arguments: Arguments) -> Begin:
    return Begin(arguments.sent)


def _rescue(api: Collaborators, call: Call, session: Session, row: InstanceRow, arguments: Arguments) -> Begin:
    """Adds the record of the rescue image if the request names one.

    The password is for guests that can read it. As in Nova, the status is 200.
    """
    assert isinstance(arguments, RescueArguments)
    shown = api.conf.api.enable_instance_password
    answer = {"adminPass": arguments.admin_password or new_password()} if shown else {}
    if arguments.rescue_image_ref is None:
        return Begin({}, answer, 200)
    reference = arguments.rescue_image_ref
    image = api.images.visible(session, reference, call)
    if image is None or image.status != "active":
        raise errors.BadRequest(f"Requested rescue image '{reference[:64]}' is not supported")
    return Begin({"rescue_image": msgspec.to_builtins(image)}, answer, 200)


def _rebuild(api: Collaborators, call: Call, session: Session, row: InstanceRow, arguments: Arguments) -> Begin:
    assert isinstance(arguments, RebuildArguments)
    return Begin(*rebuild.requested(api, call, session, row, arguments))


def _create_image(api: Collaborators, call: Call, session: Session, row: InstanceRow, arguments: Arguments) -> Begin:
    """Adds the record of the image, which the conductor stores together with the task."""
    assert isinstance(arguments, CreateImageArguments)
    image = snapshots.image_of(api.conf, call, session, row, arguments.name, arguments.metadata)
    return Begin({"image": msgspec.to_builtins(image)}, _name(call, image))


def _create_backup(api: Collaborators, call: Call, session: Session, row: InstanceRow, arguments: Arguments) -> Begin:
    """Adds the record of the image, as `_create_image`. With a rotation of 0 no image is left, so the answer names
    none.
    """
    assert isinstance(arguments, CreateBackupArguments)
    own = {"image_type": "backup", "backup_type": arguments.backup_type}
    image = snapshots.image_of(api.conf, call, session, row, arguments.name, arguments.metadata, **own)
    answer = _name(call, image) if arguments.rotation else None
    return Begin({"image": msgspec.to_builtins(image), "rotation": arguments.rotation}, answer)


def _shelve(api: Collaborators, call: Call, session: Session, row: InstanceRow, arguments: Arguments) -> Begin:
    """Adds the record of its image, as `_create_image`."""
    return Begin({"image": shelving.image_of(api, call, session, row)})


def _unshelve(api: Collaborators, call: Call, session: Session, row: InstanceRow, arguments: Arguments) -> Begin:
    return Begin(shelving.destination(api, call, session, row, call.body[UNSHELVE.key]))


def _name(call: Call, image: Image) -> dict[str, str] | None:
    """Returns the answer that names the image, from 2.45 on; before, a header names it."""
    if call.since("2.45"):
        return {"image_id": image.id}
    call.response.set_header("Location", call.url(f"/v2/images/{image.id}"))
    return None


@contextmanager
def _announced(api: Collaborators, call: Call, sent: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields the arguments for the conductor after announcing the image to the image service. Withdraws the image if
    the conductor refuses the action.
    """
    image = api.images.announce(call, _IMAGE.from_builtins(sent["image"]))
    try:
        yield {**sent, "image": msgspec.to_builtins(image)}
    except errors.NoAnswer:
        # The conductor may have started the action; if not, an empty image is left, as in Nova.
        raise
    except errors.MinovaError:
        api.images.withdraw(call, image)
        raise


_COMPLETE: Mapping[str, Complete] = {
    RESCUE.key: _rescue,
    CREATE_IMAGE.key: _create_image,
    CREATE_BACKUP.key: _create_backup,
    REBUILD.key: _rebuild,
    SHELVE.key: _shelve,
    UNSHELVE.key: _unshelve,
}


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
        set_by_handler={202: "", 200: "for `rescue` and consoles"},
    ),
)
