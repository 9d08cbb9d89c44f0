"""`network_data.json` of a config drive: a server's interfaces and addresses in OpenStack's form. Pure."""

from collections.abc import Sequence
from typing import Any

from netaddr import IPNetwork

from minova.objects.network.network import LOCAL
from minova.objects.network.vif import DHCP, Vif, VifAddress, VifSubnet, tap_name

# The type of a link on a bridge of the host.
LINK_TYPE = "bridge"
_ANYWHERE = {4: ("0.0.0.0", "0.0.0.0"), 6: ("::", "::")}


def network_data(vifs: Sequence[Vif]) -> dict[str, Any]:
    """Returns the document; empty without interfaces, as Nova writes it."""
    if not vifs:
        return {}
    networks: list[dict[str, Any]] = []
    services: list[dict[str, str]] = []
    for vif in vifs:
        subnets = {subnet.id: subnet for subnet in vif.subnets}
        for address in vif.addresses:
            subnet = subnets.get(address.subnet_id)
            if subnet is not None:
                networks.append(_network(f"network{len(networks)}", vif, address, subnet))
                services += [service for service in _services(subnet) if service not in services]
    return {"links": [_link(vif) for vif in vifs], "networks": networks, "services": services}


def first_address(vifs: Sequence[Vif]) -> str | None:
    """Returns the first IPv4 address, or None."""
    addresses = (address.ip_address for vif in vifs for address in vif.addresses)
    return next((address for address in addresses if ":" not in address), None)


def _link(vif: Vif) -> dict[str, Any]:
    return {
        "id": tap_name(vif.port_id),
        "vif_id": vif.port_id,
        "type": vif.vif_type or LINK_TYPE,
        "mtu": vif.mtu,
        "ethernet_mac_address": vif.mac_address,
    }


def _network(name: str, vif: Vif, address: VifAddress, subnet: VifSubnet) -> dict[str, Any]:
    cidr = IPNetwork(subnet.cidr)
    entry = {"id": name, "link": tap_name(vif.port_id), "network_id": vif.network_id}
    way = _way(vif, address, subnet)
    if way == DHCP:
        return entry | {"type": f"ipv{cidr.version}_dhcp"}
    routes = [_route(cidr.version, None, subnet.gateway_ip)] if subnet.gateway_ip else []
    routes += [_route(cidr.version, each.destination, each.nexthop) for each in subnet.host_routes]
    return entry | {
        "type": f"ipv{cidr.version}" + (f"_{way}" if way else ""),
        "ip_address": address.ip_address,
        "netmask": str(cidr.netmask),
        "routes": routes,
        "services": _services(subnet),
    }


def _route(version: int, destination: str | None, gateway: str) -> dict[str, str]:
    """`destination` None: anywhere."""
    if destination is None:
        network, netmask = _ANYWHERE[version]
    else:
        block = IPNetwork(destination)
        network, netmask = str(block.network), str(block.netmask)
    return {"network": network, "netmask": netmask, "gateway": gateway}


def _way(vif: Vif, address: VifAddress, subnet: VifSubnet) -> str:
    """Returns how the guest gets this address: DHCP, a mode of IPv6, or empty: nothing gives it. A guest that asks where
    no server answers would wait for ever, or take an address of a server that is not the cloud's.
    """
    if vif.from_neutron:
        return DHCP if subnet.enable_dhcp else ""
    way = dict(vif.served_addresses).get(address, "")
    # No host advertises a router that is outside, and renderers of cloud-init take a route from a static address alone.
    is_outside = vif.network_type != LOCAL and subnet.ip_version == 6 and subnet.gateway_ip is not None
    return "" if is_outside else way


def _services(subnet: VifSubnet) -> list[dict[str, str]]:
    return [{"type": "dns", "address": address} for address in subnet.dns_nameservers]
