"""`/os-networks` and `/os-tenant-networks`, until 2.35: names and ids of networks in the format of nova-network.

nova-network's further fields are null, as in Nova: the Network API has their values.
"""

from collections.abc import Sequence
from typing import Any

from minova import errors
from minova.api.compute.collaborators import ComputeApiCollaborators
from minova.api.http.call import Call
from minova.api.http.definition import Route
from minova.api.network.common import identifier
from minova.db.networks import networks
from minova.db.networks.pages import Page
from minova.objects.network.network import Network

# The fields that administrators see, all null; `_EVERYONE` is the part that all callers see.
_ALL = (
    *("cidr", "netmask", "gateway", "broadcast", "dns1", "dns2", "cidr_v6", "gateway_v6", "netmask_v6", "created_at"),
    *("updated_at", "deleted_at", "deleted", "injected", "bridge", "vlan", "vpn_public_address", "vpn_public_port"),
    *("vpn_private_address", "dhcp_start", "project_id", "host", "bridge_interface", "multi_host", "priority"),
    *("rxtx_base", "mtu", "dhcp_server", "enable_dhcp", "share_address"),
)
_EVERYONE = _ALL[:9]


def list_networks(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    return {"networks": [_view(call, network) for network in _usable(api, call)]}


def show(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    return {"network": _view(call, _find(api, call))}


def list_of_project(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    return {"networks": [_brief(network) for network in _usable(api, call)]}


def show_of_project(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    return {"network": _brief(_find(api, call))}


def _usable(api: ComputeApiCollaborators, call: Call) -> Sequence[Network]:
    """Returns the networks that the caller sees, at most `max_limit`: these listings have no pages."""
    seen_by = None if call.ctx.is_admin else call.ctx.project_id
    with api.db.read() as session:
        return networks.visible(session, seen_by, {}, Page(limit=api.conf.api.max_limit))


def _find(api: ComputeApiCollaborators, call: Call) -> Network:
    """Raises NotFound also if the caller may not see the network."""
    with api.db.read() as session:
        network = networks.find(session, identifier(call.path["network_id"]))
    if network is None or not network.visible_to(call.ctx.project_id, is_admin=call.ctx.is_admin):
        raise errors.NotFound("Network not found")
    return network


def _view(call: Call, network: Network) -> dict[str, Any]:
    names = _ALL if call.ctx.is_admin else _EVERYONE
    return {"id": network.id, "label": network.name, **dict.fromkeys(names)}


def _brief(network: Network) -> dict[str, Any]:
    """As Nova does for an unknown range, writes "None"."""
    return {"id": network.id, "label": network.name, "cidr": "None"}


ROUTES: tuple[Route, ...] = tuple(
    Route(
        method="GET",
        path=f"/v2.1/{resource}{item}",
        rule=f"os_compute_api:{resource}:{verb}",
        handler=handler,
        answer={"network": dict[str, Any]} if item else {"networks": list[dict[str, Any]]},
        until=(2, 35),
    )
    for resource, item, verb, handler in (
        ("os-networks", "", "list", list_networks),
        ("os-networks", "/{network_id}", "show", show),
        ("os-tenant-networks", "", "list", list_of_project),
        ("os-tenant-networks", "/{network_id}", "show", show_of_project),
    )
)
