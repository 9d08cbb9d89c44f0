"""The addresses of ports: requested ones, the next free ones, and those that guests make themselves. The network is locked."""

import ipaddress
from collections.abc import Collection, Sequence

from sqlalchemy.orm import Session
from sqlalchemy.orm.attributes import set_committed_value

from minova import errors
from minova.db.models import Network as NetworkRow
from minova.db.models import Subnet as SubnetRow
from minova.db.networks import ports, subnets
from minova.db.networks.networks import LockedNetwork
from minova.db.sql import chunked
from minova.objects.network import addresses
from minova.objects.network.network import AUTOMATIC, MAX_ADDRESSES, AddressRequest

# Addresses to check in one query before all taken ones are read.
WINDOW = 16
Requests = Sequence[AddressRequest]
# Row id of the subnet, and the address.
Given = tuple[int, str]


def change_addresses(session: Session, port_id: int, network: NetworkRow, fixed_ips: Requests | None, mac: str) -> None:
    """Give the port these addresses, and take the others from it. None: those that do not follow from its MAC address
    stay.
    """
    every, before = subnets.of_network(session, network.id), ports.addresses_of_port(session, port_id)
    if fixed_ips is None:
        kept_subnets = {row.id for row in every if not _is_automatic(row)}
        fixed_ips = [AddressRequest(ip_address=address) for subnet_id, address in before if subnet_id in kept_subnets]
    after = choose(session, network, every, fixed_ips, mac, before)
    ports.give_back(session, port_id, set(before) - set(after))
    ports.allocate_several(session, {port_id: [address for address in after if address not in before]})


def serving(network: LockedNetwork, owner: str) -> LockedNetwork:
    """Returns the network with the subnets for ports of this owner, those first that name it.

    Raises IpAddressGenerationFailureNoMatchingSubnet if all subnets are for others.
    """
    fitting = [row for row in network.subnets if not row.service_types or owner in row.service_types]
    if network.subnets and not fitting:
        raise errors.IpAddressGenerationFailureNoMatchingSubnet(
            f"No valid service subnet for the given device owner, network {network.row.uuid}, service type {owner}."
        )
    return LockedNetwork(network.row, sorted(fitting, key=lambda row: not row.service_types))


def choose_several(
    session: Session, network: LockedNetwork, count: int, others: Collection[Given]
) -> list[list[Given]]:
    """Returns for each of `count` ports the next free address of each IP version, but none of `others`."""
    addresses_by_port: list[list[Given]] = [[] for _ in range(count)]
    every = [row for row in network.subnets if not _is_automatic(row)]
    for version in sorted({row.ip_version for row in every}) if count else ():
        free: list[Given] = []
        for row in every:
            if row.ip_version == version and len(free) < count:
                free += [(row.id, address) for address in _next_several(session, row, count - len(free), others)]
        if len(free) < count:
            raise _no_address(network.row)
        for addresses_of_port, address in zip(addresses_by_port, free, strict=True):
            addresses_of_port.append(address)
    return addresses_by_port


def _next_several(session: Session, row: SubnetRow, count: int, others: Collection[Given]) -> list[str]:
    """Returns up to `count` free addresses."""
    pools = subnets.pools_of(row)
    window = addresses.candidates_after(pools, row.last_address, count + WINDOW)
    used = {address for chunk in chunked(window) for address in ports.taken_among(session, row.id, chunk)}
    used |= {address for subnet_id, address in others if subnet_id == row.id}
    free = [address for address in window if address not in used][:count]
    if len(free) < count and len(window) == count + WINDOW:
        every = {*ports.taken_addresses(session, row.id), *used, *free}
        while len(free) < count and (address := addresses.first_free(pools, every)) is not None:
            every.add(address)
            free.append(address)
    if free:
        _note_last(session, row, free[-1])
    return free


def _note_last(session: Session, row: SubnetRow, address: str) -> None:
    """Record the address: the next search begins after it."""
    ports.note_last(session, row.id, address)
    set_committed_value(row, "last_address", address)  # otherwise the session would write it again


def _no_address(network: NetworkRow) -> errors.IpAddressGenerationFailure:
    return errors.IpAddressGenerationFailure(f"No more IP addresses available on network {network.uuid}.")


def choose(
    session: Session,
    network: NetworkRow,
    every: Sequence[SubnetRow],
    requests: Requests,
    mac: str,
    own: Sequence[Given] = (),
    others: Sequence[Given] = (),
) -> list[Given]:
    """Returns the addresses of a port on a locked network with these subnets: those that it requests, and, as in Neutron,
    those that its guest makes itself. Raises BadRequest if there are too many.

    `own`: the addresses that the port has, and may keep.
    `others`: the addresses that other ports get in this transaction.
    """
    if len(requests) > MAX_ADDRESSES:
        raise errors.BadRequest(f"Invalid input for fixed_ips. Reason: a port may have {MAX_ADDRESSES} addresses.")
    chosen: list[Given] = []
    made_by_guest = automatic(every, mac)
    for request in requests:
        among = every if request.subnet_id is None else [_subnet(network, every, request.subnet_id)]
        if request.ip_address is not None:
            fixed = _fixed(session, network, among, request, made_by_guest, own, [*chosen, *others])
            chosen += [fixed] if fixed not in made_by_guest else []
        elif request.subnet_id is None or not _is_automatic(among[0]):
            by_choice = [row for row in among if not _is_automatic(row)]
            chosen.append(_next_of(session, network, by_choice, [*chosen, *others]))
    return [*chosen, *made_by_guest]


def _is_automatic(row: SubnetRow) -> bool:
    """Whether guests make their addresses in the subnet themselves."""
    return (row.ipv6_address_mode or row.ipv6_ra_mode) in AUTOMATIC


def automatic(every: Sequence[SubnetRow], mac: str) -> list[Given]:
    """Returns the addresses that a guest with this MAC address makes itself in these subnets."""
    return [
        (row.id, addresses.automatic_address(ipaddress.ip_network(row.cidr), mac))
        for row in every
        if _is_automatic(row)
    ]


def _next_of(session: Session, network: NetworkRow, among: Sequence[SubnetRow], chosen: Sequence[Given]) -> Given:
    """Returns the next free address of the first subnet that has one."""
    for row in among:
        address = _next_free(session, row, {address for subnet_id, address in chosen if subnet_id == row.id})
        if address is not None:
            _note_last(session, row, address)
            return row.id, address
    raise _no_address(network)


def _next_free(session: Session, row: SubnetRow, chosen: set[str]) -> str | None:
    pools = subnets.pools_of(row)
    window = addresses.candidates_after(pools, row.last_address, WINDOW)
    used = chosen | ports.taken_among(session, row.id, window)
    near = next((address for address in window if address not in used), None)
    if near is not None or len(window) < WINDOW:
        return near
    return addresses.first_free(pools, chosen | {*ports.taken_addresses(session, row.id)})


def _fixed(
    session: Session,
    network: NetworkRow,
    among: Sequence[SubnetRow],
    request: AddressRequest,
    made_by_guest: Sequence[Given],
    own: Sequence[Given],
    chosen: Sequence[Given],
) -> Given:
    text = str(request.ip_address)
    if request.subnet_id is not None:
        row = among[0]
    else:
        address = str(addresses.parse_address("ip_address", text))
        matching = [row for row in among if addresses.contains(row.cidr, address)]
        if not matching:
            raise errors.InvalidIpForNetwork(
                f"IP address {text} is not a valid IP for any of the subnets of the network."
            )
        row = matching[0]
    fixed_address = (row.id, addresses.check_fixed(row.cidr, row.gateway_ip, text))
    if _is_automatic(row):
        if fixed_address in made_by_guest:
            return fixed_address
        raise errors.AllocationOnAutoAddressSubnet(
            f"IPv6 address {fixed_address[1]} cannot be directly assigned to a port on subnet {row.uuid} as the subnet is configured "
            "for automatic addresses"
        )
    if fixed_address in chosen or (fixed_address not in own and ports.taken_among(session, row.id, [fixed_address[1]])):
        raise errors.IpAddressAlreadyAllocated(f"IP address {fixed_address[1]} already allocated in subnet {row.uuid}.")
    return fixed_address


def _subnet(network: NetworkRow, every: Sequence[SubnetRow], subnet_id: str) -> SubnetRow:
    for row in every:
        if row.uuid == subnet_id:
            return row
    raise errors.BadRequest(
        f"Invalid input for fixed_ips. Reason: subnet {subnet_id[:64]} is not a subnet of network {network.uuid}."
    )
