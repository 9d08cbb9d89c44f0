"""Ports. Each has its MAC address and its IP addresses from the transaction that writes it.

Every transaction locks in one order: ports, networks, security groups, usages. So there are no deadlocks.
"""

import random
from collections import Counter, deque
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from typing import NamedTuple

import msgspec
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from minova import errors
from minova.concurrency.batch_queue import BatchQueue, QueuedRequest
from minova.conductor.network.interface_notifier import InterfaceNotifier
from minova.conductor.network.networks import not_found as not_found_network
from minova.conductor.network.networks import require
from minova.conductor.network.port_addresses import (
    Given,
    Requests,
    automatic,
    change_addresses,
    choose,
    choose_several,
    serving,
)
from minova.conductor.network.revisions import changed, require_revision
from minova.conductor.network.security.security_groups import SecurityGroups, lock_for_ports, lock_groups
from minova.conductor.quotas import Quotas, refused
from minova.conductor.tasks.worker import TaskWorker
from minova.context import RequestContext
from minova.contracts.conductor.api.networks import PortsApi
from minova.contracts.conductor.computes.interfaces import HostInterfacesApi
from minova.db.models import Network as NetworkRow
from minova.db.models import Port as PortRow
from minova.db.models import SecurityGroup as GroupRow
from minova.db.models.networks import PENDING_DELETE
from minova.db.networks import networks, ports, security_groups, tags, vifs
from minova.db.networks.networks import LockedNetwork
from minova.db.networks.vif_rules import pairs_of
from minova.db.quotas import OverQuota, give
from minova.db.sql import chunked
from minova.objects.network import addresses
from minova.objects.network.network import MAX_GROUPS, FixedIp, NewPort, Port
from minova.objects.network.vif import Vif
from minova.races import Race, Races, repeat_lost

# Tries to find a free MAC address.
MAC_TRIES = 16
# MAC addresses to check in one query, for this port and for later ones.
MACS = 64
# Another transaction has just taken the same MAC address. The next try chooses another random one, or refuses the requested one.
MAC_TAKEN = Race(IntegrityError, tries=3)
# The most hosts whose interfaces are read together.
MAX_HOSTS = 16


class PortCreation(NamedTuple):
    """A port to be made.

    `ctx`: the context of the request.
    `fixed_ips`: None: the next free addresses.
    `nic`: the number of the interface, if the port is made for the server that is its device.
    `tags`: of the port.
    """

    ctx: RequestContext
    port: Port
    fixed_ips: Requests | None = None
    nic: int | None = None
    tags: tuple[str, ...] = ()

    def is_secured(self, network: NetworkRow) -> bool:
        """Whether the port has port security. The port of a server has it unless its network has it not."""
        return self.port.port_security_enabled and (self.nic is None or network.port_security_enabled)

    def has_default(self, network: NetworkRow) -> bool:
        """Whether the port gets the default group of its project."""
        return self.port.security_groups is None and self.is_secured(network)


class LockedForPorts(NamedTuple):
    """Locked rows: networks and groups by their ids."""

    networks: Mapping[str, LockedNetwork]
    groups: Mapping[str, GroupRow]

    def network_of(self, new: PortCreation) -> NetworkRow:
        return self.networks[new.port.network_id].row

    def groups_of(self, new: PortCreation) -> list[GroupRow]:
        """Returns the groups of a new port."""
        port = new.port
        if new.has_default(self.network_of(new)):
            return [row for row in self.groups.values() if row.default_of == port.project_id]
        return sorted((self.groups[uuid] for uuid in set(_named_groups(port))), key=lambda row: row.id)


def _named_groups(port: Port) -> tuple[str, ...]:
    """Raises BadRequest if there are too many groups."""
    group_names = port.security_groups or ()
    if len(group_names) > MAX_GROUPS:
        raise errors.BadRequest(f"Invalid input for security_groups. Reason: a port may have {MAX_GROUPS}.")
    return group_names


class Ports(PortsApi, HostInterfacesApi):
    def __init__(self, worker: TaskWorker, quotas: Quotas, groups: SecurityGroups, hints: InterfaceNotifier) -> None:
        self._worker = worker
        self._quotas = quotas
        self._groups = groups
        self._hints = hints
        # Safe for threads.
        self._free_macs: deque[str] = deque()
        self._hosts: BatchQueue[str, dict[str, tuple[Vif, ...]]] = BatchQueue(self._read_hosts, MAX_HOSTS)

    def read(self) -> AbstractContextManager[Session]:
        return self._worker.db.read()

    def interfaces_of_host(self, ctx: RequestContext, host: str) -> dict[str, tuple[Vif, ...]]:
        """Simultaneous calls share one query: when a group has a new member, the hosts of all its members call at the
        same time, and each needs all members.
        """
        return self._hosts.ask(host)

    def _read_hosts(self, queued: Sequence[QueuedRequest[str, dict[str, tuple[Vif, ...]]]]) -> None:
        with self._worker.db.read() as session:
            by_host = vifs.of_hosts(session, {entry.request for entry in queued})
        for entry in queued:
            entry.served(by_host[entry.request])

    def create_port(self, ctx: RequestContext, port: Port, fixed_ips: Requests | None) -> Port:
        return self._create([PortCreation(ctx, port, fixed_ips)])[0]

    def create_ports(self, ctx: RequestContext, ports: tuple[NewPort, ...]) -> tuple[Port, ...]:
        return tuple(self._create([PortCreation(ctx, each.port, each.fixed_ips, tags=each.tags) for each in ports]))

    def _create(self, new: Sequence[PortCreation]) -> list[Port]:
        for each in new:
            _check_security(each.port)
        races: Races = [self._groups.race, self._quotas.race, MAC_TAKEN]
        try:
            created = repeat_lost(lambda: self._worker.run(lambda session: self._create_all(session, new)), races)
        except OverQuota as error:
            raise refused(error) from None
        self._hints.members_changed({group for port in created for group in port.security_groups or ()})
        return created

    def _create_all(self, session: Session, new: Sequence[PortCreation]) -> list[Port]:
        locked = self.lock(session, new)
        counts = Counter(each.port.project_id for each in new)
        for project_id, count in sorted(counts.items()):
            self._quotas.take(session, project_id, {"ports": count})
        return self.add(session, new, locked)

    def lock(self, session: Session, new: Sequence[PortCreation], network_ids: Collection[str] = ()) -> LockedForPorts:
        """Locks and returns what these ports need, and these networks. Can lose `SecurityGroups.race`.

        Raises NetworkNotFound, SecurityGroupNotFound, and BadRequest if a port has too many groups.
        """
        network_uuids = {*network_ids, *(each.port.network_id for each in new)}
        locked = networks.lock_several(session, network_uuids)
        for missing in sorted(network_uuids - locked.keys()):
            raise not_found_network(missing)
        for each in new:
            _check_groups(each, locked[each.port.network_id].row)
        projects = {each.port.project_id for each in new if each.has_default(locked[each.port.network_id].row)}
        group_ids = {group for each in new for group in _named_groups(each.port)}
        return LockedForPorts(locked, lock_for_ports(session, group_ids, projects))

    def add(self, session: Session, new: Sequence[PortCreation], locked: LockedForPorts) -> list[Port]:
        """Writes the ports in the transaction of the caller, which has taken the quota. The number of statements is the
        same as for one port.
        """
        macs = self._macs(session, [each.port.mac_address for each in new])
        addresses_by_port = _choose_all(session, new, locked, macs)
        groups = [locked.groups_of(each) for each in new]
        names = {row.id: row.uuid for network in locked.networks.values() for row in network.subnets}
        at = self._worker.at()
        created = [
            msgspec.structs.replace(
                each.port,
                mac_address=mac,
                fixed_ips=tuple(
                    FixedIp(subnet_id=names[subnet_id], ip_address=address) for subnet_id, address in sorted(addresses)
                ),
                security_groups=tuple(row.uuid for row in rows),
                port_security_enabled=each.is_secured(locked.network_of(each)),
                network_owner=locked.network_of(each).project_id,
                revision_number=1,
                created_at=at,
                updated_at=at,
            )
            for each, mac, addresses, rows in zip(new, macs, addresses_by_port, groups, strict=True)
        ]
        rows_of_networks = [locked.network_of(each).id for each in new]
        ids = ports.add_several(session, created, rows_of_networks, [each.nic for each in new])
        tags.add(session, {each.port.id: each.tags for each in new})
        ports.allocate_several(session, dict(zip(ids, addresses_by_port, strict=True)))
        security_groups.give_to_ports(
            session, {port_id: [row.id for row in rows] for port_id, rows in zip(ids, groups, strict=True)}
        )
        return created

    def _macs(self, session: Session, requested: Sequence[str]) -> list[str]:
        """Returns these addresses, with free ones in place of empty ones. Raises MacAddressInUse."""
        _require_free_macs(session, [mac for mac in requested if mac])
        return [mac or self._free_mac(session) for mac in requested]

    def _free_mac(self, session: Session) -> str:
        """The address is not secret: it must only be unlikely that two transactions choose the same one. They would get
        IntegrityError.
        """
        with suppress(IndexError):
            return self._free_macs.pop()
        for _ in range(MAC_TRIES):
            tries = {addresses.mac_of(random.getrandbits(24)) for _ in range(MACS)}
            self._free_macs.extend(sorted(tries - ports.macs_among(session, sorted(tries))))
            with suppress(IndexError):
                return self._free_macs.pop()
        raise errors.ServiceUnavailable("No free MAC addresses were found. Please try again.")

    def lock_groups(self, session: Session, port: Port) -> list[int]:
        """Returns the row ids of the groups that the port names. Raises the same errors as `lock`."""
        return sorted(row.id for row in lock_groups(session, set(_named_groups(port))).values())

    def update_port(self, ctx: RequestContext, port: Port, fixed_ips: Requests | None) -> Port:
        """Addresses that are not requested again are released."""
        _check_security(port)
        changed_groups: set[str] = set()

        def work(session: Session) -> Port:
            row = ports.lock(session, port.id)
            if row is None or row.status == PENDING_DELETE:
                raise not_found(port.id)
            network = require(session, port.network_id)
            before_groups = security_groups.of_ports(session, [row.id]).get(row.id, [])
            if port.security_groups is not None:
                groups = self.lock_groups(session, port)
                changed_groups.update({uuid for _, uuid in before_groups} ^ set(port.security_groups))
                security_groups.take_from_ports(session, [row.id])
                security_groups.give_to_ports(session, {row.id: groups})
            if fixed_ips is not None or port.allowed_address_pairs != pairs_of(row):
                changed_groups.update(uuid for _, uuid in before_groups)
            if row.instance_uuid is not None:
                _require_changeable(row, port)
            has_other_mac = row.mac_address != port.mac_address
            if has_other_mac:
                _require_free_macs(session, [port.mac_address])
            if not ports.replace(session, port, self._worker.at()):
                raise changed("port", port.id)
            if fixed_ips is not None or has_other_mac:
                change_addresses(session, row.id, network, fixed_ips, port.mac_address)
            updated = ports.find(session, port.id)
            assert updated is not None
            return updated

        updated = repeat_lost(lambda: self._worker.run(work), [MAC_TAKEN])
        self._hints.members_changed(changed_groups, [updated.host] if updated.host else [])
        return updated

    def server_of(self, port_id: str) -> str | None:
        """Returns the server that has the port; None if no server has it or there is no such port."""
        with self._worker.db.read() as session:
            return ports.server_of(session, port_id)

    def delete(self, port_id: str, revision: int | None = None) -> None:
        """Delete the port and free its addresses. Raises PortInUse if a server has it, PreconditionFailed if it has another
        revision.
        """

        def work(session: Session) -> list[str]:
            row = ports.lock(session, port_id)
            if row is None:
                raise not_found(port_id)
            if row.instance_uuid is not None:
                raise in_use(port_id)
            require_revision(row, revision)
            project_id = row.project_id
            groups = [uuid for _, uuid in security_groups.of_ports(session, [row.id]).get(row.id, ())]
            ports.remove(session, row.id)
            give(session, project_id, {"ports": 1})
            return groups

        self._hints.members_changed(self._worker.run(work))


def _require_free_macs(session: Session, requested: Sequence[str]) -> None:
    """Raises MacAddressInUse if a port has one of these addresses, or one of them is requested twice."""
    used = {mac for chunk in chunked(requested) for mac in ports.macs_among(session, chunk)}
    used |= {mac for mac, count in Counter(requested).items() if count > 1}
    for mac in requested:
        if mac in used:
            raise errors.MacAddressInUse(f"MAC address {mac} is in use by another port.")


def _check_security(port: Port) -> None:
    """Raises a Conflict if the port has groups or address pairs without port security."""
    if port.port_security_enabled:
        return
    if port.security_groups:
        raise errors.PortSecurityPortHasSecurityGroup(
            "Port has security group associated. Cannot disable port security or IP address until security group is removed."
        )
    if port.allowed_address_pairs:
        raise errors.AddressPairAndPortSecurityRequired(
            "Port Security must be enabled in order to have allowed address pairs on a port."
        )


def _check_groups(new: PortCreation, network: NetworkRow) -> None:
    """Raises BadRequest if a server wants security groups on a network whose ports have no port security."""
    if new.port.security_groups and not new.is_secured(network) and new.port.port_security_enabled:
        raise errors.BadRequest(
            "Network requires port_security_enabled and subnet associated in order to apply security groups."
        )


def not_found(port_id: str) -> errors.PortNotFound:
    return errors.PortNotFound(f"Port {port_id} could not be found.")


def require_free(row: PortRow) -> None:
    """Raises PortInUse if a server has the port, or if a user has set another device in it. Nova checks the same."""
    if row.instance_uuid is not None or row.device_id:
        raise errors.PortInUse(f"Port {row.uuid} is still in use.")


def in_use(port_id: str) -> errors.PortInUse:
    return errors.PortInUse(f"Port {port_id} is in use by a server: delete the server first.")


def _require_changeable(row: PortRow, port: Port) -> None:
    """Checks an update of a port that a server has. Raises PortBound or PortInUse if it changes what the guest uses."""
    if row.mac_address != port.mac_address:
        raise errors.PortBound(
            f"Unable to complete operation on port {port.id}, port is already bound, port type: bridge, "
            f"old_mac {row.mac_address}, new_mac {port.mac_address}."
        )
    if (row.device_id, row.device_owner) != (port.device_id, port.device_owner):
        raise errors.PortInUse(f"Port {port.id} is in use by a server: detach it from the server first.")


def _choose_all(
    session: Session, new: Sequence[PortCreation], locked: LockedForPorts, macs: Sequence[str]
) -> list[list[Given]]:
    """Returns the addresses of the new ports, in their order. Ports that request certain addresses choose first."""
    addresses_by_number: dict[int, list[Given]] = {}
    taken_addresses: list[Given] = []
    for number, each in enumerate(new):
        if each.fixed_ips is not None:
            network = locked.networks[each.port.network_id]
            addresses_by_number[number] = choose(
                session, network.row, network.subnets, each.fixed_ips, macs[number], others=taken_addresses
            )
            taken_addresses += addresses_by_number[number]
    alike: dict[tuple[str, str], list[int]] = {}
    for number, each in enumerate(new):
        if each.fixed_ips is None:
            alike.setdefault((each.port.network_id, each.port.device_owner), []).append(number)
    for (network_id, owner), numbers in alike.items():
        network = locked.networks[network_id]
        chosen = choose_several(session, serving(network, owner), len(numbers), taken_addresses)
        taken_addresses += [address for of_port in chosen for address in of_port]
        for number, addresses_of_port in zip(numbers, chosen, strict=True):
            addresses_by_number[number] = [*addresses_of_port, *automatic(network.subnets, macs[number])]
    return [addresses_by_number[number] for number in range(len(new))]
