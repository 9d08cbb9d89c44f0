"""`/servers/{id}/topology`: the NUMA cells of a guest, and for administrators the cells of its host."""

from typing import Any

import msgspec

from minova.api.compute.collaborators import ComputeApiCollaborators
from minova.api.compute.servers import servers
from minova.api.http.call import Call
from minova.api.http.definition import Route
from minova.db.api_queries import instances
from minova.objects.hosts.numa import InstanceNUMACell

OF_HOST = "compute:server:topology:host:index"


class CellView(msgspec.Struct, frozen=True, kw_only=True):
    """`siblings`: in Nova, the threads that share a core. minova's guests have no fixed siblings."""

    vcpu_set: tuple[int, ...]
    siblings: tuple[tuple[int, ...], ...] = ()
    memory_mb: int
    host_node: int | msgspec.UnsetType = msgspec.UNSET
    cpu_pinning: dict[int, int] | msgspec.UnsetType = msgspec.UNSET


class TopologyView(msgspec.Struct, frozen=True, kw_only=True):
    nodes: tuple[CellView, ...] = ()
    pagesize_kb: int | None = None


def show(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    with api.db.read() as session:
        topology = instances.numa_topology(session, servers.find(call, session).uuid)
    cells = () if topology is None else topology.cells
    # Negative values stand for words such as "large": the guest has no host yet.
    sizes = [cell.pagesize for cell in cells if cell.pagesize is not None and cell.pagesize > 0]
    view = TopologyView(
        nodes=tuple(_cell(cell, with_host=call.permits(OF_HOST)) for cell in cells),
        pagesize_kb=sizes[-1] if sizes else None,
    )
    answer: dict[str, Any] = msgspec.to_builtins(view, str_keys=True)
    return answer


def _cell(cell: InstanceNUMACell, *, with_host: bool) -> CellView:
    return CellView(
        vcpu_set=tuple(sorted(cell.cpuset | cell.pcpuset)),
        memory_mb=cell.memory,
        host_node=cell.id if with_host else msgspec.UNSET,
        cpu_pinning=dict(cell.cpu_pinning) if with_host else msgspec.UNSET,
    )


ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/v2.1/servers/{server_id}/topology",
        rule="compute:server:topology:index",
        handler=show,
        since=(2, 78),
    ),
)
