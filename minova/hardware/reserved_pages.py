"""`reserved_huge_pages`: pages of a host's cells that are reserved from guests. Pure."""

from collections.abc import Iterable, Mapping

import msgspec

from minova.errors import InvalidConfiguration
from minova.hardware.extra_specs import size_kib
from minova.objects.hosts.numa import NUMACell, NUMATopology

OPTION = "[DEFAULT] reserved_huge_pages"
replace = msgspec.structs.replace


class ReservedPages(msgspec.Struct, frozen=True):
    """`count` pages of `size_kb` on the cell `node`."""

    node: int
    size_kb: int
    count: int


def parse(entries: Iterable[Mapping[str, str]]) -> tuple[ReservedPages, ...]:
    """Parses entries such as {"node": "0", "size": "2048", "count": "64"}; a size may have a unit. Raises
    InvalidConfiguration.
    """
    reserved = []
    for entry in entries:
        text = ",".join(f"{key}:{value}" for key, value in entry.items())
        if entry.keys() != {"node", "size", "count"}:
            raise InvalidConfiguration(f"{OPTION} = {text}: it must have node, size and count")
        size = size_kib(entry["size"])
        if size is None or not entry["node"].isdigit() or not entry["count"].isdigit():
            raise InvalidConfiguration(f"{OPTION} = {text}: node and count are numbers, size a number of KiB or 2MB")
        reserved.append(ReservedPages(int(entry["node"]), int(size), int(entry["count"])))
    return tuple(reserved)


def with_reserved(host: NUMATopology, reserved: Iterable[ReservedPages]) -> NUMATopology:
    """Raises InvalidConfiguration if there is no such cell or page size, or it has fewer pages."""
    reserved_counts = {(reservation.node, reservation.size_kb): reservation.count for reservation in reserved}
    totals = {(cell.id, pages.size_kb): pages.total for cell in host.cells for pages in cell.mempages}
    for (node, size), count in reserved_counts.items():
        if (node, size) not in totals:
            raise InvalidConfiguration(f"{OPTION}: the host has no pages of {size} KiB on cell {node}")
        if count > totals[node, size]:
            raise InvalidConfiguration(
                f"{OPTION}: cell {node} has {totals[node, size]} pages of {size} KiB, fewer than {count}"
            )
    return NUMATopology(tuple(_reserved(cell, reserved_counts) for cell in host.cells))


def _reserved(cell: NUMACell, reserved_counts: Mapping[tuple[int, int], int]) -> NUMACell:
    pages = tuple(
        replace(mempage, reserved=reserved_counts.get((cell.id, mempage.size_kb), 0)) for mempage in cell.mempages
    )
    return replace(cell, mempages=pages)
