"""The route table of the Image API."""

from typing import Any

from minova.api.http.definition import Route
from minova.api.image import data, images, versions, view
from minova.api.image.changes import members, records
from minova.api.image.changes.json_patch import Patch
from minova.api.image.filters import ImagesQuery
from minova.api.image.importing import imports
from minova.api.policies.base import AUTHENTICATED

_IMAGE = "/v2/images/{image_id}"
_TAG = f"{_IMAGE}/tags/{{tag}}"
_MEMBERS = f"{_IMAGE}/members"
_MEMBER = f"{_MEMBERS}/{{member_id}}"

ROUTES: tuple[Route, ...] = (
    Route(method="GET", path="/image", handler=versions.versions, status=300),
    Route(method="GET", path="/v2", handler=versions.versions, status=300),
    Route(
        method="GET",
        path="/v2/images",
        rule="get_images",
        handler=images.list_images,
        answer={"images": list[view.ImageAnswer], "first": str, "schema": str, "next?": str},
        query=ImagesQuery,
    ),
    Route(
        method="POST",
        path="/v2/images",
        rule="add_image",
        handler=imports.create,
        answer=view.ImageAnswer,
        body=dict[str, Any],
        status=201,
    ),
    Route(method="GET", path=_IMAGE, rule="get_image", handler=images.show, answer=view.ImageAnswer),
    Route(
        method="PATCH", path=_IMAGE, rule="modify_image", handler=records.update, answer=view.ImageAnswer, body=Patch
    ),
    Route(method="DELETE", path=_IMAGE, rule="delete_image", handler=images.delete, status=204),
    Route(method="PUT", path=f"{_IMAGE}/file", rule="upload_image", handler=data.upload, status=204),
    Route(method="GET", path=f"{_IMAGE}/file", rule="download_image", handler=data.download),
    Route(method="PUT", path=f"{_IMAGE}/stage", rule="modify_image", handler=imports.stage, status=204),
    Route(
        method="POST",
        path=f"{_IMAGE}/import",
        rule="modify_image",
        handler=imports.import_image,
        body=dict[str, Any],
        status=202,
    ),
    Route(
        method="GET",
        path="/v2/info/import",
        rule=AUTHENTICATED,
        handler=imports.info,
        answer={"import-methods": dict[str, Any]},
    ),
    Route(method="GET", path="/v2/info/stores", rule=AUTHENTICATED, handler=imports.stores),
    Route(method="PUT", path=_TAG, rule="modify_image", handler=records.add_tag, status=204),
    Route(method="DELETE", path=_TAG, rule="modify_image", handler=records.remove_tag, status=204),
    Route(
        method="POST", path=f"{_IMAGE}/actions/deactivate", rule="deactivate", handler=records.deactivate, status=204
    ),
    Route(
        method="POST", path=f"{_IMAGE}/actions/reactivate", rule="reactivate", handler=records.reactivate, status=204
    ),
    Route(
        method="GET",
        path=_MEMBERS,
        rule="get_members",
        handler=members.list_members,
        answer={"members": list[view.MemberAnswer], "schema": str},
    ),
    Route(
        method="POST",
        path=_MEMBERS,
        rule="add_member",
        handler=members.create,
        answer=view.MemberAnswer,
        body=dict[str, Any],
    ),
    Route(method="GET", path=_MEMBER, rule="get_member", handler=members.show, answer=view.MemberAnswer),
    Route(
        method="PUT",
        path=_MEMBER,
        rule="modify_member",
        handler=members.update,
        answer=view.MemberAnswer,
        body=dict[str, Any],
    ),
    Route(method="DELETE", path=_MEMBER, rule="delete_member", handler=members.delete, status=204),
    Route(method="GET", path="/v2/schemas/image", rule=AUTHENTICATED, handler=view.image_schema),
    Route(method="GET", path="/v2/schemas/images", rule=AUTHENTICATED, handler=view.images_schema),
    Route(method="GET", path="/v2/schemas/member", rule=AUTHENTICATED, handler=view.member_schema),
    Route(method="GET", path="/v2/schemas/members", rule=AUTHENTICATED, handler=view.members_schema),
)
