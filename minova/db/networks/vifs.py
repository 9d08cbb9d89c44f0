"""The interfaces of servers, as hosts and answers of the Compute API need them."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TypeAlias

import msgspec
from sqlalchemy import select
from sqlalchemy.orm import Session

from minova.db.models import Instance, IpAllocation, Network, Port, Subnet
from minova.db.models.networks import GOING
from minova.db.networks import neutron_ports, ports, vif_rules
from minova.db.sql import chunked, in_list
from minova.objects.physical_networks import segment_of
from minova.objects.vif import Vif, VifAddress, VifRule, VifSubnet

# By instance, interfaces with their numbers, in order.
_Numbered: TypeAlias = dict[str, list[tuple[int, Vif]]]
# Built once: every build asks them.
_PORTS = (
    select(Port, Network, Subnet.uuid, IpAllocation.address)
    .join(Network, Network.id == Port.network_id)
    .outerjoin(IpAllocation, IpAllocation.port_id == Port.id)
    .outerjoin(Subnet, Subnet.id == IpAllocation.subnet_id)
    .where(in_list(Port.instance_uuid))
    .order_by(Port.nic, Port.id, Subnet.id, IpAllocation.address)
)
_SUBNETS = (
    select(
        Subnet.network_id,
        Subnet.uuid,
        Subnet.cidr,
        Subnet.gateway_ip,
        Subnet.enable_dhcp,
        Subnet.dns_nameservers,
    )
    .where(in_list(Subnet.network_id))
    .order_by(Subnet.id)
)


def segments_of(session: Session, instance_uuid: str) -> set[str]:
    """What the host of the instance must have bridges for."""
    query = (
        select(Network.network_type, Network.physical_network, Network.segmentation_id)
        .join(Port, Port.network_id == Network.id)
        .where(Port.instance_uuid == instance_uuid)
        .distinct()
    )
    return {segment for row in session.execute(query) if (segment := segment_of(*row)) is not None}


def release(session: Session, instance_uuid: str, at: datetime) -> dict[str, int]:
    """The server has no interface any more, and ports that were made for it go. {project: how many of minova's own went}."""
    neutron_ports.release(session, instance_uuid, at)
    return ports.release(session, instance_uuid)


def of_hosts(session: Session, hosts: Collection[str]) -> dict[str, dict[str, tuple[Vif, ...]]]:
    """By host, of all instances that are there, for the hosts themselves: also those of ports that are going. Without those of Neutron,
    which keeps its own.
    """
    found: dict[str, dict[str, tuple[Vif, ...]]] = {host: {} for host in hosts}
    query = select(Instance.uuid, Instance.hostname, Instance.host).join(Port, Port.instance_uuid == Instance.uuid)
    for chunk in chunked(sorted(found)):
        rows = {row.uuid: row for row in session.execute(query.where(Instance.host.in_(chunk)).distinct())}
        for uuid, vifs in _built_in(session, rows, rules=True, going=True, members_now=True).items():
            named = tuple(msgspec.structs.replace(vif, hostname=rows[uuid].hostname or "") for _, vif in vifs)
            found[str(rows[uuid].host)][uuid] = named
    return found


def of_instances(
    session: Session, instance_uuids: Iterable[str], *, rules: bool = False, going: bool = False
) -> dict[str, tuple[Vif, ...]]:
    """In the order of the interfaces; only of those that have any. `rules`: with what their security groups let through. `going`: with
    those of ports that are going.
    """
    uuids = sorted(set(instance_uuids))
    found = _built_in(session, uuids, rules=rules, going=going)
    for uuid, numbered in neutron_ports.describe(session, uuids).items():
        # A server that was made on minova's own networks may get interfaces on Neutron's.
        found[uuid] = sorted([*found.get(uuid, ()), *numbered], key=lambda one: one[0])
    return {uuid: tuple(vif for _, vif in numbered) for uuid, numbered in found.items()}


def _built_in(
    session: Session, instance_uuids: Iterable[str], *, rules: bool, going: bool, members_now: bool = False
) -> _Numbered:
    found: _Numbered = {}
    for chunk in chunked(sorted(set(instance_uuids))):
        addresses: dict[tuple[Port, Network], list[VifAddress]] = {}
        for port, network, subnet, address in session.execute(_PORTS, {"some": chunk}):
            if going or port.status != GOING:
                of_port = addresses.setdefault((port, network), [])
                if address is not None:
                    of_port.append(VifAddress(subnet_id=subnet, ip_address=address))
        if addresses:
            of_ports = vif_rules.of_ports(session, list(addresses), members_now=members_now) if rules else {}
            found.update(_vifs(session, addresses, of_ports))
    return found


def _vifs(
    session: Session,
    addresses: Mapping[tuple[Port, Network], Sequence[VifAddress]],
    rules: Mapping[int, tuple[VifRule, ...]],
) -> _Numbered:
    subnets = _subnets(session, {network.id for _, network in addresses})
    found: _Numbered = {}
    for (port, network), of_port in addresses.items():
        vif = Vif(
            port_id=port.uuid,
            mac_address=port.mac_address,
            network_id=network.uuid,
            network_name=network.name,
            network_type=network.network_type,
            physical_network=network.physical_network,
            segmentation_id=network.segmentation_id,
            mtu=network.mtu,
            admin_state_up=port.admin_state_up,
            addresses=tuple(of_port),
            subnets=subnets.get(network.id, ()),
            port_security_enabled=port.port_security_enabled,
            allowed_address_pairs=vif_rules.pairs_of(port),
            rules=rules.get(port.id),
            going=port.status == GOING,
            tag=port.tag,
        )
        found.setdefault(str(port.instance_uuid), []).append((port.nic or 0, vif))
    return found


def _subnets(session: Session, network_ids: Collection[int]) -> dict[int, tuple[VifSubnet, ...]]:
    found: dict[int, tuple[VifSubnet, ...]] = {}
    for chunk in chunked(sorted(network_ids)):
        for row in session.execute(_SUBNETS, {"some": chunk}):
            subnet = VifSubnet(
                id=row.uuid,
                cidr=row.cidr,
                gateway_ip=row.gateway_ip,
                enable_dhcp=row.enable_dhcp,
                dns_nameservers=tuple(row.dns_nameservers),
            )
            found[row.network_id] = (*found.get(row.network_id, ()), subnet)
    return found
