"""minova's own: `POST /servers/dry-run` returns the hosts of servers, `POST /servers/capacity` how many more fit."""

from typing import Annotated, Any

import msgspec

from minova.api.compute.collaborators import ComputeApiCollaborators
from minova.api.compute.servers.attributes.diagnosis import redact_for
from minova.api.compute.servers.create import checked_request
from minova.api.compute.servers.networks.requested import requested_networks
from minova.api.compute.servers.new_server import CreateServer, NewServer
from minova.api.compute.servers.placement_request import placement_request
from minova.api.http.call import Call
from minova.api.http.definition import Route
from minova.objects.requests import required_traits

# The largest count per host, more than any host holds: without it, a flavor of size zero would fit without end.
DEFAULT_LIMIT = 1000


class AnyServer(NewServer, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """As a request for a server, without a required name. Without an image, the answer holds for any image."""

    name: str = ""


class CapacityRequest(CreateServer, frozen=True, kw_only=True, forbid_unknown_fields=True):
    server: AnyServer


class CapacityQuery(msgspec.Struct, frozen=True, kw_only=True):
    limit: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = DEFAULT_LIMIT


def dry_run(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    """Runs the checks of a creation and calls the scheduler. Writes nothing."""
    request = checked_request(api, call, call.body.server).request
    answer = api.conductor.preview_servers(call.ctx, request=request)
    diagnosis = redact_for(call, msgspec.structs.replace(answer.diagnosis, instance_uuids=()))
    reason = None if answer.selections else answer.diagnosis.summary()
    return {
        "dry_run": {
            "fits": bool(answer.selections),
            # Fewer than requested where the quota has no room for all.
            "count": len(answer.diagnosis.instance_uuids) or request.max_count,
            "reason": reason,
            "diagnosis": diagnosis,
        }
    }


def capacity(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    server = call.body.server
    request = placement_request(api, call, server, any_image=True)
    # Without networks in the request, the answer holds for any networks.
    if server.networks:
        networks = requested_networks(api, call, server.networks, 1)
        request = msgspec.structs.replace(request, requested_networks=networks)
    required_traits.check(request.flavor, request.image)
    return {"capacity": api.conductor.capacity(call.ctx, request=request, limit=call.query.limit)}


ROUTES: tuple[Route, ...] = (
    Route(
        method="POST",
        path="/v2.1/servers/dry-run",
        rule="minova:servers:dry_run",
        handler=dry_run,
        body=CreateServer,
    ),
    Route(
        method="POST",
        path="/v2.1/servers/capacity",
        rule="minova:servers:capacity",
        handler=capacity,
        query=CapacityQuery,
        body=CapacityRequest,
    ),
)
