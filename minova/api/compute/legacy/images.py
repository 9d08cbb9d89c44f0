"""`/images`, until 2.35, and `/images/{id}/metadata`, until 2.38: the images of the Image API in Nova's format."""

from collections.abc import Sequence
from typing import Any

import msgspec

from minova import errors
from minova.api.compute.collaborators import ComputeApiCollaborators
from minova.api.compute.servers.attributes.metadata import ManyItems, OneItem, checked_items, required_item
from minova.api.http import links, times
from minova.api.http.call import Call
from minova.api.http.definition import Route
from minova.api.http.links import Link, LinkBases
from minova.api.http.structs import Int64, PageQuery, is_true, page_size
from minova.api.image.proxy import Filters, Properties
from minova.api.policies.base import AUTHENTICATED
from minova.db import quotas
from minova.objects.catalogue.image import Image

_STATUSES = {
    "active": "ACTIVE",
    "queued": "SAVING",
    "saving": "SAVING",
    "deleted": "DELETED",
    "pending_delete": "DELETED",
    "killed": "ERROR",
}
_PROGRESS = {"queued": 25, "saving": 50, "active": 100}
_MEDIA_TYPE = "application/vnd.openstack.image"
# {Nova's parameter: the field or property of an image that it filters by}
_FILTERS = {"server": "instance_uuid", "type": "image_type", "minRam": "min_ram", "minDisk": "min_disk"}
_PROPERTY = "property-"


class LegacyImagesQuery(PageQuery, frozen=True, kw_only=True):
    """`property-NAME` is a filter, too. `page_size` and `offset` have no effect, as in Nova with Image v2."""

    name: str | None = None
    status: str | None = None
    changes_since: str | None = msgspec.field(name="changes-since", default=None)
    server: str | None = None
    type: str | None = None
    min_ram: str | None = msgspec.field(name="minRam", default=None)
    min_disk: str | None = msgspec.field(name="minDisk", default=None)
    page_size: Int64 | None = None
    offset: Int64 | None = None


class ImageBrief(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    name: str | None
    links: tuple[Link, ...]


class OfServer(msgspec.Struct, frozen=True, kw_only=True):
    """The server of which the image was made."""

    id: str
    links: tuple[Link, ...]


class ImageView(ImageBrief, frozen=True, kw_only=True):
    """`minRam` in MB, `minDisk` in GB, the size in bytes, `progress` in percent."""

    status: str
    progress: int
    min_ram: int = msgspec.field(name="minRam")
    min_disk: int = msgspec.field(name="minDisk")
    size: int = msgspec.field(name="OS-EXT-IMG-SIZE:size")
    metadata: dict[str, str]
    created: str
    updated: str
    server: OfServer | msgspec.UnsetType = msgspec.UNSET
    disk_config: str | msgspec.UnsetType = msgspec.field(name="OS-DCF:diskConfig", default=msgspec.UNSET)


# -- images --------------------------------------------------------------------------------------------------------------


def list_images(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    return _listing(api, call, lambda image: _brief(call, image))


def list_detail(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    return _listing(api, call, lambda image: _view(call, image))


def show(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    return {"image": _view(call, api.image_proxy.show(call))}


def delete(api: ComputeApiCollaborators, call: Call) -> None:
    api.image_proxy.delete(call)


def _listing(api: ComputeApiCollaborators, call: Call, view: Any) -> dict[str, Any]:
    query: LegacyImagesQuery = call.query
    size = page_size(query.limit, api.conf.api.max_limit) or int(api.conf.api.max_limit)
    images: Sequence[Image] = api.image_proxy.page(call, _filters(call, query), size, query.marker or None)
    answer: dict[str, Any] = {"images": [view(image) for image in images]}
    if links.is_full(images, size):
        answer["images_links"] = links.next_page(call, images[-1].id)
    return answer


def _filters(call: Call, query: LegacyImagesQuery) -> Filters:
    parameters = {key: value[-1] if isinstance(value, list) else value for key, value in call.request.params.items()}
    others = {ours: parameters[key] for key, ours in _FILTERS.items() if key in parameters}
    others |= {key.removeprefix(_PROPERTY): parameters[key] for key in parameters if key.startswith(_PROPERTY)}
    if "instance_uuid" in others:
        # The value may be the URL of a server instead of its id.
        others["instance_uuid"] = others["instance_uuid"].rpartition("/")[2]
    return Filters(
        name=query.name,
        status=None if query.status is None else query.status.lower(),
        updated_at=None if query.changes_since is None else f"gte:{query.changes_since}",
        others=others,
    )


def _brief(call: Call, image: Image) -> ImageBrief:
    return ImageBrief(id=image.id, name=image.name, links=_links(call, image))


def _view(call: Call, image: Image) -> ImageView:
    assert image.created_at is not None
    server_id = image.properties.get("instance_uuid")
    resizes = image.properties.get("auto_disk_config")
    return ImageView(
        id=image.id,
        name=image.name,
        links=_links(call, image),
        status=_STATUSES.get(image.status, "UNKNOWN"),
        progress=_PROGRESS.get(image.status, 0),
        min_ram=image.min_ram,
        min_disk=image.min_disk,
        size=image.size or 0,
        metadata=image.properties,
        created=times.seconds(image.created_at),
        updated=times.seconds(image.updated_at or image.created_at),
        server=msgspec.UNSET
        if server_id is None
        else OfServer(id=server_id, links=links.links_to(call, "servers", server_id)),
        disk_config=msgspec.UNSET if resizes is None else "AUTO" if is_true(resizes) else "MANUAL",
    )


def _links(call: Call, image: Image) -> tuple[Link, ...]:
    of_image_api = Link(rel="alternate", href=call.url(f"/v2/images/{image.id}"), type=_MEDIA_TYPE)
    return (*LinkBases(call, "images").links_to(image.id), of_image_api)


# -- metadata: the properties --------------------------------------------------------------------------------------------


def list_metadata(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    return {"metadata": api.image_proxy.show(call).properties}


def show_item(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    key = call.path["key"]
    return {"meta": {key: required_item(api.image_proxy.show(call).properties, key)}}


def create_metadata(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    """Sets the items of the body and keeps all other items."""
    metadata = checked_items(call.body.metadata)
    return {"metadata": _set(api, call, metadata, keep=True)}


def replace_metadata(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    metadata = checked_items(call.body.metadata)
    _set(api, call, metadata, keep=False)
    return {"metadata": metadata}


def update_item(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    """Raises BadRequest if the body does not have the key of the path. Other keys in the body have no effect, as in
    Nova.
    """
    metadata = checked_items(call.body.meta)
    key = call.path["key"]
    if key not in metadata:
        raise errors.BadRequest("Request body and URI mismatch")
    _set(api, call, {key: metadata[key]}, keep=True)
    return {"meta": metadata}


def delete_item(api: ComputeApiCollaborators, call: Call) -> None:
    def without(before: Properties) -> Properties:
        required_item(before, call.path["key"])
        return {key: value for key, value in before.items() if key != call.path["key"]}

    api.image_proxy.set_properties(call, without)


def _set(api: ComputeApiCollaborators, call: Call, items: Properties, *, keep: bool) -> Properties:
    """Raises Forbidden if the image would have more items than the quota of metadata allows."""
    with api.db.read() as session:
        most = quotas.limits_of(session, api.conf, call.ctx.project_id)["metadata_items"]

    def apply_items(before: Properties) -> Properties:
        after = {**before, **items} if keep else items
        if 0 <= most < len(after):
            raise errors.Forbidden("Image metadata limit exceeded")
        return after

    return api.image_proxy.set_properties(call, apply_items)


_ITEMS = {"metadata": dict[str, str]}
_ITEM = {"meta": dict[str, str]}
ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/v2.1/images",
        rule=AUTHENTICATED,
        handler=list_images,
        answer={"images": list[ImageBrief], "images_links?": list[Link]},
        query=LegacyImagesQuery,
        until=(2, 35),
    ),
    Route(
        method="GET",
        path="/v2.1/images/detail",
        rule=AUTHENTICATED,
        handler=list_detail,
        answer={"images": list[ImageView], "images_links?": list[Link]},
        query=LegacyImagesQuery,
        until=(2, 35),
    ),
    Route(
        method="GET",
        path="/v2.1/images/{image_id}",
        rule=AUTHENTICATED,
        handler=show,
        answer={"image": ImageView},
        until=(2, 35),
    ),
    Route(
        method="DELETE", path="/v2.1/images/{image_id}", rule=AUTHENTICATED, handler=delete, status=204, until=(2, 35)
    ),
    *(
        Route(
            method=method,
            path=path,
            rule=AUTHENTICATED,
            handler=handler,
            body=body,
            answer=answer,
            status=204 if handler is delete_item else 200,
            until=(2, 38),
        )
        for method, path, handler, body, answer in (
            ("GET", "/v2.1/images/{image_id}/metadata", list_metadata, None, _ITEMS),
            ("POST", "/v2.1/images/{image_id}/metadata", create_metadata, ManyItems, _ITEMS),
            ("PUT", "/v2.1/images/{image_id}/metadata", replace_metadata, ManyItems, _ITEMS),
            ("GET", "/v2.1/images/{image_id}/metadata/{key}", show_item, None, _ITEM),
            ("PUT", "/v2.1/images/{image_id}/metadata/{key}", update_item, OneItem, _ITEM),
            ("DELETE", "/v2.1/images/{image_id}/metadata/{key}", delete_item, None, {}),
        )
    ),
)
