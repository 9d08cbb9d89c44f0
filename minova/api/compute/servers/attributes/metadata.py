"""`/servers/{id}/metadata`: key-value pairs that users store with a server."""

from typing import Any

import msgspec

from minova import errors
from minova.api.compute.collaborators import ComputeApiCollaborators
from minova.api.compute.servers import servers
from minova.api.compute.servers.new_server import METADATA_KEY, Text255
from minova.api.http.call import Call
from minova.api.http.definition import Route
from minova.objects.servers.server_changes import ServerChanges


class ManyItems(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    metadata: dict[str, Text255]


class OneItem(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    meta: dict[str, Text255]


def index(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    return {"metadata": _of(api, call)[1]}


def show(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    """Raises NotFound if the server does not have the key."""
    key = call.path["key"]
    return {"meta": {key: required_item(_of(api, call)[1], key)}}


def create(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    """Sets the items of the body and keeps all other items."""
    uuid, before = _of(api, call)
    metadata = checked_items(call.body.metadata)
    _change(api, call, uuid, metadata)
    return {"metadata": {**before, **metadata}}


def replace(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    uuid, _ = _of(api, call)
    metadata = checked_items(call.body.metadata)
    _change(api, call, uuid, metadata, replace=True)
    return {"metadata": metadata}


def update(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    """Raises BadRequest if the body has another key than the path."""
    uuid, _ = _of(api, call)
    metadata = checked_items(call.body.meta)
    if [*metadata] != [call.path["key"]]:
        raise errors.BadRequest("Request body and URI mismatch: the body must hold the key in the path, and no other.")
    _change(api, call, uuid, metadata)
    return {"meta": metadata}


def delete(api: ComputeApiCollaborators, call: Call) -> None:
    uuid, before = _of(api, call)
    required_item(before, call.path["key"])
    _change(api, call, uuid, {call.path["key"]: None})


def _of(api: ComputeApiCollaborators, call: Call) -> tuple[str, dict[str, str]]:
    with api.db.read() as session:
        row = servers.find(call, session)
        return row.uuid, dict(row.metadata_)


def required_item(metadata: dict[str, str], key: str) -> str:
    if key not in metadata:
        raise errors.NotFound("Metadata item was not found")
    return metadata[key]


def checked_items(metadata: dict[str, str]) -> dict[str, str]:
    for key in metadata:
        if not METADATA_KEY.fullmatch(key):
            raise errors.BadRequest(
                "Invalid input for field metadata: keys are 1 to 255 letters, digits, spaces, or any of - _ : ."
            )
    return metadata


def _change(api: ComputeApiCollaborators, call: Call, uuid: str, items: Any, *, replace: bool = False) -> None:
    changes = ServerChanges(metadata=items, replace_metadata=replace)
    api.conductor.update_server(call.ctx, instance_uuid=uuid, changes=changes, override_lock=call.ctx.is_admin)


ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/v2.1/servers/{server_id}/metadata",
        rule="os_compute_api:server-metadata:index",
        handler=index,
        answer={"metadata": dict[str, str]},
    ),
    Route(
        method="POST",
        path="/v2.1/servers/{server_id}/metadata",
        rule="os_compute_api:server-metadata:create",
        handler=create,
        answer={"metadata": dict[str, str]},
        body=ManyItems,
    ),
    Route(
        method="PUT",
        path="/v2.1/servers/{server_id}/metadata",
        rule="os_compute_api:server-metadata:update_all",
        handler=replace,
        answer={"metadata": dict[str, str]},
        body=ManyItems,
    ),
    Route(
        method="GET",
        path="/v2.1/servers/{server_id}/metadata/{key}",
        rule="os_compute_api:server-metadata:show",
        handler=show,
        answer={"meta": dict[str, str]},
    ),
    Route(
        method="PUT",
        path="/v2.1/servers/{server_id}/metadata/{key}",
        rule="os_compute_api:server-metadata:update",
        handler=update,
        answer={"meta": dict[str, str]},
        body=OneItem,
    ),
    Route(
        method="DELETE",
        path="/v2.1/servers/{server_id}/metadata/{key}",
        rule="os_compute_api:server-metadata:delete",
        handler=delete,
        status=204,
    ),
)
