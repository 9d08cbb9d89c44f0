"""The documents that clients read first: the version, the resources, and the extensions."""

from typing import Any

from minova import errors
from minova.api.http.call import Call
from minova.api.http.definition import Route
from minova.api.network.answers import ExtensionAnswer

RESOURCES = ("network", "subnet", "subnetpool", "port", "security_group", "security_group_rule", "address_group")
# (alias, name, what it adds). Only extensions that are served completely.
EXTENSIONS = (
    ("address-group", "Address group", "Support address group"),
    ("agent", "agent", "Lists computes as agents."),
    ("allowed-address-pairs", "Allowed Address Pairs", "Adds addresses from which a port may send beside its own."),
    ("availability_zone", "Availability Zone", "Lists availability zones."),
    ("binding", "Port Binding", "Shows administrators the host of a port."),
    ("default-subnetpools", "Default Subnetpools", "Gives subnets ranges of the default pool."),
    ("extra_dhcp_opt", "Neutron Extra DHCP options", "Adds options for the guest of a port to DHCP."),
    ("filter-validation", "Filter parameters validation", "Listings refuse filters that they do not have."),
    ("minova-reachable", "Networks reachable from their hosts", "Adds minova:reachable to networks: not of Neutron."),
    ("net-mtu", "Network MTU", "Shows the MTU of networks."),
    ("net-mtu-writable", "Network MTU (writable)", "The MTU of a network can be set."),
    ("network-ip-availability", "Network IP Availability", "Counts addresses of networks."),
    ("pagination", "Pagination support", "Listings take limit, marker and page_reverse."),
    ("port-security", "Port Security", "Lets a network or port do without checks of addresses."),
    ("project-id", "project_id field enabled", "Resources have project_id beside tenant_id."),
    ("provider", "Provider Network", "Administrators choose how a network is made on hosts."),
    ("quota_details", "Quota details management support", "Shows limits with their usage."),
    ("quotas", "Quota management support", "Shows and sets limits of projects."),
    ("revision-if-match", "If-Match constraints based on revision_number", "Refuses a change of another revision."),
    ("security-group", "security-group", "Security groups and their rules."),
    ("security-groups-normalized-cidr", "Normalized CIDR field for security group rules", "Adds normalized_cidr."),
    (
        "security-groups-remote-address-group",
        "Remote address group id field for security group rules",
        "Adds remote_address_group_id.",
    ),
    ("security-groups-shared-filtering", "Security group filtering on the shared field", "Listings take shared."),
    ("sorting", "Sorting support", "Listings take sort_key and sort_dir."),
    ("standard-attr-description", "standard-attr-description", "Adds descriptions."),
    ("standard-attr-revisions", "Resource revision numbers", "Adds a number that grows with each change."),
    ("standard-attr-tag", "Tag support for resources with standard attribute", "Adds tags."),
    ("standard-attr-timestamp", "Resource timestamps", "Adds created_at and updated_at."),
    ("subnet_allocation", "Subnet Allocation", "Gives subnets ranges of subnet pools."),
    ("subnet-service-types", "Subnet service types", "Reserves a subnet for ports of certain owners."),
    ("tag-creation", "Tag creation extension", "Adds several tags in one request."),
    ("tag-ports-during-bulk-creation", "Tag Ports During Bulk Creation", "Makes ports with tags."),
)
_UPDATED = "2026-11-22T00:00:00-00:00"


def versions(_: Any, call: Call) -> dict[str, Any]:
    links = [{"rel": "self", "href": call.url("/v2.0/")}]
    return {"versions": [{"id": "v2.0", "status": "CURRENT", "links": links}]}


def resources(_: Any, call: Call) -> dict[str, Any]:
    return {
        "resources": [
            {
                "name": name,
                "collection": f"{name}s",
                "links": [{"rel": "self", "href": call.url(f"/v2.0/{name.replace('_', '-')}s")}],
            }
            for name in RESOURCES
        ]
    }


def list_extensions(_: Any, call: Call) -> dict[str, Any]:
    return {"extensions": [_view(*extension) for extension in EXTENSIONS]}


def show_extension(_: Any, call: Call) -> dict[str, Any]:
    alias = call.path["alias"]
    for extension in EXTENSIONS:
        if extension[0] == alias:
            return {"extension": _view(*extension)}
    raise errors.NotFound(f"Extension with alias {alias[:255]} does not exist")


def _view(alias: str, name: str, description: str) -> dict[str, Any]:
    return {"alias": alias, "name": name, "description": description, "updated": _UPDATED, "links": []}


ROUTES: tuple[Route, ...] = (
    Route(method="GET", path="/", handler=versions),
    Route(method="GET", path="/v2.0", handler=resources),
    Route(
        method="GET",
        path="/v2.0/extensions",
        rule="get_extension",
        handler=list_extensions,
        answer={"extensions": list[ExtensionAnswer]},
    ),
    Route(
        method="GET",
        path="/v2.0/extensions/{alias}",
        rule="get_extension",
        handler=show_extension,
        answer={"extension": ExtensionAnswer},
    ),
)
