"""`/os-floating-ips` and `/os-floating-ip-pools`, until 2.35: empty lists, because minova's networks have no floating addresses."""

from typing import Any

from minova import errors
from minova.api.compute.collaborators import ComputeApiCollaborators
from minova.api.http.call import Call
from minova.api.http.definition import Route


def list_addresses(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    return {"floating_ips": _none(api)}


def list_pools(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    return {"floating_ip_pools": _none(api)}


def show(api: ComputeApiCollaborators, call: Call) -> None:
    raise errors.NotFound(f"Floating IP not found for ID {call.path['id'][:64]}")


def _none(api: ComputeApiCollaborators) -> list[dict[str, Any]]:
    """Raises NotFound if networks are Neutron's, which may have floating addresses: clients ask it itself."""
    if api.neutron is not None:
        raise errors.NotFound("Floating addresses are served by the Network API.")
    return []


ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/v2.1/os-floating-ips",
        rule="os_compute_api:os-floating-ips:list",
        handler=list_addresses,
        answer={"floating_ips": list[dict[str, Any]]},
        until=(2, 35),
    ),
    Route(
        method="GET",
        path="/v2.1/os-floating-ips/{id}",
        rule="os_compute_api:os-floating-ips:show",
        handler=show,
        until=(2, 35),
    ),
    Route(
        method="GET",
        path="/v2.1/os-floating-ip-pools",
        rule="os_compute_api:os-floating-ip-pools",
        handler=list_pools,
        answer={"floating_ip_pools": list[dict[str, Any]]},
        until=(2, 35),
    ),
)
