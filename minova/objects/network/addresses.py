"""The addresses of a subnet, and the order in which they are allocated. Pure; each refusal is an error with the field
and the reason.
"""

import ipaddress
import itertools
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TypeAlias

from minova import errors
from minova.objects.network.network import AUTOMATIC, AllocationPool

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Block: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

# Lengths of the prefix in bits: a shorter prefix is a mistake, a longer one has no space for a gateway and a guest.
PREFIXES = {4: (8, 30), 6: (16, 126)}
MAX_POOLS = 10
# Ranges in which a project may have subnets of local networks: no public host has an address there.
PRIVATE = tuple(
    ipaddress.ip_network(text)
    for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7")
)
# The shortest prefix in these ranges, so that one project does not take all private addresses.
LOCAL_PREFIXES = {4: 16, 6: 48}
# The first three bytes of generated MAC addresses, as in Neutron.
MAC_PREFIX = (0xFA, 0x16, 0x3E)
# Ranges in which no subnet and no resolver has addresses: each host has these addresses itself, or none has them.
OF_EACH_HOST = tuple(
    ipaddress.ip_network(text)
    for text in ("0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/3", "::/16", "fe80::/10", "ff00::/8")
)
_LINK_LOCAL = ipaddress.ip_network("fe80::/64")
_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")


def parse_cidr(text: str, ip_version: int) -> Block:
    """Raises BadRequest if the text is not valid."""
    try:
        block = ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise _invalid("cidr", text, "it is not a range such as 192.0.2.0/24 or 2001:db8::/64") from None
    if "%" in text:
        raise _invalid("cidr", text, "it has a zone")
    if "/" not in text:
        raise _invalid("cidr", text, "it has no prefix length, such as /24")
    if block.version != ip_version:
        raise _invalid("cidr", text, f"ip_version is {ip_version}")
    shortest, longest = PREFIXES[block.version]
    if not shortest <= block.prefixlen <= longest:
        raise _invalid("cidr", text, f"the prefix length may be from {shortest} to {longest}")
    if overlap(str(block), map(str, OF_EACH_HOST)) is not None:
        raise _invalid("cidr", text, "it has multicast, loopback, link-local, reserved or unspecified addresses")
    return block


def is_within(block: Block, ranges: Iterable[Block]) -> bool:
    return any(block.version == each.version and block.subnet_of(each) for each in ranges)  # type: ignore[arg-type]


def check_local_range(block: Block, *, limited: bool) -> None:
    """Checks the range that a project chooses for a local network. `limited`: only private ranges are allowed. Raises
    BadRequest.
    """
    if limited and not is_within(block, PRIVATE):
        ranges = ", ".join(str(each) for each in PRIVATE if each.version == block.version)
        raise _invalid("cidr", str(block), f"it is not private, and a local network's is in one of: {ranges}")
    shortest = LOCAL_PREFIXES[block.version]
    if block.prefixlen < shortest:
        raise _invalid("cidr", str(block), f"the prefix length of a local network's is {shortest} at least")


def parse_address(field: str, text: str, ip_version: int | None = None) -> Address:
    """Raises BadRequest."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        raise _invalid(field, text, "it is not an IP address") from None
    if isinstance(address, ipaddress.IPv6Address) and address.scope_id is not None:
        raise _invalid(field, text, "it has a zone")
    if ip_version is not None and address.version != ip_version:
        raise _invalid(field, text, f"it is not an IPv{ip_version} address")
    return address


def is_servable(prefix: int, mode: str) -> bool:
    """Whether hosts can advertise an IPv6 range of this prefix length in this mode: guests make the last 64 bits of an
    address themselves, and dnsmasq gives no addresses of larger ranges.
    """
    return prefix == 64 if mode in AUTOMATIC else prefix >= 64


def automatic_address(block: Block, mac: str) -> str:
    """Returns the address that a guest with this MAC address makes itself (EUI-64)."""
    numbers = [int(part, 16) for part in mac.split(":")]
    numbers[0] ^= 2
    identifier = int.from_bytes(bytes([*numbers[:3], 0xFF, 0xFE, *numbers[3:]]), "big")
    return str(block[identifier])


def link_local(mac: str) -> str:
    """Returns the link-local address that a guest makes from its MAC address."""
    return automatic_address(_LINK_LOCAL, mac)


def is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def is_resolver(text: str) -> bool:
    """Whether hosts may forward DNS requests to this address: not if they would ask themselves, or many."""
    return not is_within(ipaddress.ip_network(text), OF_EACH_HOST)


def parse_resolver(field: str, text: str, of_hosts: Collection[str]) -> str:
    """Returns the canonical address. `of_hosts`: addresses of hosts. Raises BadRequest."""
    address = str(parse_address(field, text))
    if not is_resolver(address) or address in of_hosts:
        raise _invalid(
            field, text, "a host would ask itself: it is loopback, link-local, multicast or a host's address"
        )
    return address


def parse_range(field: str, text: str) -> str:
    """Returns an address or a range in its shortest form. Raises BadRequest."""
    try:
        block = ipaddress.ip_network(text)
    except ValueError:
        raise _invalid(field, text, "it is not an address or range such as 192.0.2.0/28") from None
    if "%" in text:
        raise _invalid(field, text, "it has a zone")
    return str(block.network_address) if block.prefixlen == block.max_prefixlen else str(block)


def parse_mac(text: str) -> str:
    """Returns the address in lower case. Raises BadRequest."""
    mac = text.lower().replace("-", ":")
    if not _MAC.fullmatch(mac) or mac == "00:00:00:00:00:00":
        raise _invalid("mac_address", text, "it is not a MAC address such as fa:16:3e:00:00:01")
    if int(mac[:2], 16) & 1:
        raise _invalid("mac_address", text, "it is a group address")
    return mac


def mac_of(number: int) -> str:
    """Returns the MAC address with the prefix of this cloud and the 24 lowest bits of `number`."""
    low = ((number >> shift) & 0xFF for shift in (16, 8, 0))
    return ":".join(f"{byte:02x}" for byte in (*MAC_PREFIX, *low))


def usable(block: Block) -> tuple[int, int]:
    """Returns the first and last address that a host may have: without the addresses of the network
    and the broadcast.
    """
    first, last = int(block.network_address), int(block.broadcast_address)
    return first + 1, (last - 1 if block.version == 4 else last)


def default_gateway(block: Block) -> str:
    return str(block[1])


def default_pools(block: Block, gateway: str | None) -> tuple[AllocationPool, ...]:
    """Returns pools of every usable address except the gateway."""
    first, last = usable(block)
    if gateway is None:
        return (_pool(first, last, block.version),)
    at = int(ipaddress.ip_address(gateway))
    ranges = [(first, min(at - 1, last)), (max(at + 1, first), last)]
    return tuple(_pool(start, end, block.version) for start, end in ranges if start <= end)


def check_gateway(block: Block, text: str) -> str:
    """Returns the canonical address. Raises BadRequest if it is outside the subnet."""
    gateway = parse_address("gateway_ip", text, block.version)
    first, last = usable(block)
    if not first <= int(gateway) <= last:
        raise _invalid("gateway_ip", text, f"it is no address of a host in {block}")
    return str(gateway)


def check_pools(block: Block, pools: Iterable[AllocationPool], gateway: str | None) -> tuple[AllocationPool, ...]:
    """Returns the pools sorted and canonical. Raises BadRequest if one is not in the subnet,
    Conflict if pools overlap.
    """
    first, last = usable(block)
    ranges = []
    for pool in pools:
        start = int(parse_address("allocation_pools", pool.start, block.version))
        end = int(parse_address("allocation_pools", pool.end, block.version))
        pool_text = f"{pool.start}-{pool.end}"
        if start > end:
            raise _invalid("allocation_pools", pool_text, "it ends before it starts")
        if start < first or end > last:
            raise _invalid("allocation_pools", pool_text, f"it has addresses that no host in {block} may have")
        ranges.append((start, end))
    if len(ranges) > MAX_POOLS:
        raise errors.BadRequest(f"Invalid input for allocation_pools: there may be {MAX_POOLS}.")
    ranges.sort()
    for (_, end), (start, _) in itertools.pairwise(ranges):
        if start <= end:
            raise errors.OverlappingAllocationPools(f"Allocation pools of {block} overlap.")
    canonical_pools = tuple(_pool(start, end, block.version) for start, end in ranges)
    if gateway is not None and in_pools(canonical_pools, gateway):
        raise errors.GatewayConflictWithAllocationPools(f"Gateway ip {gateway} is in an allocation pool of {block}.")
    return canonical_pools


def size(pools: Iterable[AllocationPool]) -> int:
    """Returns the number of addresses of the pools."""
    return sum(end - start + 1 for start, end in _ranges(pools))


def in_pools(pools: Iterable[AllocationPool], address: str) -> bool:
    at = int(ipaddress.ip_address(address))
    return any(start <= at <= end for start, end in _ranges(pools))


def check_fixed(cidr: str, gateway: str | None, text: str) -> str:
    """Returns the canonical address if a port may have it. Raises BadRequest, or IpAddressInUse for the gateway's
    address.
    """
    block = ipaddress.ip_network(cidr)
    address = parse_address("ip_address", text)
    first, last = usable(block)
    if address.version != block.version or not first <= int(address) <= last:
        raise errors.InvalidIpForSubnet(f"IP address {text} is not a valid IP for subnet {cidr}.")
    if gateway is not None and address == ipaddress.ip_address(gateway):
        raise errors.IpAddressAlreadyAllocated(f"IP address {address} is the gateway of subnet {cidr}.")
    return str(address)


def contains(cidr: str, address: str) -> bool:
    block, ip = ipaddress.ip_network(cidr), ipaddress.ip_address(address)
    return ip.version == block.version and ip in block


def overlap(cidr: str, others: Iterable[str]) -> str | None:
    """Returns the first of `others` that has an address of `cidr`."""
    block = ipaddress.ip_network(cidr)
    for other in others:
        that = ipaddress.ip_network(other)
        if that.version == block.version and block.overlaps(that):
            return other
    return None


def candidates_after(pools: Sequence[AllocationPool], last: str | None, count: int) -> list[str]:
    """Returns up to `count` addresses after `last`, in a cycle, so that a released address is not allocated again at
    once.
    """
    ranges = _ranges(pools)
    if not ranges:
        return []
    version = ipaddress.ip_address(pools[0].start).version
    begin = ranges[0][0] if last is None else int(ipaddress.ip_address(last)) + 1
    upper_ranges = [(max(start, begin), end) for start, end in ranges if end >= begin]
    early = [(start, min(end, begin - 1)) for start, end in ranges if start < begin]
    return [_text(at, version) for at, _ in zip(_each([*upper_ranges, *early]), range(count), strict=False)]


def first_free(pools: Sequence[AllocationPool], taken: Collection[str]) -> str | None:
    """Returns None if the pools are exhausted. It checks at most one address more than are taken."""
    if not pools:
        return None
    version = ipaddress.ip_address(pools[0].start).version
    return next((text for at in _each(_ranges(pools)) if (text := _text(at, version)) not in taken), None)


def _each(ranges: Iterable[tuple[int, int]]) -> Iterator[int]:
    for start, end in ranges:
        yield from range(start, end + 1)


def _ranges(pools: Iterable[AllocationPool]) -> list[tuple[int, int]]:
    return [(int(ipaddress.ip_address(pool.start)), int(ipaddress.ip_address(pool.end))) for pool in pools]


def _pool(start: int, end: int, version: int) -> AllocationPool:
    return AllocationPool(start=_text(start, version), end=_text(end, version))


def _text(at: int, version: int) -> str:
    return str(ipaddress.IPv4Address(at) if version == 4 else ipaddress.IPv6Address(at))


def _invalid(field: str, value: str, why: str) -> errors.BadRequest:
    return errors.BadRequest(f"Invalid input for {field}. Reason: '{value[:64]}' is not valid: {why}.")
