"""`/servers/{id}/tags`: words by which users find servers."""

from typing import Annotated, Any
from urllib.parse import quote

import msgspec

from minova import errors
from minova.api.compute.collaborators import ComputeApiCollaborators
from minova.api.compute.servers import servers
from minova.api.compute.servers.new_server import Tag
from minova.api.http.call import Call
from minova.api.http.definition import Route
from minova.db.servers import tags
from minova.objects.servers.server_changes import MAX_TAGS, ServerChanges

_MAX_LENGTH = 60
_FORBIDDEN = frozenset(",/")


class AllTags(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    tags: Annotated[list[Tag], msgspec.Meta(max_length=MAX_TAGS)]


def index(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    return {"tags": _of(api, call)[1]}


def show(api: ComputeApiCollaborators, call: Call) -> None:
    """Answers 204. Raises NotFound if the server does not have the tag."""
    uuid, server_tags = _of(api, call)
    _require(uuid, server_tags, call.path["tag"])


def replace(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    uuid, _ = _of(api, call)
    new_tags = tuple(sorted(set(call.body.tags)))
    _change(api, call, uuid, ServerChanges(tags=new_tags))
    return {"tags": new_tags}


def add(api: ComputeApiCollaborators, call: Call) -> None:
    """Answers 201 with the address of the tag, or 204 if the server has it already."""
    tag = call.path["tag"]
    uuid, before = _of(api, call)
    if not 1 <= len(tag) <= _MAX_LENGTH or _FORBIDDEN & {*tag} or "\x00" in tag:
        raise errors.BadRequest(
            f"Tag '{tag[:_MAX_LENGTH]}' is invalid. It must be a non empty string without characters '/' and ','. It has "
            f"{len(tag)} characters; {_MAX_LENGTH} are allowed."
        )
    _change(api, call, uuid, ServerChanges(add_tag=tag))
    if tag in before:
        call.response.status = 204
        return
    call.response.status = 201
    call.response.set_header("Location", call.url(f"/v2.1/servers/{uuid}/tags/{quote(tag)}"))


def delete(api: ComputeApiCollaborators, call: Call) -> None:
    uuid, server_tags = _of(api, call)
    tag = call.path["tag"]
    _require(uuid, server_tags, tag)
    _change(api, call, uuid, ServerChanges(remove_tag=tag))


def delete_all(api: ComputeApiCollaborators, call: Call) -> None:
    uuid, _ = _of(api, call)
    _change(api, call, uuid, ServerChanges(tags=()))


def _of(api: ComputeApiCollaborators, call: Call) -> tuple[str, tuple[str, ...]]:
    with api.db.read() as session:
        row = servers.find(call, session)
        return row.uuid, tags.of_instances(session, [row.uuid]).get(row.uuid, ())


def _require(uuid: str, server_tags: tuple[str, ...], tag: str) -> None:
    if tag not in server_tags:
        raise errors.NotFound(f"Server {uuid} has no tag '{tag[:_MAX_LENGTH]}'")


def _change(api: ComputeApiCollaborators, call: Call, uuid: str, changes: ServerChanges) -> None:
    api.conductor.update_server(call.ctx, instance_uuid=uuid, changes=changes, override_lock=call.ctx.is_admin)


ROUTES: tuple[Route, ...] = tuple(
    Route(
        method=method,
        path=f"/v2.1/servers/{{server_id}}/tags{item}",
        rule=f"os_compute_api:os-server-tags:{name}",
        handler=handler,
        body=body,
        status=status,
        since=(2, 26),
        set_by_handler={201: "", 204: "for a tag that it has"} if handler is add else {},
        answer={"tags": list[str]} if handler in (index, replace) else {},
    )
    for method, item, name, handler, body, status in (
        ("GET", "", "index", index, None, 200),
        ("PUT", "", "update_all", replace, AllTags, 200),
        ("DELETE", "", "delete_all", delete_all, None, 204),
        ("GET", "/{tag}", "show", show, None, 204),
        ("PUT", "/{tag}", "update", add, None, 201),
        ("DELETE", "/{tag}", "delete", delete, None, 204),
    )
)
