"""`/v2.0/network-ip-availabilities`: how many addresses networks have, and how many of them ports have."""

from typing import Any

import msgspec

from minova import errors
from minova.api.http.call import Call
from minova.api.http.definition import Route
from minova.api.network import common
from minova.api.network.collaborators import NetworkApiCollaborators
from minova.db.networks import networks, subnets
from minova.db.networks.pages import Page
from minova.objects.network import addresses
from minova.objects.network.network import Network


class AvailabilityQuery(msgspec.Struct, frozen=True, kw_only=True):
    network_id: tuple[str, ...] = ()
    network_name: tuple[str, ...] = ()
    project_id: tuple[str, ...] = ()
    tenant_id: tuple[str, ...] = ()


class SubnetAvailability(msgspec.Struct, frozen=True, kw_only=True):
    subnet_id: str
    subnet_name: str
    cidr: str
    ip_version: int
    total_ips: int
    used_ips: int


class NetworkAvailability(msgspec.Struct, frozen=True, kw_only=True):
    """`total_ips`: addresses in allocation pools. `used_ips`: addresses of ports, also those outside the pools."""

    network_id: str
    network_name: str
    project_id: str
    tenant_id: str
    total_ips: int
    used_ips: int
    subnet_ip_availability: list[SubnetAvailability]


def list_availabilities(api: NetworkApiCollaborators, call: Call) -> dict[str, Any]:
    query: AvailabilityQuery = call.query
    filters = common.filters_of(
        common.ListQuery(
            id=query.network_id, name=query.network_name, project_id=query.project_id, tenant_id=query.tenant_id
        )
    )
    with api.db.read() as session:
        visible_networks = networks.visible(session, None, filters, Page(limit=int(api.conf.api.max_limit)))
    return {"network_ip_availabilities": _of(api, visible_networks)}


def show(api: NetworkApiCollaborators, call: Call) -> dict[str, Any]:
    network_id = call.path["network_id"]
    with api.db.read() as session:
        network = networks.find(session, common.identifier(network_id))
    if network is None:
        raise errors.NetworkNotFound(f"Network {network_id[:255]} could not be found.")
    return {"network_ip_availability": _of(api, [network])[0]}


def _of(api: NetworkApiCollaborators, shown_networks: list[Network]) -> list[NetworkAvailability]:
    with api.db.read() as session:
        by_network = subnets.with_usage(session, [network.id for network in shown_networks])
    answer = []
    for network in shown_networks:
        each = [
            SubnetAvailability(
                subnet_id=subnet.id,
                subnet_name=subnet.name,
                cidr=subnet.cidr,
                ip_version=subnet.ip_version,
                total_ips=addresses.size(subnet.allocation_pools),
                used_ips=used,
            )
            for subnet, used in by_network.get(network.id, ())
        ]
        answer.append(
            NetworkAvailability(
                network_id=network.id,
                network_name=network.name,
                project_id=network.project_id,
                tenant_id=network.project_id,
                total_ips=sum(subnet.total_ips for subnet in each),
                used_ips=sum(subnet.used_ips for subnet in each),
                subnet_ip_availability=each,
            )
        )
    return answer


_PATH, _RULE = "/v2.0/network-ip-availabilities", "get_network_ip_availability"
ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path=_PATH,
        rule=_RULE,
        handler=list_availabilities,
        answer={"network_ip_availabilities": list[NetworkAvailability]},
        query=AvailabilityQuery,
    ),
    Route(
        method="GET",
        path=f"{_PATH}/{{network_id}}",
        rule=_RULE,
        handler=show,
        answer={"network_ip_availability": NetworkAvailability},
    ),
)
