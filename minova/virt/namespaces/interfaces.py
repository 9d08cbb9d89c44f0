"""The interfaces of a network: a pair for its guests and one for the host, with their addresses, routes and neighbours.

Each function works in the network namespace of its thread (`kernel.within`): that of the host, or that of the network.
"""

import ipaddress
import json
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any

from minova.objects.guests.guest_metadata import ADDRESS
from minova.objects.network.addresses import link_local
from minova.virt.namespaces.host_routes import overlapping, routes_of_host
from minova.virt.namespaces.kernel import ip, run
from minova.virt.namespaces.network import GUESTS, HOST, LocalNetwork, NetworkRecord

# Where the kernel shows the namespace in which a thread works.
_NET = Path("/proc/thread-self/net")
# Otherwise each of the four interfaces of a network has queues for all CPUs that the machine could have, with their files in /sys.
_QUEUES = "numtxqueues 1 numrxqueues 1"
# The number that marks routes to guests without a gateway in a namespace.
_LINKED_ROUTES = 77


# -- in the host ---------------------------------------------------------------------------------------------------------


def require_free(network: LocalNetwork) -> None:
    """Raises ValueError if a route to the network would take traffic of another route or address. The caller has checked
    it; its word is not enough.
    """
    routes = [route for route in routes_of_host(_NET) if route.interface != network.uplink]
    for subnet in network.routed_subnets if network.reachable else ():
        overlap = overlapping(subnet.cidr, routes)
        if overlap is not None:
            raise ValueError(f"its range {subnet.cidr} overlaps {overlap}")


def make_pairs(record: NetworkRecord, namespace: str) -> bool:
    """Make both pairs between the host and the namespace. Returns whether the one of the guests is new."""
    network = record.network
    is_new = not _has_interface(network.port)
    for own, inside in ((network.port, GUESTS), (network.uplink, HOST)):
        if not _has_interface(own):
            ip([f"link add {own} {_QUEUES} type veth peer name {inside} {_QUEUES} netns {namespace}"])
    ip(
        [
            *(f"link set {own} mtu {network.mtu} addrgenmode none" for own in (network.port, network.uplink)),
            f"link set {network.port} master {network.bridge}",
            f"link set {network.port} up",
            f"address replace {record.host_end}/31 dev {network.uplink}",
            f"link set {network.uplink} up",
        ]
    )
    _forward()
    return is_new


def remove_pairs(network: LocalNetwork) -> None:
    ip([f"link delete {name}" for name in (network.port, network.uplink) if _has_interface(name)])


def set_routes(record: NetworkRecord) -> None:
    """Make the routes to a reachable network, and remove those to any other. A route of another interface to the same
    addresses stays, and is an error.
    """
    uplink, gateway = record.network.uplink, record.network_end
    required_routes = (
        {(each.cidr, gateway) for each in record.network.routed_subnets} if record.network.reachable else set()
    )
    present_routes = {
        (route["dst"], route.get("gateway", ""))
        for route in json.loads(run(["ip", "-json", "-4", "route", "show", "dev", uplink]) or "[]")
        if route.get("protocol") != "kernel"
    }
    ip(
        [
            *(f"route del {each} dev {uplink}" for each, _ in sorted(present_routes - required_routes)),
            *(f"route add {each} via {way} dev {uplink}" for each, way in sorted(required_routes - present_routes)),
        ]
    )


def masters() -> dict[str, str]:
    """Returns the interfaces here, with the bridges that they belong to."""
    links: list[dict[str, Any]] = json.loads(run(["ip", "-json", "link", "show"]))
    return {link["ifname"]: link.get("master", "") for link in links}


def _has_interface(name: str) -> bool:
    with suppress(OSError):
        return bool(socket.if_nametoindex(name))
    return False


# -- in the namespace ----------------------------------------------------------------------------------------------------


def set_addresses(record: NetworkRecord) -> None:
    """Make the addresses and routes, and remove other addresses."""
    network = record.network
    addresses = dict.fromkeys(network.addresses_inside)
    if network.six:
        addresses[f"{link_local(record.mac)}/64"] = None
    (link,) = json.loads(run(["ip", "-json", "address", "show", "dev", GUESTS]))
    present = {f"{each['local']}/{each['prefixlen']}" for each in link["addr_info"]}
    ip(
        [
            "link set lo up",
            f"address replace {ADDRESS}/32 dev lo" if network.metadata else "link set lo up",
            *(f"address delete {each} dev {GUESTS}" for each in sorted(present - addresses.keys())),
            f"link set {GUESTS} address {record.mac} mtu {network.mtu} addrgenmode none",
            f"link set {HOST} mtu {network.mtu} addrgenmode none",
            *(f"address replace {each} dev {GUESTS}{_no_detection(each)}" for each in addresses if each not in present),
            f"link set {GUESTS} up",
            f"route flush dev {GUESTS} proto {_LINKED_ROUTES}",
            *(
                f"route add {each.cidr} dev {GUESTS} src {ADDRESS} proto {_LINKED_ROUTES}"
                for each in network.linked_subnets
            ),
            f"address replace {record.network_end}/31 dev {HOST}",
            f"link set {HOST} up",
            f"route replace default via {record.host_end} dev {HOST}",
        ]
    )
    _forward()
    if any(network.is_gateway_of(each) for each in network.six):
        # Without a route further it tells guests so, and they take IPv4.
        _set_to_one(Path("/proc/sys/net/ipv6/conf/all/forwarding"))


def set_neighbours(record: NetworkRecord) -> None:
    """Tell the kernel the MAC address of each guest, because dnsmasq takes that of a client of DHCPv6 from there. A guest
    would answer with any.
    """
    if not record.network.six:
        return
    macs = {link_local(host.mac): host.mac for host in record.hosts}
    neighbours = json.loads(run(["ip", "-json", "-6", "neighbour", "show", "dev", GUESTS, "nud", "permanent"]) or "[]")
    present = {each["dst"]: each.get("lladdr", "") for each in neighbours}
    ip(
        [
            *(f"neighbour delete {each} dev {GUESTS}" for each in sorted(present.keys() - macs.keys())),
            *(
                f"neighbour replace {each} lladdr {mac} nud permanent dev {GUESTS}"
                for each, mac in macs.items()
                if present.get(each) != mac
            ),
        ]
    )


def missing_addresses(record: NetworkRecord) -> str:
    """Returns what is missing of the addresses and the route; "" if nothing is."""
    trie, six = (_NET / "fib_trie").read_text().split(), (_NET / "if_inet6").read_text().split()
    inside = [each.partition("/")[0] for each in record.network.addresses_inside]
    addresses4 = [*(each for each in inside if ":" not in each), record.network_end]
    addresses6 = [ipaddress.IPv6Address(each).packed.hex() for each in inside if ":" in each]
    if not set(addresses4) <= set(trie) or not set(addresses6) <= set(six):
        return "its addresses"
    if f"{HOST}\t00000000\t" not in (_NET / "route").read_text():
        return "its route"
    return ""


def _no_detection(address: str) -> str:
    """Returns what lets dnsmasq listen on an IPv6 address at once: no test whether another machine has it."""
    return " nodad" if ":" in address else ""


# -- in both -------------------------------------------------------------------------------------------------------------


def _forward() -> None:
    """Let this namespace forward packets."""
    _set_to_one(Path("/proc/sys/net/ipv4/ip_forward"))


def _set_to_one(path: Path) -> None:
    if path.read_text().strip() != "1":
        path.write_text("1")
