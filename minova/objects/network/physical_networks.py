"""The physical networks that a server needs, and those that a host has, as traits of its node. Pure.

A segment is a key of `[networks] bridge_mappings`: a physical network (`dc1`), or a VLAN of it (`dc1.100`).

    host: bridges that are there -> ComputeNode.bridges -> traits of its provider
    request: networks of the ports -> required traits -> only hosts with all of them are candidates
"""

import hashlib
import re
from collections.abc import Iterable

import msgspec

from minova.objects.network.network import FLAT, VLAN, Network
from minova.objects.requests.request_spec import PlacementFilter

# Nova's prefix of traits of physical networks.
TRAIT_PREFIX = "CUSTOM_PHYSNET_"
_PLAIN = re.compile(r"[a-z0-9_]+")


def segment_of(network_type: str, physical_network: str | None, segmentation_id: int | None) -> str | None:
    """Returns None if the network needs nothing that only some hosts have."""
    if physical_network is None or network_type not in {FLAT, VLAN}:
        return None
    return f"{physical_network}.{segmentation_id}" if network_type == VLAN else physical_network


def segment_of_network(network: Network) -> str | None:
    return segment_of(network.network_type, network.physical_network, network.segmentation_id)


def trait_of(segment: str) -> str:
    """`dc1` is CUSTOM_PHYSNET_DC1. A segment that a trait cannot spell (`dc1.100`, `DC1`) gets a hash at the end, so
    that no two segments share a trait.
    """
    name = re.sub(r"[^A-Z0-9_]", "_", segment.upper())
    if _PLAIN.fullmatch(segment) is None:
        name += f"_{hashlib.sha256(segment.encode()).hexdigest()[:8].upper()}"
    return TRAIT_PREFIX + name


def require_segments(placement: PlacementFilter, segments: Iterable[str]) -> PlacementFilter:
    """Returns the filter with these segments in place of its earlier ones."""
    new_segments = tuple(sorted(set(segments)))
    others = {*placement.required_traits} - {trait_of(segment) for segment in placement.segments}
    required = tuple(sorted(others | {trait_of(segment) for segment in new_segments}))
    return msgspec.structs.replace(placement, required_traits=required, segments=new_segments)
