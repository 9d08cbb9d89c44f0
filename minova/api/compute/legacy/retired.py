"""Routes that Nova has removed but still knows: they answer 410 Gone to every request."""

from minova import errors
from minova.api.compute.collaborators import ComputeApiCollaborators
from minova.api.http.call import Call
from minova.api.http.definition import Route
from minova.api.policies.base import AUTHENTICATED

# (methods, path below /v2.1)
_REMOVED: tuple[tuple[str, str], ...] = (
    ("GET POST", "os-agents"),
    ("PUT DELETE", "os-agents/{id}"),
    ("GET POST", "os-cells"),
    ("GET", "os-cells/capacities"),
    ("GET", "os-cells/detail"),
    ("GET", "os-cells/info"),
    ("POST", "os-cells/sync_instances"),
    ("GET PUT DELETE", "os-cells/{id}"),
    ("GET", "os-cells/{id}/capacities"),
    ("POST", "os-certificates"),
    ("GET", "os-certificates/{id}"),
    ("GET POST", "os-cloudpipe"),
    ("PUT", "os-cloudpipe/{id}"),
    ("GET", "os-fixed-ips/{id}"),
    ("POST", "os-fixed-ips/{id}/action"),
    ("GET", "os-floating-ip-dns"),
    ("PUT DELETE", "os-floating-ip-dns/{id}"),
    ("GET PUT DELETE", "os-floating-ip-dns/{id}/entries/{entry}"),
    ("GET POST", "os-floating-ips-bulk"),
    ("GET PUT", "os-floating-ips-bulk/{id}"),
    ("GET", "os-fping"),
    ("GET", "os-fping/{id}"),
    ("POST", "os-networks"),
    ("POST", "os-networks/add"),
    ("DELETE", "os-networks/{network_id}"),
    ("POST", "os-networks/{network_id}/action"),
    ("GET POST", "os-security-group-default-rules"),
    ("GET DELETE", "os-security-group-default-rules/{id}"),
    ("POST", "os-tenant-networks"),
    ("DELETE", "os-tenant-networks/{network_id}"),
    ("GET POST", "servers/{server_id}/consoles"),
    ("GET DELETE", "servers/{server_id}/consoles/{id}"),
    ("GET", "servers/{server_id}/os-virtual-interfaces"),
)


def refuse(api: ComputeApiCollaborators, call: Call) -> None:
    raise errors.Gone("This resource is no longer available. No forwarding address is given.")


ROUTES = tuple(
    Route(method=method, path=f"/v2.1/{path}", rule=AUTHENTICATED, handler=refuse, set_by_handler={410: ""})
    for methods, path in _REMOVED
    for method in methods.split()
)
