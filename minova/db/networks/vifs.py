"""The interfaces of servers, as hosts and responses of the Compute API need them."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, TypeAlias

import msgspec
from sqlalchemy import select
from sqlalchemy.orm import Session

from minova.codecs import Decoder
from minova.db.models import Instance, IpAllocation, Network, Port, Subnet
from minova.db.models.networks import PENDING_DELETE
from minova.db.networks import neutron_ports, ports, vif_rules
from minova.db.networks.vif_rules import ServerPort
from minova.db.sql import chunked, in_list
from minova.objects.network.addresses import is_resolver
from minova.objects.network.guest_names import domain_of
from minova.objects.network.network import HostRoute
from minova.objects.network.physical_networks import segment_of
from minova.objects.network.vif import Vif, VifAddress, VifRule, VifSubnet

# By instance, interfaces with their numbers, in order.
_Numbered: TypeAlias = dict[str, list[tuple[int, Vif]]]
# Built once, and from tables: every build and every GET of a server runs them. Mapped objects would take half of the
# run time, and a join with the subnets a third of PostgreSQL's planning time.
_PORT, _NETWORK, _ADDRESS = Port.__table__.c, Network.__table__.c, IpAllocation.__table__.c
_PORTS = (
    select(
        # In the order of `ServerPort`.
        _PORT.id,
        _PORT.uuid,
        _PORT.instance_uuid,
        _PORT.nic,
        _PORT.mac_address,
        _PORT.status,
        _PORT.tag,
        _PORT.admin_state_up,
        _PORT.port_security_enabled,
        _PORT.allowed_address_pairs,
        _PORT.extra_dhcp_opts,
        _PORT.project_id,
        _NETWORK.id,
        _NETWORK.uuid,
        _NETWORK.name,
        _NETWORK.network_type,
        _NETWORK.physical_network,
        _NETWORK.segmentation_id,
        _NETWORK.mtu,
        _NETWORK.reachable,
        _NETWORK.project_id,
        _NETWORK.shared,
        _ADDRESS.subnet_id,
        _ADDRESS.address,
    )
    .select_from(Port.__table__)
    .join(Network.__table__, _NETWORK.id == _PORT.network_id)
    .outerjoin(IpAllocation.__table__, _ADDRESS.port_id == _PORT.id)
    .where(in_list(_PORT.instance_uuid))
    .order_by(_PORT.nic, _PORT.id, _ADDRESS.subnet_id, _ADDRESS.address)
)
_SUBNET = Subnet.__table__.c
_SUBNETS = (
    select(
        _SUBNET.id,
        _SUBNET.network_id,
        _SUBNET.uuid,
        _SUBNET.cidr,
        _SUBNET.gateway_ip,
        _SUBNET.enable_dhcp,
        _SUBNET.dns_nameservers,
        _SUBNET.host_routes,
        _SUBNET.ipv6_address_mode,
        _SUBNET.ipv6_ra_mode,
    )
    .where(in_list(_SUBNET.network_id))
    .order_by(_SUBNET.id)
)


_ROUTES = Decoder(tuple[HostRoute, ...])


class _Address(NamedTuple):
    """`subnet_id`: id of the subnet's row."""

    subnet_id: int
    address: str


def segments_of(session: Session, instance_uuid: str) -> set[str]:
    """Returns the segments for which the instance's host must have bridges."""
    query = (
        select(Network.network_type, Network.physical_network, Network.segmentation_id)
        .join(Port, Port.network_id == Network.id)
        .where(Port.instance_uuid == instance_uuid)
        .distinct()
    )
    return {segment for row in session.execute(query) if (segment := segment_of(*row)) is not None}


def release(session: Session, instance_uuids: Collection[str], at: datetime) -> Counter[str]:
    """Takes all interfaces from these servers, and removes ports that were created for them. Returns {project: number of
    its removed minova ports}.
    """
    neutron_ports.release_all(session, instance_uuids, at)
    return ports.release(session, instance_uuids)


def of_hosts(session: Session, hosts: Collection[str]) -> dict[str, dict[str, tuple[Vif, ...]]]:
    """Returns, by host, the interfaces of all instances there, to be sent to the hosts: includes ports that are being
    deleted, but not Neutron's ports, which Neutron handles itself.
    """
    vifs_by_host: dict[str, dict[str, tuple[Vif, ...]]] = {host: {} for host in hosts}
    query = select(Instance.uuid, Instance.hostname, Instance.host).join(Port, Port.instance_uuid == Instance.uuid)
    for chunk in chunked(sorted(vifs_by_host)):
        rows = {row.uuid: row for row in session.execute(query.where(Instance.host.in_(chunk)).distinct())}
        for uuid, vifs in _built_in(session, rows, rules=True, pending_delete=True, members_now=True).items():
            named_vifs = tuple(msgspec.structs.replace(vif, hostname=rows[uuid].hostname or "") for _, vif in vifs)
            vifs_by_host[str(rows[uuid].host)][uuid] = named_vifs
    return vifs_by_host


def of_instances(
    session: Session,
    instance_uuids: Iterable[str],
    *,
    neutron: Iterable[str] | None = None,
    rules: bool = False,
    pending_delete: bool = False,
) -> dict[str, tuple[Vif, ...]]:
    """Returns the interfaces in their order, only of instances that have any.

    `neutron`: the instances that may have ports in Neutron; None: the same ones.
    `rules`: with the rules of their security groups.
    `pending_delete`: with ports that are being deleted.
    """
    uuids = sorted(set(instance_uuids))
    numbered_vifs = _built_in(session, uuids, rules=rules, pending_delete=pending_delete)
    for uuid, numbered in neutron_ports.describe(session, uuids if neutron is None else neutron).items():
        # A server that was created on minova's own networks may get interfaces on Neutron's networks later.
        numbered_vifs[uuid] = sorted([*numbered_vifs.get(uuid, ()), *numbered], key=lambda pair: pair[0])
    return {uuid: tuple(vif for _, vif in numbered) for uuid, numbered in numbered_vifs.items()}


def _built_in(
    session: Session, instance_uuids: Iterable[str], *, rules: bool, pending_delete: bool, members_now: bool = False
) -> _Numbered:
    numbered_vifs: _Numbered = {}
    for chunk in chunked(sorted(set(instance_uuids))):
        by_id: dict[int, ServerPort] = {}
        addresses: dict[int, list[_Address]] = {}
        for *columns, subnet_id, address in session.connection().execute(_PORTS, {"some": chunk}):
            port = ServerPort(*columns)
            if pending_delete or port.status != PENDING_DELETE:
                by_id[port.id] = port
                if address is not None:
                    addresses.setdefault(port.id, []).append(_Address(subnet_id, address))
        if by_id:
            of_ports = vif_rules.of_ports(session, [*by_id.values()], members_now=members_now) if rules else {}
            numbered_vifs.update(_vifs(session, by_id.values(), addresses, of_ports))
    return numbered_vifs


def _vifs(
    session: Session,
    ports: Collection[ServerPort],
    addresses: Mapping[int, Sequence[_Address]],
    rules: Mapping[int, tuple[VifRule, ...]],
) -> _Numbered:
    subnets = _subnets(session, {port.network_id for port in ports})
    numbered_vifs: _Numbered = {}
    for port in ports:
        of_network = subnets.get(port.network_id, {})
        vif = Vif(
            port_id=port.uuid,
            mac_address=port.mac_address,
            network_id=port.network_uuid,
            network_name=port.network_name,
            network_type=port.network_type,
            physical_network=port.physical_network,
            segmentation_id=port.segmentation_id,
            mtu=port.mtu,
            reachable=port.reachable,
            admin_state_up=port.admin_state_up,
            addresses=tuple(
                VifAddress(subnet_id=of_network[address.subnet_id].id, ip_address=address.address)
                for address in addresses.get(port.id, ())
                # A subnet may have been deleted, with its addresses, since these were read.
                if address.subnet_id in of_network
            ),
            subnets=tuple(of_network.values()),
            port_security_enabled=port.port_security_enabled,
            allowed_address_pairs=vif_rules.pairs_of(port),
            extra_dhcp_opts=vif_rules.OPTIONS.from_builtins(port.extra_dhcp_opts or []),
            rules=rules.get(port.id),
            dns_domain=domain_of(port.project_id, port.network_owner, is_shared=port.shared),
            pending_delete=port.status == PENDING_DELETE,
            tag=port.tag,
        )
        numbered_vifs.setdefault(port.instance_uuid, []).append((port.nic or 0, vif))
    return numbered_vifs


def _subnets(session: Session, network_ids: Collection[int]) -> dict[int, dict[int, VifSubnet]]:
    """Returns {row id of the network: {row id of the subnet: subnet}}, in their order."""
    subnets_by_network: dict[int, dict[int, VifSubnet]] = {}
    for chunk in chunked(sorted(network_ids)):
        for row in session.execute(_SUBNETS, {"some": chunk}):
            subnet = VifSubnet(
                id=row.uuid,
                cidr=row.cidr,
                gateway_ip=row.gateway_ip,
                enable_dhcp=row.enable_dhcp,
                dns_nameservers=tuple(filter(is_resolver, row.dns_nameservers)),
                host_routes=_ROUTES.from_builtins(row.host_routes) if row.host_routes else (),
                ipv6_mode=row.ipv6_address_mode or row.ipv6_ra_mode or "",
            )
            subnets_by_network.setdefault(row.network_id, {})[row.id] = subnet
    return subnets_by_network
