"""/traits and /resource_providers/{uuid}/traits"""

from collections.abc import Iterable
from typing import NamedTuple

from sqlalchemy.orm import Session

from minova.api.http.definition import Route
from minova.api.http.json_schema import InvalidDocument, check
from minova.api.placement import schemas
from minova.api.placement.call import Answer, Placement, PlacementCall, latest
from minova.placement import errors
from minova.placement.providers import queries, traits
from minova.placement.providers.resource_classes import NameRecord


def list_traits(placement: Placement, call: PlacementCall) -> Answer:
    names, prefix = _names(call.last_value("name"))
    associated = call.last_value("associated")
    if associated is not None and associated.lower() not in ("true", "false"):
        raise errors.BadRequest('The query parameter "associated" only accepts "true" or "false"')
    is_associated = None if associated is None else associated.lower() == "true"
    with placement.reads.read() as session:
        records = traits.listing(session, names=names, prefix=prefix, associated=is_associated)
    return Answer(body={"traits": [trait.name for trait in records]}, changed=_changed(records))


class NameQuery(NamedTuple):
    """`names`: None stands for all names that begin with `prefix`."""

    names: list[str] | None = None
    prefix: str = ""


def _names(name: str | None) -> NameQuery:
    if name is None:
        return NameQuery()
    kind, colon, value = name.partition(":")
    if not colon:
        raise errors.BadRequest(
            "Badly formatted name parameter. Expected name query string parameter in form: "
            f'?name=[in|startswith]:[name1,name2|prefix]. Got: "{name}"'
        )
    return NameQuery(value.split(",") if kind == "in" else None, value if kind == "startswith" else "")


def show(placement: Placement, call: PlacementCall) -> Answer:
    with placement.reads.read() as session:
        trait = traits.find(session, call.path["name"])
    return Answer(changed=latest([trait.updated_at]))


def create(placement: Placement, call: PlacementCall) -> Answer:
    name = call.path["name"]
    try:
        check(name, schemas.CUSTOM_TRAIT)
    except InvalidDocument:
        raise errors.BadRequest(
            "The trait is invalid. A valid trait must be no longer than 255 characters, start with the prefix "
            '"CUSTOM_" and use following characters: "A"-"Z", "0"-"9" and "_"'
        ) from None

    def work(session: Session) -> tuple[bool, NameRecord]:
        return traits.make(session, name), traits.find(session, name)

    is_new, trait = placement.change(work)
    return Answer(
        status=201 if is_new else 204, changed=latest([trait.updated_at]), location=call.href(f"/traits/{name}")
    )


def delete(placement: Placement, call: PlacementCall) -> Answer:
    placement.change(lambda session: traits.remove(session, call.path["name"]))
    return Answer()


# -- of a provider -----------------------------------------------------------------------------------------------------


def of_provider(placement: Placement, call: PlacementCall) -> Answer:
    with placement.reads.read() as session:
        provider = queries.find(session, call.path["uuid"])
        records = traits.of_provider(session, provider.id)
    return _of_provider(records, provider.generation)


def replace(placement: Placement, call: PlacementCall) -> Answer:
    def work(session: Session) -> tuple[int, list[NameRecord]]:
        provider = queries.find(session, call.path["uuid"])
        if provider.generation != call.body["resource_provider_generation"]:
            raise errors.Conflict(
                "Resource provider's generation already changed. Please update the generation and try again.",
                errors.CONCURRENT_UPDATE,
            )
        try:
            generation = traits.set_traits(session, provider, call.body["traits"])
        except errors.NotFound as error:
            raise errors.BadRequest(str(error)) from None
        return generation, traits.of_provider(session, provider.id)

    generation, records = placement.change(work)
    return _of_provider(records, generation)


def delete_all(placement: Placement, call: PlacementCall) -> Answer:
    placement.change(lambda session: traits.set_traits(session, queries.find(session, call.path["uuid"]), ()))
    return Answer()


def _of_provider(records: list[NameRecord], generation: int) -> Answer:
    body = {"traits": [trait.name for trait in records], "resource_provider_generation": generation}
    return Answer(body=body, changed=_changed(records))


def _changed(records: Iterable[NameRecord]) -> float:
    """Returns the time of the newest trait. Standard traits have none; an answer with only those has the
    current time.
    """
    return latest([trait.updated_at for trait in records if trait.updated_at is not None])


_TRAITS = {"resource_provider_generation": int, "traits": list[str]}
ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/resource_providers/{uuid}/traits",
        rule="placement:resource_providers:traits:list",
        handler=of_provider,
        answer=_TRAITS,
        since=(1, 6),
        accepts_json=True,
    ),
    Route(
        method="PUT",
        path="/resource_providers/{uuid}/traits",
        rule="placement:resource_providers:traits:update",
        handler=replace,
        answer=_TRAITS,
        since=(1, 6),
        body=schemas.SET_TRAITS,
    ),
    Route(
        method="DELETE",
        path="/resource_providers/{uuid}/traits",
        rule="placement:resource_providers:traits:delete",
        handler=delete_all,
        status=204,
        since=(1, 6),
    ),
    Route(
        method="GET",
        path="/traits",
        rule="placement:traits:list",
        handler=list_traits,
        answer={"traits": list[str]},
        since=(1, 6),
        query=schemas.LIST_TRAITS,
        accepts_json=True,
    ),
    Route(method="GET", path="/traits/{name}", rule="placement:traits:show", handler=show, status=204, since=(1, 6)),
    Route(
        method="PUT",
        path="/traits/{name}",
        rule="placement:traits:update",
        handler=create,
        set_by_handler={201: "", 204: "for a trait that there is"},
        since=(1, 6),
    ),
    Route(
        method="DELETE",
        path="/traits/{name}",
        rule="placement:traits:delete",
        handler=delete,
        status=204,
        since=(1, 6),
    ),
)
