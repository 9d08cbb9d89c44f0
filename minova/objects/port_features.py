"""What a port of Neutron asks of its host that minova does not give. Pure."""

from collections.abc import Mapping
from typing import Any

NORMAL = "normal"


def refusal_reason(port: Mapping[str, Any]) -> str | None:
    """None: a server may have it. What Neutron does not show the caller is not looked at."""
    vnic_type = port.get("binding:vnic_type") or NORMAL
    if vnic_type != NORMAL:
        return f"Port {port['id']} has binding:vnic_type {vnic_type}: SR-IOV and other hardware is not supported, {NORMAL} is."
    if port.get("resource_request"):
        return f"Port {port['id']} has a resource_request: minimum bandwidth and packet rates of QoS policies are not supported."
    if port.get("trunk_details"):
        return f"Port {port['id']} is the parent of a trunk, which is not supported."
    return None
