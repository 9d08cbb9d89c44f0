"""/allocations, /allocations/{consumer_uuid}, /resource_providers/{uuid}/allocations and /reshaper"""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from minova.api.http.definition import Route
from minova.api.http.microversions import Version
from minova.api.placement import answers, schemas
from minova.api.placement.call import Answer, Placement, PlacementCall, latest
from minova.api.placement.inventories import numbers_of
from minova.placement import errors
from minova.placement.allocations import queries, writes
from minova.placement.allocations import reshape as reshaper
from minova.placement.allocations.writes import INCOMPLETE_ID, ConsumerAllocations
from minova.placement.providers import queries as provider_queries

_GENERATIONS: Version = (1, 28)


def show(placement: Placement, call: PlacementCall) -> Answer:
    """Returns no allocations for an unknown consumer, without an error: Placement has no list of consumers without
    allocations.
    """
    with placement.reads.read() as session:
        rows = queries.of_consumer(session, call.path["consumer_uuid"])
    allocations: dict[str, Any] = {}
    for row in rows:
        of_provider = allocations.setdefault(
            row.provider_uuid, {"resources": {}, "generation": row.provider_generation}
        )
        of_provider["resources"][row.resource_class] = row.used
    answer: dict[str, Any] = {"allocations": allocations}
    if rows and call.version >= (1, 12):
        answer |= {"project_id": rows[0].project_id, "user_id": rows[0].user_id}
    if rows and call.version >= _GENERATIONS:
        answer["consumer_generation"] = rows[0].consumer_generation
    if rows and call.version >= (1, 38):
        answer["consumer_type"] = rows[0].consumer_type
    return Answer(body=answer, changed=latest(row.updated_at for row in rows))


def of_provider(placement: Placement, call: PlacementCall) -> Answer:
    with placement.reads.read() as session:
        provider = provider_queries.find(session, call.path["uuid"])
        rows = queries.of_provider(session, provider.id)
    allocations: dict[str, Any] = {}
    for row in rows:
        of_consumer = allocations.setdefault(row.consumer_uuid, {"resources": {}})
        of_consumer["resources"][row.resource_class] = row.used
        if call.version >= _GENERATIONS:
            of_consumer["consumer_generation"] = row.consumer_generation
    answer = {"allocations": allocations, "resource_provider_generation": provider.generation}
    return Answer(body=answer, changed=latest(row.updated_at for row in rows))


def replace(placement: Placement, call: PlacementCall) -> Answer:
    try:
        uuid = str(UUID(call.path["consumer_uuid"]))
    except ValueError:
        raise errors.BadRequest(f"Malformed consumer_uuid: {call.path['consumer_uuid']}") from None
    document = dict(call.body)
    if call.version < (1, 12):
        document["allocations"] = {
            entry["resource_provider"]["uuid"]: {"resources": entry["resources"]} for entry in document["allocations"]
        }
    allocations = new_allocations({uuid: document}, call.version)
    placement.change(lambda session: writes.replace(session, allocations))
    return Answer()


def replace_many(placement: Placement, call: PlacementCall) -> Answer:
    allocations = new_allocations(call.body, call.version)
    placement.change(lambda session: writes.replace(session, allocations))
    return Answer()


def delete(placement: Placement, call: PlacementCall) -> Answer:
    placement.change(lambda session: writes.remove(session, call.path["consumer_uuid"]))
    return Answer()


def reshape(placement: Placement, call: PlacementCall) -> Answer:
    """Changes inventories and allocations together, so that usage moves to other providers."""
    inventories = {
        uuid: (
            document["resource_provider_generation"],
            {name: numbers_of(numbers) for name, numbers in document["inventories"].items()},
        )
        for uuid, document in call.body["inventories"].items()
    }
    allocations = new_allocations(call.body["allocations"], call.version)
    placement.change(lambda session: reshaper.reshape(session, inventories, allocations))
    return Answer()


def new_allocations(documents: Mapping[str, Any], version: Version) -> list[ConsumerAllocations]:
    """Returns the new allocations in validated bodies {consumer uuid: document}."""
    return [
        ConsumerAllocations(
            consumer_uuid=uuid,
            allocations={provider: dict(of["resources"]) for provider, of in document["allocations"].items()},
            project_id=document.get("project_id", INCOMPLETE_ID),
            user_id=document.get("user_id", INCOMPLETE_ID),
            consumer_type=document.get("consumer_type"),
            generation=document["consumer_generation"] if version >= _GENERATIONS else ...,
        )
        for uuid, document in documents.items()
    ]


ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/resource_providers/{uuid}/allocations",
        rule="placement:resource_providers:allocations:list",
        handler=of_provider,
        answer={"resource_provider_generation": int, "allocations": dict[str, answers.HeldByConsumer]},
        accepts_json=True,
    ),
    Route(
        method="POST",
        path="/allocations",
        rule="placement:allocations:manage",
        handler=replace_many,
        status=204,
        since=(1, 13),
        body=schemas.MANY_ALLOCATIONS,
    ),
    Route(
        method="GET",
        path="/allocations/{consumer_uuid}",
        rule="placement:allocations:list",
        handler=show,
        answer={
            "allocations": dict[str, answers.HeldOfProvider],
            "project_id?": str,
            "user_id?": str,
            "consumer_generation?": int | None,
            "consumer_type?": str,
        },
        accepts_json=True,
    ),
    Route(
        method="PUT",
        path="/allocations/{consumer_uuid}",
        rule="placement:allocations:update",
        handler=replace,
        status=204,
        body=schemas.SET_ALLOCATIONS,
    ),
    Route(
        method="DELETE",
        path="/allocations/{consumer_uuid}",
        rule="placement:allocations:delete",
        handler=delete,
        status=204,
    ),
    Route(
        method="POST",
        path="/reshaper",
        rule="placement:reshaper:reshape",
        handler=reshape,
        status=204,
        since=(1, 30),
        body=schemas.RESHAPE,
    ),
)
