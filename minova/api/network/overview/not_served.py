"""Resources of Neutron that are not served here: a 404 names them, and some listings are empty."""

from collections.abc import Mapping

from minova.api.http.definition import Route

# {collection in the path: what it is}
NOT_SERVED: Mapping[str, str] = {
    "routers": "Routers",
    "floatingips": "Floating addresses",
    "floatingip-pools": "Pools of floating addresses",
    "trunks": "Trunks",
    "qos": "QoS policies",
    "rbac-policies": "RBAC policies",
    "segments": "Segments",
    "network-segment-ranges": "Ranges of network segments",
    "metering": "Metering labels",
    "address-scopes": "Address scopes",
    "flavors": "Flavors of network services",
    "service-profiles": "Profiles of network services",
    "auto-allocated-topology": "Allocated topologies",
    "log": "Logs of packets",
    "local-ips": "Local IPs",
    "ndp-proxies": "NDP proxies",
    "conntrack-helpers": "Conntrack helpers",
    "default-security-group-rules": "Rules of future default security groups",
    "security-groups-default-statefulness": "Stateless security groups",
    "fwaas": "Firewalls",
    "fw": "Firewalls",
    "vpn": "VPNs",
    "lbaas": "Load balancers",
    "bgpvpn": "BGP VPNs",
    "bgp-speakers": "BGP speakers",
    "bgp-peers": "BGP peers",
    "sfc": "Service function chains",
    "taas": "Tap services",
}
# Of resources that are served: parts of the path behind their id.
_PARTS: Mapping[str, str] = {
    "bindings": "Bindings of ports to several hosts",
    "dhcp-agents": "DHCP agents",
    "dhcp-networks": "Networks of DHCP agents",
    "l3-routers": "Routers of agents",
    "onboard_network_subnets": "Onboarding of subnets",
    "add_prefixes": "Changes of single prefixes of subnet pools",
    "remove_prefixes": "Changes of single prefixes of subnet pools",
}


def refusal(path: str) -> str | None:
    """Returns the text of a 404 for this path, or None if Neutron has no such resource."""
    parts = path.strip("/").split("/")
    if len(parts) < 2 or parts[0] != "v2.0":
        return None
    # Neutron's paths have one or the other.
    collection = parts[1].replace("_", "-")
    name = NOT_SERVED.get(collection) or next((_PARTS[part] for part in parts[3:4] if part in _PARTS), None)
    return None if name is None else f"{name} are not served by minova's built-in networks."


def _no(name: str, plural: str) -> Route:
    """Returns the route of a listing that is always empty: clients read it whether or not the resource is served."""
    return Route(
        method="GET",
        path=f"/v2.0/{plural.replace('_', '-')}",
        rule=f"get_{name}",
        handler=lambda _api, _call: {plural: []},
        answer={plural: list[str]},
    )


ROUTES: tuple[Route, ...] = (
    _no("router", "routers"),
    _no("floatingip", "floatingips"),
    _no("service_provider", "service_providers"),
    _no("rbac_policy", "rbac_policies"),
)
