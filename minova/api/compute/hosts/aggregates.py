"""`/os-aggregates`: groups of hosts with common metadata, which also form the availability zones."""

import re
import uuid
from collections.abc import Callable
from typing import Annotated, Any

import msgspec
from sqlalchemy.orm import Session

from minova import errors
from minova.api.compute.collaborators import ComputeApiCollaborators
from minova.api.compute.servers.boot_files import with_boot_files
from minova.api.http import names, times
from minova.api.http.call import Call
from minova.api.http.definition import Route
from minova.api.http.microversions import History, added
from minova.codecs import Decoder
from minova.db.catalogue import aggregates
from minova.objects.catalogue.aggregate import ZONE, Aggregate
from minova.objects.catalogue.image import Image

Host = Annotated[str, msgspec.Meta(pattern=r"^[a-zA-Z0-9\-._]{1,255}$")]
Key = Annotated[str, msgspec.Meta(pattern=r"^[a-zA-Z0-9\-_:. ]{1,255}$")]
Value = Annotated[str, msgspec.Meta(max_length=255)]


class NewAggregate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    availability_zone: str | None = None


class CreateAggregate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    aggregate: NewAggregate


class Changes(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """As in Nova, the zone may be null here; the update is refused later, because a zone cannot be removed."""

    name: str | msgspec.UnsetType = msgspec.UNSET
    availability_zone: str | msgspec.UnsetType | None = msgspec.UNSET


class UpdateAggregate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    aggregate: Changes


class OneHost(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    host: Host


class Metadata(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Null removes a key."""

    metadata: dict[Key, Value | None]


class ImageToCache(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: str


class CacheImages(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    cache: Annotated[tuple[ImageToCache, ...], msgspec.Meta(min_length=1)]


class AggregateBrief(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a creation. `deleted` and `deleted_at` are there for compatibility with Nova."""

    id: int
    uuid: str
    name: str
    availability_zone: str | None
    created_at: str | None
    updated_at: str | None
    deleted: bool = False
    deleted_at: None = None


class AggregateView(AggregateBrief, frozen=True, kw_only=True):
    hosts: tuple[str, ...]
    metadata: dict[str, str]


ANSWER_HISTORY = History(AggregateBrief, added("2.41", "uuid"))


def list_aggregates(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    with api.db.read() as session:
        return {"aggregates": [view(call, aggregate) for aggregate in aggregates.all_of(session).values()]}


def show(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    aggregate_id = _id(call)
    with api.db.read() as session:
        aggregate = aggregates.all_of(session).get(aggregate_id)
    if aggregate is None:
        raise errors.NotFound(f"Aggregate {aggregate_id} could not be found.")
    return {"aggregate": view(call, aggregate)}


def create(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    body: NewAggregate = call.body.aggregate
    name = names.checked("Aggregate name", body.name)
    metadata = {} if body.availability_zone is None else {ZONE: _zone(body.availability_zone)}
    aggregate = api.conductor.create_aggregate(call.ctx, name=name, metadata=metadata)
    return {"aggregate": call.shown(ANSWER_HISTORY, AggregateBrief(**_brief(aggregate)))}


def update(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    body: Changes = call.body.aggregate
    aggregate_id = _id(call)
    if body.name is msgspec.UNSET and body.availability_zone is msgspec.UNSET:
        raise errors.BadRequest("Invalid input for aggregate: it needs a name or an availability_zone.")
    name = None if isinstance(body.name, msgspec.UnsetType) else names.checked("Aggregate name", body.name.strip())
    zone = body.availability_zone
    metadata = {} if isinstance(zone, msgspec.UnsetType) else {ZONE: zone if zone is None else _zone(zone)}
    changed = api.conductor.update_aggregate(call.ctx, aggregate_id=aggregate_id, name=name, metadata=metadata)
    return {"aggregate": view(call, changed)}


def delete(api: ComputeApiCollaborators, call: Call) -> None:
    api.conductor.delete_aggregate(call.ctx, aggregate_id=_id(call))


def act(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    """Runs the action, which is the only key of the body.

    Raises BadRequest if there is no such action, or not exactly one.
    """
    if len(call.body) != 1:
        raise errors.BadRequest("Malformed request body: it must hold one action.")
    ((name, arguments),) = call.body.items()
    if name not in _ACTIONS:
        raise errors.BadRequest(f"There is no such action: {name[:64]}")
    decoder, work = _ACTIONS[name]
    aggregate_id = _id(call)
    try:
        action = decoder.from_builtins(arguments)
    except msgspec.ValidationError as error:
        raise errors.BadRequest(f"Invalid input for {name}: {error}") from None
    return {"aggregate": view(call, work(api, call, aggregate_id, action))}


def cache_images(api: ComputeApiCollaborators, call: Call) -> None:
    """As in Nova, the aggregate is looked up first, and an image need not be active."""
    body: CacheImages = call.body
    aggregate_id = _id(call)
    ids = [_image_id(each.id) for each in body.cache]
    if len({*ids}) < len(ids):
        raise errors.BadRequest("Duplicate images in request")
    with api.db.read() as session:
        if aggregate_id not in aggregates.all_of(session):
            raise errors.NotFound(f"Aggregate {aggregate_id} could not be found.")
        images = tuple(_image(api, call, session, image_id) for image_id in ids)
    api.conductor.cache_images(call.ctx, aggregate_id=aggregate_id, images=images)


def _image_id(text: str) -> str:
    try:
        return str(uuid.UUID(text))
    except ValueError:
        raise errors.BadRequest(
            f"Invalid input for field/attribute id. Value: {text[:255]}. It is not a 'uuid'."
        ) from None


def _image(api: ComputeApiCollaborators, call: Call, session: Session, image_id: str) -> Image:
    image = api.images.visible(session, image_id, call)
    if image is None:
        raise errors.BadRequest(f"Image {image_id} could not be found.")
    return with_boot_files(api, call, session, image)


def _add_host(api: ComputeApiCollaborators, call: Call, aggregate_id: int, body: OneHost) -> Aggregate:
    return api.conductor.add_host_to_aggregate(call.ctx, aggregate_id=aggregate_id, host=body.host)


def _remove_host(api: ComputeApiCollaborators, call: Call, aggregate_id: int, body: OneHost) -> Aggregate:
    return api.conductor.remove_host_from_aggregate(call.ctx, aggregate_id=aggregate_id, host=body.host)


def _set_metadata(api: ComputeApiCollaborators, call: Call, aggregate_id: int, body: Metadata) -> Aggregate:
    zone = body.metadata.get(ZONE)
    if zone:
        _zone(zone)
    return api.conductor.update_aggregate(call.ctx, aggregate_id=aggregate_id, name=None, metadata=body.metadata)


_ACTIONS: dict[str, tuple[Decoder[Any], Callable[[ComputeApiCollaborators, Call, int, Any], Aggregate]]] = {
    "add_host": (Decoder(OneHost), _add_host),
    "remove_host": (Decoder(OneHost), _remove_host),
    "set_metadata": (Decoder(Metadata), _set_metadata),
}


# Policies by the key of the action.
POLICIES = {name: f"os_compute_api:os-aggregates:{name}" for name in _ACTIONS}


def view(call: Call, aggregate: Aggregate) -> AggregateView:
    complete = AggregateView(**_brief(aggregate), hosts=aggregate.hosts, metadata=aggregate.metadata)
    return call.shown(ANSWER_HISTORY, complete)


def _brief(aggregate: Aggregate) -> dict[str, Any]:
    return {
        "id": aggregate.id,
        "uuid": aggregate.uuid,
        "name": aggregate.name,
        "availability_zone": aggregate.zone,
        "created_at": times.microseconds(aggregate.created_at),
        "updated_at": times.microseconds(aggregate.updated_at),
    }


def _zone(name: str) -> str:
    """Returns the name. Raises BadRequest if it has a colon, which separates zone and host in a request for
    a server.
    """
    names.checked("Availability zone", name)
    if ":" in name:
        raise errors.BadRequest(f"Availability zone is not valid: {name} has a colon.")
    return name


def _id(call: Call) -> int:
    """Raises BadRequest if the id is not a number, NotFound if it is too large for the database."""
    aggregate_id = call.path["aggregate_id"]
    if not re.fullmatch(r"-?[0-9]{1,18}", aggregate_id):
        raise errors.BadRequest(f"Invalid input for the ID of an aggregate: {aggregate_id[:64]} is not a whole number.")
    # The largest id in the database.
    if not 0 <= int(aggregate_id) <= 0x7FFFFFFF:
        raise errors.NotFound(f"Aggregate {aggregate_id} could not be found.")
    return int(aggregate_id)


ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/v2.1/os-aggregates",
        rule="os_compute_api:os-aggregates:index",
        handler=list_aggregates,
        answer={"aggregates": list[AggregateView]},
    ),
    Route(
        method="POST",
        path="/v2.1/os-aggregates",
        rule="os_compute_api:os-aggregates:create",
        handler=create,
        answer={"aggregate": AggregateBrief},
        body=CreateAggregate,
    ),
    Route(
        method="GET",
        path="/v2.1/os-aggregates/{aggregate_id}",
        rule="os_compute_api:os-aggregates:show",
        handler=show,
        answer={"aggregate": AggregateView},
    ),
    Route(
        method="PUT",
        path="/v2.1/os-aggregates/{aggregate_id}",
        rule="os_compute_api:os-aggregates:update",
        handler=update,
        answer={"aggregate": AggregateView},
        body=UpdateAggregate,
    ),
    Route(
        method="DELETE",
        path="/v2.1/os-aggregates/{aggregate_id}",
        rule="os_compute_api:os-aggregates:delete",
        handler=delete,
    ),
    Route(
        method="POST",
        path="/v2.1/os-aggregates/{aggregate_id}/action",
        actions=POLICIES,
        handler=act,
        answer={"aggregate": AggregateView},
        body=dict[str, Any],
    ),
    Route(
        method="POST",
        path="/v2.1/os-aggregates/{aggregate_id}/images",
        rule="compute:aggregates:images",
        handler=cache_images,
        body=CacheImages,
        status=202,
        since=(2, 81),
    ),
)
