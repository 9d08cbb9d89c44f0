"""`/v2/images/{id}/members`: the projects with which an image is shared. The owner shares it, and each project accepts
or rejects it.
"""

from typing import Any

from minova import errors
from minova.api.http import names
from minova.api.http.call import Call
from minova.api.http.definition import Route
from minova.api.image.collaborators import ImageApiCollaborators
from minova.api.image.images import target_of
from minova.api.image.view import MemberAnswer, find_visible, member_view
from minova.db.api_queries.images import ImageWithMembership
from minova.db.catalogue import images
from minova.objects.catalogue.image import Image, ImageMember

STATUSES = ("pending", "accepted", "rejected")


def list_members(api: ImageApiCollaborators, call: Call) -> dict[str, Any]:
    """Lists all members for the owner and for administrators; a member sees only itself."""
    visible = _find(api, call)
    if visible.image.visibility != "shared":
        raise errors.Forbidden(
            f"Not allowed to list members for image {visible.image.id}: Only shared images have members."
        )
    call.require_for(target_of(call, visible))
    with api.db.read() as session:
        members = images.members(session, visible.image.id)
    views = [member_view(member) for member in members if _shows(call, visible.image, member.member_id)]
    return {"members": views, "schema": "/v2/schemas/members"}


def show(api: ImageApiCollaborators, call: Call) -> dict[str, Any]:
    visible = _find(api, call)
    if visible.image.visibility != "shared":
        raise errors.NotFound("Only shared images have members.")
    if not call.permits(call.rule, target_of(call, visible)):
        raise errors.NotFound(f"You are not authorized to lookup the members of the image {visible.image.id}.")
    return member_view(_member(api, call, visible.image))


def create(api: ImageApiCollaborators, call: Call) -> dict[str, Any]:
    member_id = _value(call.body, "member", "Member to be added not specified")
    if not member_id:
        raise errors.BadRequest("Member can't be empty")
    names.checked("Member", member_id)
    visible = _find(api, call)
    _require(call, visible, "create")
    return member_view(api.conductor.add_image_member(call.ctx, image_id=visible.image.id, member_id=member_id))


def update(api: ImageApiCollaborators, call: Call) -> dict[str, Any]:
    """Sets whether a member accepts an image. Only the member itself may do so, and administrators for any member."""
    status = _value(call.body, "status", "Status not specified")
    visible = _find(api, call)
    _require(call, visible, "update")
    member = _member(api, call, visible.image)
    if status not in STATUSES:
        raise errors.BadRequest('Incorrect request: Status must be "pending", "accepted" or "rejected".')
    changed = api.conductor.update_image_member(
        call.ctx, image_id=visible.image.id, member_id=member.member_id, status=status
    )
    return member_view(changed)


def delete(api: ImageApiCollaborators, call: Call) -> None:
    visible = _find(api, call)
    _require(call, visible, "delete")
    member = _member(api, call, visible.image)
    api.conductor.remove_image_member(call.ctx, image_id=visible.image.id, member_id=member.member_id)


def _find(api: ImageApiCollaborators, call: Call) -> ImageWithMembership:
    with api.db.read() as session:
        visible = find_visible(session, call.path["image_id"], call)
    if visible is None:
        raise errors.NotFound(f"Image {call.path['image_id'][:255]} not found.")
    return visible


def _require(call: Call, seen: ImageWithMembership, verb: str) -> None:
    if seen.image.visibility != "shared" or not call.permits(call.rule, target_of(call, seen)):
        raise errors.Forbidden(f"Not allowed to {verb} members for image {seen.image.id}.")


def _member(api: ImageApiCollaborators, call: Call, image: Image) -> ImageMember:
    """Returns the member in the path. Raises NotFound also if the caller may not see the member."""
    member_id = call.path["member_id"]
    if _shows(call, image, member_id):
        with api.db.read() as session:
            member = images.member(session, image.id, member_id)
        if member is not None:
            return member
    raise errors.NotFound(f"{member_id[:255]} not found in the member list of the image {image.id}.")


def _shows(call: Call, image: Image, member_id: str) -> bool:
    return call.ctx.is_admin or call.ctx.project_id in (image.owner, member_id)


def _value(body: dict[str, Any], key: str, missing: str) -> str:
    if key not in body:
        raise errors.BadRequest(missing)
    if not isinstance(body[key], str):
        raise errors.BadRequest(f'Expected a {key} in the form: {{"{key}": "{key}"}}')
    return str(body[key])


ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/v2/images/{image_id}/members",
        rule="get_members",
        handler=list_members,
        answer={"members": list[MemberAnswer], "schema": str},
    ),
    Route(
        method="POST",
        path="/v2/images/{image_id}/members",
        rule="add_member",
        handler=create,
        answer=MemberAnswer,
        body=dict[str, Any],
    ),
    Route(
        method="GET",
        path="/v2/images/{image_id}/members/{member_id}",
        rule="get_member",
        handler=show,
        answer=MemberAnswer,
    ),
    Route(
        method="PUT",
        path="/v2/images/{image_id}/members/{member_id}",
        rule="modify_member",
        handler=update,
        answer=MemberAnswer,
        body=dict[str, Any],
    ),
    Route(
        method="DELETE",
        path="/v2/images/{image_id}/members/{member_id}",
        rule="delete_member",
        handler=delete,
        status=204,
    ),
)
