"""minova's own extensions of `/os-hypervisors`: everything on a node, the time of its last audit, and an audit on
request.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy.orm import Session

from minova import errors
from minova.api.compute.collaborators import ComputeApiCollaborators
from minova.api.compute.hosts import hypervisors
from minova.api.http import times
from minova.api.http.call import Call
from minova.api.http.definition import Route
from minova.db import models
from minova.db.api_queries import services as read_services
from minova.db.hosts import compute_nodes, node_audits
from minova.db.networks import vifs
from minova.db.recovery import unexpected
from minova.db.servers import migrations, pci_devices
from minova.objects.hosts.node_audit import ENCODED, Drift, NodeAudit
from minova.objects.hosts.numa import NUMACell
from minova.objects.hosts.pci import PciDevice
from minova.objects.network.physical_networks import segment_of
from minova.objects.servers.server_status import Status, status_of
from minova.objects.servers.states import power_state_of
from minova.objects.unexpected.removal_rules import WHY, DomainVerdict
from minova.placement.nodes import inventories


class Pages(msgspec.Struct, frozen=True, kw_only=True):
    """The memory pages of one size; all counts are in pages."""

    size_kb: int
    total: int
    used: int
    reserved: int
    free: int


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """`shared_cpus` run floating vCPUs, of which there are `shared_vcpus_used`. `pinned_cpus` and `free_cpus` are the
    CPUs that guests may use exclusively. Memory in MB.
    """

    id: int
    memory_mb: int
    memory_mb_used: int
    shared_cpus: tuple[int, ...]
    shared_vcpus_used: int
    pinned_cpus: tuple[int, ...]
    free_cpus: tuple[int, ...]
    pages: tuple[Pages, ...]


class ServerOnHost(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    name: str
    status: Status
    task_state: str | None
    vcpus: int
    memory_mb: int
    disk_gb: int


class PortOnHost(msgspec.Struct, frozen=True, kw_only=True):
    """An interface of a server.

    `segment`: the segment for which the host must have a bridge; None: the host keeps the network itself.
    """

    id: str
    server_id: str
    mac_address: str
    network_id: str
    network_name: str
    network_type: str
    segment: str | None
    fixed_ips: tuple[str, ...]


class MigrationOnHost(msgspec.Struct, frozen=True, kw_only=True):
    """A migration of a server from or to the node. The name of a side that holds nothing yet is missing."""

    id: str
    server_id: str
    migration_type: str
    status: str
    source_node: str
    dest_node: str | None


class GuestOnHost(msgspec.Struct, frozen=True, kw_only=True):
    """A guest on the node's host that no row expects there, or a server whose guest is gone. `why`: in words."""

    id: str
    name: str
    why: str
    power_state: str


class LastAudit(msgspec.Struct, frozen=True, kw_only=True, rename=ENCODED):
    audited_at: str
    corrected: tuple[Drift, ...]
    conflicts: tuple[str, ...]
    orphans: dict[str, int]
    unexpected_domains: tuple[str, ...]
    power_states: tuple[str, ...]


class AuditBrief(msgspec.Struct, frozen=True, kw_only=True, rename=ENCODED):
    """The counts of the findings in a `LastAudit`."""

    id: int
    hypervisor_hostname: str
    audited_at: str | None
    corrected: int
    conflicts: int
    orphans: int
    unexpected_domains: int


class Ratios(msgspec.Struct, frozen=True, kw_only=True):
    cpu: float
    ram: float
    disk: float


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    id: int
    hypervisor_hostname: str
    host: str
    allocation_ratios: Ratios
    numa_cells: tuple[Cell, ...]
    pci_device_pools: tuple[Any, ...]
    pci_devices: tuple[PciDevice, ...]
    servers: tuple[ServerOnHost, ...]
    bridges: dict[str, str]
    ports: tuple[PortOnHost, ...]
    moves: tuple[MigrationOnHost, ...]
    metrics: tuple[dict[str, Any], ...]
    last_audit: LastAudit | None
    unexpected_guests: tuple[GuestOnHost, ...] = ()


def show(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    with api.db.read() as session:
        row = hypervisors.find(call, session)
        node = inventories.with_ratios(session, compute_nodes.to_object(row, pci_devices.of_node(session, row.id)))
        audit = node_audits.of_nodes(session, [row.id]).get(row.id)
        servers = read_services.servers_on(session, row.host, row.hypervisor_hostname)
        overview = Overview(
            id=row.id,
            hypervisor_hostname=row.hypervisor_hostname,
            host=row.host,
            allocation_ratios=Ratios(
                cpu=node.cpu_allocation_ratio, ram=node.ram_allocation_ratio, disk=node.disk_allocation_ratio
            ),
            numa_cells=tuple(cell_of(cell) for cell in (node.numa_topology.cells if node.numa_topology else ())),
            pci_device_pools=node.pci_device_pools,
            pci_devices=node.pci_devices,
            servers=tuple(map(_server, servers)),
            bridges=node.bridges,
            ports=_ports(session, [server.uuid for server in servers]),
            moves=tuple(
                MigrationOnHost(
                    id=move.uuid,
                    server_id=move.instance_uuid,
                    migration_type=move.migration_type,
                    status=move.status,
                    source_node=move.source_node,
                    dest_node=move.dest_node,
                )
                for move in migrations.in_progress_on(session, row.host, row.hypervisor_hostname)
            ),
            metrics=node.metrics,
            last_audit=None if audit is None else last_audit_view(audit.audited_at, audit.found),
            unexpected_guests=_unexpected_guests(session, row),
        )
    return {"overview": overview}


def list_audits(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    """Lists the last audit of every node, by id."""
    with api.db.read() as session:
        nodes = read_services.nodes(session, 0, None)
        audits = node_audits.of_nodes(session, [node.id for node in nodes])
    return {"audits": [_brief(node, audits.get(node.id)) for node in nodes]}


def act(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    """`{"audit": null}` audits the node now.

    Raises Conflict if its service is down, BadRequest for another action.
    """
    if list(call.body) != ["audit"] or call.body["audit"] not in (None, {}):
        raise errors.BadRequest('Malformed request body: the one action here is {"audit": null}.')
    with api.db.read() as session:
        node = hypervisors.find(call, session)
        services = read_services.services(session, api.conf.service_down_time, api.db)
    answer = hypervisors.brief(call, node, services)
    if answer.state != "up":
        raise errors.Conflict(
            f"Hypervisor {node.hypervisor_hostname} cannot be audited: the compute service of host {node.host} is down."
        )
    audit = api.compute(node.host).audit_node(call.ctx, node=node.hypervisor_hostname)
    return {"audit": audit}


def cell_of(cell: NUMACell) -> Cell:
    return Cell(
        id=cell.id,
        memory_mb=cell.memory,
        memory_mb_used=cell.memory_usage,
        shared_cpus=tuple(sorted(cell.cpuset)),
        shared_vcpus_used=cell.cpu_usage,
        pinned_cpus=tuple(sorted(cell.pinned_cpus)),
        free_cpus=tuple(sorted(cell.pcpuset - cell.pinned_cpus)),
        pages=tuple(
            Pages(size_kb=pages.size_kb, total=pages.total, used=pages.used, reserved=pages.reserved, free=pages.free)
            for pages in cell.mempages
        ),
    )


def last_audit_view(at: datetime, audit: NodeAudit) -> LastAudit:
    return LastAudit(audited_at=times.seconds(at), **msgspec.structs.asdict(audit))


def _brief(node: models.ComputeNode, audit: models.NodeAudit | None) -> AuditBrief:
    result = NodeAudit() if audit is None else audit.found
    return AuditBrief(
        id=node.id,
        hypervisor_hostname=node.hypervisor_hostname,
        audited_at=None if audit is None else times.seconds(audit.audited_at),
        corrected=len(result.corrected),
        conflicts=len(result.conflicts),
        orphans=len(result.orphans),
        unexpected_domains=len(result.unexpected_domains),
    )


def _server(row: models.Instance) -> ServerOnHost:
    return ServerOnHost(
        id=row.uuid,
        name=row.display_name,
        status=status_of(row.vm_state, row.task_state),
        task_state=row.task_state,
        vcpus=row.flavor.vcpus,
        memory_mb=row.flavor.memory_mb,
        disk_gb=row.flavor.disk_gb,
    )


def _unexpected_guests(session: Session, node: models.ComputeNode) -> tuple[GuestOnHost, ...]:
    """A guest whose node is not known is shown at each node of its host."""
    return tuple(
        GuestOnHost(
            id=guest.uuid,
            name=guest.mark.name,
            why=WHY[DomainVerdict(guest.reason)],
            power_state=power_state_of(guest.mark.power_state).name.lower() if guest.mark.has_domain else "no domain",
        )
        for guest in unexpected.guests_on(session, node.host).values()
        if guest.mark.node in {"", node.hypervisor_hostname}
    )


def _ports(session: Session, server_ids: Sequence[str]) -> tuple[PortOnHost, ...]:
    vifs_by_server = vifs.of_instances(session, server_ids)
    return tuple(
        PortOnHost(
            id=vif.port_id,
            server_id=server_id,
            mac_address=vif.mac_address,
            network_id=vif.network_id,
            network_name=vif.network_name,
            network_type=vif.network_type,
            segment=segment_of(vif.network_type, vif.physical_network, vif.segmentation_id),
            fixed_ips=tuple(address.ip_address for address in vif.addresses),
        )
        for server_id in server_ids
        for vif in vifs_by_server.get(server_id, ())
    )


ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/v2.1/os-hypervisors/audits",
        rule="minova:os-hypervisors:audits",
        handler=list_audits,
    ),
    Route(
        method="GET",
        path="/v2.1/os-hypervisors/{hypervisor_id}/overview",
        rule="minova:os-hypervisors:overview",
        handler=show,
    ),
    Route(
        method="POST",
        path="/v2.1/os-hypervisors/{hypervisor_id}/action",
        rule="minova:os-hypervisors:audit",
        handler=act,
        body=dict[str, Any],
    ),
)
