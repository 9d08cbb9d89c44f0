"""/resource_providers/{uuid}/aggregates"""

from uuid import UUID

from sqlalchemy.orm import Session

from minova.api.http.definition import Route
from minova.api.placement import schemas
from minova.api.placement.call import Answer, Placement, PlacementCall, latest
from minova.api.placement.inventories import check_generation
from minova.placement.providers import aggregates, queries

_WITH_GENERATION = (1, 19)


def show(placement: Placement, call: PlacementCall) -> Answer:
    with placement.reads.read() as session:
        provider = queries.find(session, call.path["uuid"])
        uuids = aggregates.of_provider(session, provider.id)
    return _answer(call, uuids, provider.generation)


def replace(placement: Placement, call: PlacementCall) -> Answer:
    with_generation = call.version >= _WITH_GENERATION
    documents = call.body["aggregates"] if with_generation else call.body
    uuids = list(dict.fromkeys(str(UUID(uuid)) for uuid in documents))

    def work(session: Session) -> int:
        provider = queries.find(session, call.path["uuid"])
        if with_generation:
            check_generation(provider, call.body["resource_provider_generation"])
        return aggregates.set_aggregates(session, provider, uuids, generation=with_generation)

    return _answer(call, uuids, placement.change(work))


def _answer(call: PlacementCall, uuids: list[str], generation: int) -> Answer:
    answer: dict[str, object] = {"aggregates": uuids}
    if call.version >= _WITH_GENERATION:
        answer["resource_provider_generation"] = generation
    return Answer(body=answer, changed=latest([]))


_AGGREGATES = {"resource_provider_generation": int, "aggregates": list[str]}
ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/resource_providers/{uuid}/aggregates",
        rule="placement:resource_providers:aggregates:list",
        handler=show,
        answer=_AGGREGATES,
        since=(1, 1),
        accepts_json=True,
    ),
    Route(
        method="PUT",
        path="/resource_providers/{uuid}/aggregates",
        rule="placement:resource_providers:aggregates:update",
        handler=replace,
        answer=_AGGREGATES,
        since=(1, 1),
        body=schemas.SET_AGGREGATES,
    ),
)
