"""/resource_providers/{uuid}/usages and /usages"""

from typing import Any

from minova.api.http.definition import Route
from minova.api.placement import schemas
from minova.api.placement.call import Answer, Placement, PlacementCall, latest
from minova.api.policies.enforcer import Target
from minova.placement.allocations import usages
from minova.placement.providers import queries


def of_provider(placement: Placement, call: PlacementCall) -> Answer:
    with placement.reads.read() as session:
        provider = queries.find(session, call.path["uuid"])
        used = usages.of_provider(session, provider.id)
    return Answer(body={"resource_provider_generation": provider.generation, "usages": used}, changed=latest([]))


def of_project(placement: Placement, call: PlacementCall) -> Answer:
    """Returns the usages of a project. A user may read those of its own project."""
    project_id, user_id = call.last_value("project_id") or "", call.last_value("user_id")
    call.require_for(Target(project_id=project_id))
    used: Any
    with placement.reads.read() as session:
        if call.version >= (1, 38):
            used = usages.by_consumer_type(session, project_id, user_id, call.last_value("consumer_type"))
        else:
            used = usages.of_project(session, project_id, user_id)
    return Answer(body={"usages": used}, changed=latest([]))


ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/resource_providers/{uuid}/usages",
        rule="placement:resource_providers:usages",
        handler=of_provider,
        answer={"resource_provider_generation": int, "usages": dict[str, int]},
        accepts_json=True,
    ),
    Route(
        method="GET",
        path="/usages",
        rule="placement:usages",
        handler=of_project,
        answer={"usages": dict[str, dict[str, int]]},
        since=(1, 9),
        query=schemas.LIST_USAGES,
        accepts_json=True,
    ),
)
