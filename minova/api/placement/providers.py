"""/resource_providers"""

from typing import Any
from uuid import UUID, uuid4

from minova.api.http.definition import Route
from minova.api.placement import answers, schemas
from minova.api.placement.call import Answer, Placement, PlacementCall, latest
from minova.placement.errors import BadRequest, NotFound
from minova.placement.limits.query_values import read_aggregates, read_resources, read_traits
from minova.placement.providers import queries, resource_classes, traits, trees
from minova.placement.providers.queries import ProviderFilter, ProviderRecord

# The resources below a provider, and their first microversions.
_BELOW = (
    ("inventories", (1, 0)),
    ("usages", (1, 0)),
    ("aggregates", (1, 1)),
    ("traits", (1, 6)),
    ("allocations", (1, 11)),
)


def view(call: PlacementCall, provider: ProviderRecord) -> dict[str, Any]:
    self_href = href(call, provider.uuid)
    links = [{"rel": rel, "href": f"{self_href}/{rel}"} for rel, since in _BELOW if call.version >= since]
    answer: dict[str, Any] = {
        "uuid": provider.uuid,
        "name": provider.name,
        "generation": provider.generation,
        "links": [{"rel": "self", "href": self_href}, *links],
    }
    if call.version >= (1, 14):
        answer |= {"parent_provider_uuid": provider.parent_uuid, "root_provider_uuid": provider.root_uuid}
    return answer


def href(call: PlacementCall, uuid: str) -> str:
    return call.href(f"/resource_providers/{uuid}")


def list_providers(placement: Placement, call: PlacementCall) -> Answer:
    provider_filter = _filter(call)
    with placement.reads.read() as session:
        try:
            resource_classes.require(session, provider_filter.resources)
        except NotFound as error:
            raise BadRequest(f"Invalid resource class in resources parameter: {error}") from None
        try:
            traits.require(
                session, {*provider_filter.forbidden, *(name for some in provider_filter.required for name in some)}
            )
        except NotFound as error:
            raise BadRequest(f'Invalid trait(s) in "required" parameter: {error}') from None
        records = queries.matching(session, provider_filter)
    answer = {"resource_providers": [view(call, provider) for provider in records]}
    return Answer(body=answer, changed=latest(provider.updated_at for provider in records))


def _filter(call: PlacementCall) -> ProviderFilter:
    resources = call.last_value("resources")
    # Before 1.39, the last value of a repeated key counts; from then on each value is an any-of set.
    values = call.values("required") if call.version >= (1, 39) else call.values("required")[-1:]
    read = [read_traits("required", value, call.version) for value in values]
    member_of, not_member_of = read_aggregates("member_of", call.values("member_of"), call.version)
    return ProviderFilter(
        name=call.last_value("name"),
        uuid=_with_dashes(call.last_value("uuid")),
        in_tree=_with_dashes(call.last_value("in_tree")),
        resources={} if resources is None else read_resources(resources),
        required=[some for required, _ in read for some in required],
        forbidden=frozenset().union(*(forbidden for _, forbidden in read)),
        member_of=member_of,
        not_member_of=not_member_of,
    )


def _with_dashes(uuid: str | None) -> str | None:
    """Returns a UUID with dashes, in whatever form it was given."""
    return None if uuid is None else str(UUID(uuid))


def create(placement: Placement, call: PlacementCall) -> Answer:
    uuid = _with_dashes(call.body.get("uuid")) or str(uuid4())
    name, parent = call.body["name"], call.body.get("parent_provider_uuid")
    provider = placement.change(lambda session: trees.create(session, uuid, name, _with_dashes(parent)))
    if call.version < (1, 20):
        return Answer(location=href(call, uuid))
    return Answer(body=view(call, provider), changed=latest([provider.updated_at]), location=href(call, uuid))


def show(placement: Placement, call: PlacementCall) -> Answer:
    with placement.reads.read() as session:
        provider = queries.find(session, call.path["uuid"])
    return Answer(body=view(call, provider), changed=latest([provider.updated_at]))


def change(placement: Placement, call: PlacementCall) -> Answer:
    parent = call.body.get("parent_provider_uuid", ...)

    def work(session: Any) -> ProviderRecord:
        return trees.change(
            session,
            queries.find(session, call.path["uuid"]),
            call.body["name"],
            parent if parent is ... else _with_dashes(parent),
            reparenting=call.version >= (1, 37),
        )

    changed = placement.change(work)
    return Answer(body=view(call, changed), changed=latest([changed.updated_at]))


def delete(placement: Placement, call: PlacementCall) -> Answer:
    uuid = call.path["uuid"]

    def work(session: Any) -> None:
        try:
            provider = queries.find(session, uuid)
        except NotFound:
            raise NotFound(f"No resource provider with uuid {uuid} found for delete") from None
        trees.remove(session, provider)

    placement.change(work)
    return Answer()


ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/resource_providers",
        rule="placement:resource_providers:list",
        handler=list_providers,
        answer={"resource_providers": list[answers.ProviderAnswer]},
        query=schemas.LIST_PROVIDERS,
        accepts_json=True,
    ),
    Route(
        method="POST",
        path="/resource_providers",
        rule="placement:resource_providers:create",
        handler=create,
        status=201,
        statuses=(((1, 20), 200),),
        answer=answers.ProviderAnswer,
        body=schemas.MAKE_PROVIDER,
    ),
    Route(
        method="GET",
        path="/resource_providers/{uuid}",
        rule="placement:resource_providers:show",
        handler=show,
        answer=answers.ProviderAnswer,
        accepts_json=True,
    ),
    Route(
        method="PUT",
        path="/resource_providers/{uuid}",
        rule="placement:resource_providers:update",
        handler=change,
        answer=answers.ProviderAnswer,
        body=schemas.CHANGE_PROVIDER,
    ),
    Route(
        method="DELETE",
        path="/resource_providers/{uuid}",
        rule="placement:resource_providers:delete",
        handler=delete,
        status=204,
    ),
)
