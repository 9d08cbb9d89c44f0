"""The mark on Neutron ports that minova has created. It is in `binding:profile`, which users can neither write nor copy
to another port.

`device_id` and `device_owner` do not show who created a port: its project may set both to those of any server.
"""

from collections.abc import Mapping
from typing import Any

_PROFILE, _KEY = "binding:profile", "minova"


def mark(instance_uuid: str, interface: int | None = None) -> dict[str, Any]:
    """Returns the mark for a port of this server.

    `interface`: the row of `neutron_ports` for which it is created; None: the API creates it, before there is a row.
    """
    return {_PROFILE: {_KEY: {"server": instance_uuid, "interface": interface}}}


def is_marked(port: Mapping[str, Any], instance_uuid: str) -> bool:
    """Whether the port was created for this server."""
    return _of(port).get("server") == instance_uuid


def interface_of(port: Mapping[str, Any]) -> int | None:
    """Returns the id of the row for which the port was created."""
    interface_id = _of(port).get("interface")
    return interface_id if isinstance(interface_id, int) else None


def _of(port: Mapping[str, Any]) -> Mapping[str, Any]:
    profile = port.get(_PROFILE)
    port_mark = profile.get(_KEY) if isinstance(profile, dict) else None
    return port_mark if isinstance(port_mark, dict) else {}
