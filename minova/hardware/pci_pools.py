"""Selects the devices of a host's pools that meet a request, and computes what is left of the pools. Pure.

The selection follows Nova: properties of the device, then nearness to the guest's cells by policy, then the kinds of
device that must be requested explicitly (PF, VDPA, remote managed, live migratable). Requests are met one after the
other, each from what the previous ones left.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from minova.hardware.errors import PciDeviceRequestFailed
from minova.hardware.extra_specs import is_true
from minova.objects.hosts.numa import InstanceNUMATopology, NUMATopology
from minova.objects.hosts.pci import InstancePCIRequest, PciDevicePool

Pools = tuple[PciDevicePool, ...]
Sockets = tuple[tuple[int, int | None], ...]

PF, VDPA = "type-PF", "vdpa"
REQUIRED, PREFERRED, LEGACY, SOCKET = "required", "preferred", "legacy", "socket"
POLICIES = (REQUIRED, LEGACY, PREFERRED, SOCKET)

# Keys that a spec may have but no pool has: they concern Placement.
_NOT_OF_A_POOL = frozenset({"resource_class", "traits", "rp_uuid", "rp_uuids"})


class GuestCells(msgspec.Struct, frozen=True, kw_only=True):
    """The host cells of a guest, and the socket of every cell of the host: (cell id, socket)."""

    ids: frozenset[int]
    sockets: Sockets = ()


def sockets_of(host: NUMATopology) -> Sockets:
    return tuple((cell.id, cell.socket) for cell in host.cells)


def cells_of(host: NUMATopology | None, fitted: InstanceNUMATopology | None) -> GuestCells | None:
    """Returns the cells of a fitted guest, for `consumed`. None, which means anywhere, for a guest or a host without
    cells.
    """
    if host is None or fitted is None:
        return None
    return GuestCells(ids=frozenset(cell.id for cell in fitted.cells), sockets=sockets_of(host))


def shortage(
    pools: Sequence[PciDevicePool], requests: Sequence[InstancePCIRequest], cells: GuestCells | None = None
) -> str | None:
    """Returns why the pools cannot meet the requests; None if they can."""
    remaining = _sorted(pools)
    for request in requests:
        matching = _matching(remaining, request, cells)
        if isinstance(matching, str):
            return matching
        remaining = _without_devices(remaining, matching, request.count)
    return None


def consumed(
    pools: Sequence[PciDevicePool], requests: Sequence[InstancePCIRequest], cells: GuestCells | None = None
) -> Pools:
    """Returns what is left of the pools, without empty pools. Raises PciDeviceRequestFailed if the
    pools are too small.
    """
    remaining = _sorted(pools)
    for request in requests:
        matching = _matching(remaining, request, cells)
        if isinstance(matching, str):
            raise PciDeviceRequestFailed(matching)
        remaining = _without_devices(remaining, matching, request.count)
    return remaining


def _sorted(pools: Iterable[PciDevicePool]) -> Pools:
    """Sorts in Nova's order: pools with the fewest tags first."""
    return tuple(sorted(pools, key=lambda pool: len(pool.tags)))


def _without_devices(pools: Pools, matching: Pools, count: int) -> Pools:
    """Returns the pools without `count` devices of the matching pools, which are used up in their order."""
    remaining = list(pools)
    for pool in matching:
        taken_count = min(count, pool.count)
        index = remaining.index(pool)
        if taken_count < pool.count:
            remaining[index] = msgspec.structs.replace(pool, count=pool.count - taken_count)
        else:
            del remaining[index]
        count -= taken_count
        if not count:
            break
    return tuple(remaining)


Step = tuple[str, Callable[[Pools, InstancePCIRequest, "GuestCells | None"], Pools]]


def _matching(pools: Pools, request: InstancePCIRequest, cells: GuestCells | None) -> Pools | str:
    """Returns the pools that serve the request, in order; or what is missing."""
    matching = pools
    for what, step in _STEPS:
        matching = step(matching, request, cells)
        have = sum(pool.count for pool in matching)
        if have < request.count:
            return f"PCI devices{_request_name(request)} {what} {have} < requested {request.count}"
    if not matching:
        return f"PCI devices{_request_name(request)}: none match"
    return matching


def _request_name(request: InstancePCIRequest) -> str:
    if request.alias_name:
        return f" of alias {request.alias_name}"
    return "".join(f" {dict(spec)}" for spec in request.spec[:1])


def _by_spec(pools: Pools, request: InstancePCIRequest, cells: GuestCells | None) -> Pools:
    specs = [[(key, _folded(value)) for key, value in spec if key not in _NOT_OF_A_POOL] for spec in request.spec]
    return tuple(pool for pool in pools if _meets(pool, specs))


def _meets(pool: PciDevicePool, specs: Sequence[Sequence[tuple[str, Any]]]) -> bool:
    has = _properties(pool)
    return any(all(has.get(key) == value for key, value in spec) for spec in specs)


def _properties(pool: PciDevicePool) -> Mapping[str, Any]:
    own = {
        "vendor_id": pool.vendor_id,
        "product_id": pool.product_id,
        "dev_type": pool.dev_type,
        "numa_node": pool.numa_node,
        **dict(pool.tags),
    }
    return {key: _folded(value) for key, value in own.items()}


def _folded(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


def _by_cells(pools: Pools, request: InstancePCIRequest, cells: GuestCells | None) -> Pools:
    """Returns the nearest pools that the policy allows: only the nearest ones if they have enough devices."""
    if cells is None or not cells.ids:
        return pools
    policy = request.numa_policy or LEGACY
    beside = _on(pools, cells.ids)
    if policy == REQUIRED or _enough(beside, request):
        return beside
    if policy == SOCKET:
        return _on(pools, _same_socket(cells))
    # Some systems do not report the node of a device.
    near = _on(pools, {*cells.ids, None})
    if policy == LEGACY or _enough(near, request):
        return near
    return tuple(sorted(pools, key=lambda pool: pool not in near))


def _on(pools: Pools, nodes: Iterable[int | None]) -> Pools:
    allowed = frozenset(nodes)
    return tuple(pool for pool in pools if pool.numa_node in allowed)


def _enough(pools: Pools, request: InstancePCIRequest) -> bool:
    return sum(pool.count for pool in pools) >= request.count


def _same_socket(cells: GuestCells) -> Iterator[int]:
    """Yields the cells that share a socket with the guest's cells; none if a cell's socket is not known."""
    if any(socket is None for _, socket in cells.sockets):
        return iter(())
    sockets = {socket for cell, socket in cells.sockets if cell in cells.ids}
    return (cell for cell, socket in cells.sockets if socket in sockets)


def _without_unasked(kind: str) -> Callable[[Pools, InstancePCIRequest, GuestCells | None], Pools]:
    def step(pools: Pools, request: InstancePCIRequest, cells: GuestCells | None) -> Pools:
        if any(dict(spec).get("dev_type") == kind for spec in request.spec):
            return pools
        return tuple(pool for pool in pools if pool.dev_type != kind)

    return step


def _by_management(pools: Pools, request: InstancePCIRequest, cells: GuestCells | None) -> Pools:
    if any(is_true(dict(spec).get("remote_managed")) for spec in request.spec):
        return pools
    return tuple(pool for pool in pools if not is_true(dict(pool.tags).get("remote_managed")))


def _by_migration(pools: Pools, request: InstancePCIRequest, cells: GuestCells | None) -> Pools:
    """If the request says `true` or `false`, the pool must have the same value; a pool without a
    value matches neither.
    """
    flags = {dict(spec).get("live_migratable") for spec in request.spec}
    if flags not in ({"true"}, {"false"}):
        return pools
    return tuple(pool for pool in pools if dict(pool.tags).get("live_migratable") in flags)


_STEPS: tuple[Step, ...] = (
    ("with these properties", _by_spec),
    ("near the guest's NUMA cells", _by_cells),
    ("that are no whole PF", _without_unasked(PF)),
    ("that are no VDPA", _without_unasked(VDPA)),
    ("that are not remote managed", _by_management),
    ("that migrate live as asked", _by_migration),
)
