"""Features of a Neutron port that need support by its host and that minova does not support. Pure."""

from collections.abc import Mapping
from typing import Any

NORMAL = "normal"


def refusal_reason(port: Mapping[str, Any]) -> str | None:
    """Returns None if a server may use the port. Fields that Neutron does not show to the caller are not checked."""
    vnic_type = port.get("binding:vnic_type") or NORMAL
    if vnic_type != NORMAL:
        return f"Port {port['id']} has binding:vnic_type {vnic_type}: SR-IOV and other hardware is not supported, {NORMAL} is."
    if port.get("resource_request"):
        return f"Port {port['id']} has a resource_request: minimum bandwidth and packet rates of QoS policies are not supported."
    if port.get("trunk_details"):
        return f"Port {port['id']} is the parent of a trunk, which is not supported."
    return None
