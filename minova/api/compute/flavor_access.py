"""`/flavors/{id}/os-flavor-access`: the projects that may use a private flavor, and the actions that change them."""

from typing import Annotated, Any

import msgspec

from minova import errors
from minova.api.compute import flavors
from minova.api.compute.collaborators import ComputeApiCollaborators
from minova.api.http.call import Call
from minova.api.http.definition import Route
from minova.codecs import Decoder
from minova.db.catalogue import flavors as rows


class OneProject(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    tenant: Annotated[str, msgspec.Meta(min_length=1, max_length=255, pattern=r"^[a-zA-Z0-9-]*$")]


ADD, REMOVE = "addTenantAccess", "removeTenantAccess"
POLICIES = {
    ADD: "os_compute_api:os-flavor-access:add_tenant_access",
    REMOVE: "os_compute_api:os-flavor-access:remove_tenant_access",
}
# From this version on, adding access to a public flavor is refused, because it would change nothing.
PUBLIC_REFUSED = "2.7"
_DECODER: Decoder[OneProject] = Decoder(OneProject)


def index(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    flavor = flavors.find(api, call, call.path["flavor_id"])
    if flavor.is_public:
        raise errors.NotFound("Access list not available for public flavors.")
    with api.db.read() as session:
        return _access_view(flavor.flavorid, rows.projects(session, flavor.flavorid))


def act(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    """Runs the action, which is the only key of the body.

    Raises BadRequest if there is no such action, or not exactly one; Conflict if the project has access already, or the
    flavor is public.
    """
    if len(call.body) != 1:
        raise errors.BadRequest("Malformed request body: it must hold one action.")
    ((name, arguments),) = call.body.items()
    if name not in POLICIES:
        raise errors.BadRequest(f"There is no such action: {name[:64]}")
    try:
        project = _DECODER.from_builtins(arguments)
    except msgspec.ValidationError as error:
        raise errors.BadRequest(f"Invalid input for {name}: {error}") from None
    flavor = flavors.find(api, call, call.path["flavor_id"])
    if name == ADD and flavor.is_public and (call.since(PUBLIC_REFUSED) or call.shows_all):
        raise errors.Conflict("Can not add access to a public flavor.")
    change = api.conductor.add_flavor_access if name == ADD else api.conductor.remove_flavor_access
    return _access_view(flavor.flavorid, change(call.ctx, flavorid=flavor.flavorid, project_id=project.tenant))


def _access_view(flavorid: str, projects: tuple[str, ...]) -> dict[str, Any]:
    return {"flavor_access": [{"flavor_id": flavorid, "tenant_id": project_id} for project_id in projects]}


ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/v2.1/flavors/{flavor_id}/os-flavor-access",
        rule="os_compute_api:os-flavor-access",
        handler=index,
        answer={"flavor_access": list[dict[str, str]]},
    ),
    Route(
        method="POST",
        path="/v2.1/flavors/{flavor_id}/action",
        actions=POLICIES,
        handler=act,
        answer={"flavor_access": list[dict[str, str]]},
        body=dict[str, Any],
    ),
)
