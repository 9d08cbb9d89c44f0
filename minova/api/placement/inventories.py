"""/resource_providers/{uuid}/inventories"""

from collections.abc import Mapping
from typing import Any

import msgspec
from sqlalchemy.orm import Session

from minova.api.http.definition import Route
from minova.api.placement import answers, schemas
from minova.api.placement.call import Answer, Placement, PlacementCall, latest
from minova.api.placement.providers import href
from minova.codecs import Decoder
from minova.placement import errors
from minova.placement.providers import inventories as provider_inventories
from minova.placement.providers import queries
from minova.placement.providers.inventories import Numbers
from minova.placement.providers.queries import ProviderRecord

_NUMBERS = Decoder(Numbers)


def numbers_of(document: Mapping[str, Any]) -> Numbers:
    """Returns the numbers in a validated body, which may have a class and a generation, too."""
    return _NUMBERS.from_builtins(document)


def check_generation(provider: ProviderRecord, generation: int) -> None:
    """Raises Conflict if the generation is not the provider's."""
    if provider.generation != generation:
        raise errors.Conflict(
            f"resource provider generation conflict: {provider.uuid} has {provider.generation}, given {generation}",
            errors.CONCURRENT_UPDATE,
        )


def list_inventories(placement: Placement, call: PlacementCall) -> Answer:
    with placement.reads.read() as session:
        provider = queries.find(session, call.path["uuid"])
        records = provider_inventories.of_provider(session, provider.id)
    return _all(provider.generation, {name: record.numbers for name, record in records.items()}, records.values())


def show(placement: Placement, call: PlacementCall) -> Answer:
    name = call.path["resource_class"]
    with placement.reads.read() as session:
        provider = queries.find(session, call.path["uuid"])
        record = provider_inventories.of_provider(session, provider.id).get(name)
    if record is None:
        raise errors.NotFound(f"No inventory of class {name} for {provider.uuid}")
    return _inventory_view(provider.generation, record.numbers, record.updated_at)


def create(placement: Placement, call: PlacementCall) -> Answer:
    name, numbers = call.body["resource_class"], numbers_of(call.body)

    def work(session: Session) -> int:
        provider = queries.find(session, call.path["uuid"])
        try:
            _check(call, provider, {name: numbers})
            return provider_inventories.add(session, provider, name, numbers)
        except (errors.NotFound, errors.BadRequest) as error:
            raise errors.BadRequest(
                f"Unable to create inventory for resource provider {provider.uuid}: {error}"
            ) from None

    answer = _inventory_view(placement.change(work), numbers, None)
    location = f"{href(call, call.path['uuid'])}/inventories/{name}"
    return msgspec.structs.replace(answer, location=location)


def change(placement: Placement, call: PlacementCall) -> Answer:
    name, numbers = call.path["resource_class"], numbers_of(call.body)

    def work(session: Session) -> int:
        provider = queries.find(session, call.path["uuid"])
        check_generation(provider, call.body["resource_provider_generation"])
        _check(call, provider, {name: numbers}, "Unable to update inventory for resource provider {uuid}: ")
        return provider_inventories.change(session, provider, name, numbers)

    return _inventory_view(placement.change(work), numbers, None)


def replace(placement: Placement, call: PlacementCall) -> Answer:
    inventories = {name: numbers_of(document) for name, document in call.body["inventories"].items()}

    def work(session: Session) -> int:
        provider = queries.find(session, call.path["uuid"])
        check_generation(provider, call.body["resource_provider_generation"])
        _check(call, provider, inventories, "Unable to update inventory for resource provider {uuid}: ")
        try:
            return provider_inventories.replace(session, provider, inventories)
        except errors.NotFound as error:
            raise errors.BadRequest(
                f"Unknown resource class in inventory for resource provider {provider.uuid}: {error}"
            ) from None

    return _all(placement.change(work), inventories, ())


def delete_all(placement: Placement, call: PlacementCall) -> Answer:
    def work(session: Session) -> None:
        provider_inventories.replace(session, queries.find(session, call.path["uuid"]), {})

    placement.change(work)
    return Answer()


def delete(placement: Placement, call: PlacementCall) -> Answer:
    """The error for an inventory in use has another code than in `replace`, as in OpenStack's Placement."""
    name = call.path["resource_class"]

    def work(session: Session) -> None:
        provider = queries.find(session, call.path["uuid"])
        try:
            provider_inventories.remove(session, provider, name)
        except errors.Conflict as error:
            raise errors.Conflict(
                f"Unable to delete inventory of class {name}: {error}", errors.CONCURRENT_UPDATE
            ) from None

    placement.change(work)
    return Answer()


def _check(call: PlacementCall, provider: ProviderRecord, inventories: Mapping[str, Numbers], prefix: str = "") -> None:
    try:
        provider_inventories.check_capacity(provider.uuid, inventories.items(), may_be_zero=call.version >= (1, 26))
    except errors.BadRequest as error:
        raise errors.BadRequest(f"{prefix.format(uuid=provider.uuid)}{error}") from None


def _inventory_view(generation: int, numbers: Numbers, changed: float | None) -> Answer:
    answer = {**msgspec.structs.asdict(numbers), "resource_provider_generation": generation}
    return Answer(body=answer, changed=latest([changed]))


def _all(generation: int, inventories: Mapping[str, Numbers], records: Any) -> Answer:
    views = {name: msgspec.structs.asdict(numbers) for name, numbers in inventories.items()}
    body = {"resource_provider_generation": generation, "inventories": views}
    return Answer(body=body, changed=latest(record.updated_at for record in records))


_ALL_INVENTORIES = {"resource_provider_generation": int, "inventories": dict[str, answers.InventoryAnswer]}
ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/resource_providers/{uuid}/inventories",
        rule="placement:resource_providers:inventories:list",
        handler=list_inventories,
        answer=_ALL_INVENTORIES,
        accepts_json=True,
    ),
    Route(
        method="POST",
        path="/resource_providers/{uuid}/inventories",
        rule="placement:resource_providers:inventories:create",
        handler=create,
        status=201,
        answer=answers.OneInventoryAnswer,
        body=schemas.ADD_INVENTORY,
    ),
    Route(
        method="PUT",
        path="/resource_providers/{uuid}/inventories",
        rule="placement:resource_providers:inventories:update",
        handler=replace,
        answer=_ALL_INVENTORIES,
        body=schemas.SET_INVENTORIES,
    ),
    Route(
        method="DELETE",
        path="/resource_providers/{uuid}/inventories",
        rule="placement:resource_providers:inventories:delete",
        handler=delete_all,
        status=204,
        since=(1, 5),
        absent=405,
    ),
    Route(
        method="GET",
        path="/resource_providers/{uuid}/inventories/{resource_class}",
        rule="placement:resource_providers:inventories:show",
        handler=show,
        answer=answers.OneInventoryAnswer,
        accepts_json=True,
    ),
    Route(
        method="PUT",
        path="/resource_providers/{uuid}/inventories/{resource_class}",
        rule="placement:resource_providers:inventories:update",
        handler=change,
        answer=answers.OneInventoryAnswer,
        body=schemas.CHANGE_INVENTORY,
    ),
    Route(
        method="DELETE",
        path="/resource_providers/{uuid}/inventories/{resource_class}",
        rule="placement:resource_providers:inventories:delete",
        handler=delete,
        status=204,
    ),
)
