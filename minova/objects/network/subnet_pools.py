"""Subnet pools, and which range of a pool a new subnet gets. Pure; each refusal has Neutron's words."""

import ipaddress
from collections.abc import Iterable, Sequence
from datetime import datetime

import msgspec

from minova import errors
from minova.objects.network.addresses import PREFIXES, Block

# By IP version: the length of an address, the shortest prefix unless the pool names one, and the prefix length of one
# unit of `default_quota`.
BITS, SHORTEST, UNIT = {4: 32, 6: 128}, {4: 8, 6: 64}, {4: 32, 6: 64}
MAX_PREFIXES = 100


class SubnetPool(msgspec.Struct, frozen=True, kw_only=True):
    """`default_quota`: how many addresses (IPv4) or ranges of /64 (IPv6) a project may have of the pool. None: no limit.

    `is_default`: subnets that ask for the default pool of its IP version get ranges of it.
    """

    id: str
    name: str = ""
    description: str = ""
    project_id: str
    prefixes: tuple[str, ...]
    ip_version: int
    default_prefixlen: int
    min_prefixlen: int
    max_prefixlen: int
    default_quota: int | None = None
    is_default: bool = False
    shared: bool = False
    revision_number: int = 1
    created_at: datetime | None = None
    updated_at: datetime | None = None

    def usable_by(self, project_id: str, *, is_admin: bool) -> bool:
        return is_admin or self.shared or self.project_id == project_id


def parse_prefixes(texts: Sequence[str]) -> tuple[tuple[str, ...], int]:
    """Returns the prefixes, joined where they overlap or meet, and their IP version. Raises BadRequest."""
    if not texts:
        raise errors.BadRequest("Empty subnet pool prefix list.")
    if len(texts) > MAX_PREFIXES:
        raise errors.BadRequest(f"Invalid input for prefixes. Reason: a subnet pool has {MAX_PREFIXES} at most.")
    blocks = [_parse(text) for text in texts]
    versions = {block.version for block in blocks}
    if len(versions) > 1:
        raise errors.BadRequest("Cannot mix IPv4 and IPv6 prefixes in a subnet pool.")
    joined = ipaddress.collapse_addresses(blocks)  # type: ignore[type-var]
    return tuple(map(str, joined)), versions.pop()


def _parse(text: str) -> Block:
    try:
        block = ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise errors.BadRequest(
            f"Invalid input for prefixes. Reason: '{text[:64]}' is not a valid IP subnet."
        ) from None
    if "%" in text:
        raise errors.BadRequest("Invalid input for prefixes. Reason: an address has a zone.")
    return block


def check_lengths(ip_version: int, shortest: int, longest: int, default: int) -> None:
    """Raises BadRequest unless the prefix lengths of the pool are in order."""
    bounds = (
        ("min_prefixlen", shortest, "max_prefixlen", longest, shortest <= longest),
        ("max_prefixlen", longest, "ip_version_max", BITS[ip_version], longest <= BITS[ip_version]),
        ("default_prefixlen", default, "min_prefixlen", shortest, default >= shortest),
        ("default_prefixlen", default, "max_prefixlen", longest, default <= longest),
    )
    for name, length, base, bound, is_fine in bounds:
        if not is_fine:
            raise errors.BadRequest(f"Illegal prefix bounds: {name}={length}, {base}={bound}.")


def require_prefixes(pool: SubnetPool, prefixes: Iterable[str]) -> None:
    """Raises BadRequest if a range of the pool is in none of these prefixes: prefixes can only be added."""
    after = [ipaddress.ip_network(text) for text in prefixes]
    for text in pool.prefixes:
        block = ipaddress.ip_network(text)
        if not any(block.version == each.version and block.subnet_of(each) for each in after):  # type: ignore[arg-type]
            raise errors.BadRequest(
                "Illegal update to prefixes: Existing prefixes must be a subset of the new prefixes."
            )


def check_length(pool: SubnetPool, length: int) -> None:
    """Raises BadRequest if the pool gives no ranges of this prefix length, or a subnet cannot have it."""
    if length < pool.min_prefixlen:
        raise errors.BadRequest(
            f"Unable to allocate subnet with prefix length {length}, minimum allowed prefix is {pool.min_prefixlen}."
        )
    if length > pool.max_prefixlen:
        raise errors.BadRequest(
            f"Unable to allocate subnet with prefix length {length}, maximum allowed prefix is {pool.max_prefixlen}."
        )
    shortest, longest = PREFIXES[pool.ip_version]
    if not shortest <= length <= longest:
        raise errors.BadRequest(
            f"Invalid input for prefixlen. Reason: the prefix length of a subnet may be from {shortest} to {longest}."
        )


def units(cidr: str) -> float:
    """Returns what the range takes of `default_quota`; a range smaller than a unit takes a part of it."""
    block = ipaddress.ip_network(cidr)
    return float(2.0 ** (UNIT[block.version] - block.prefixlen))


def free_range(pool: SubnetPool, length: int, taken: Iterable[str]) -> str | None:
    """Returns the first free range of this prefix length in the smallest free block that has one, as Neutron chooses it.
    None: there is none.
    """
    fitting = [block for block in _free(pool, taken) if block.prefixlen <= length]
    if not fitting:
        return None
    best = max(fitting, key=lambda block: (block.prefixlen, -int(block.network_address)))
    return str(next(best.subnets(new_prefix=length)))


def is_free(pool: SubnetPool, cidr: str, taken: Iterable[str]) -> bool:
    """Whether the range is in the pool, and free."""
    network = ipaddress.ip_network(cidr)
    return any(network.version == block.version and network.subnet_of(block) for block in _free(pool, taken))  # type: ignore[arg-type]


def _free(pool: SubnetPool, taken: Iterable[str]) -> list[Block]:
    """Returns the free blocks of the pool, as large as possible."""
    used = sorted((ipaddress.ip_network(text) for text in taken), key=lambda block: int(block.network_address))
    free_blocks: list[Block] = []
    for text in pool.prefixes:
        prefix = ipaddress.ip_network(text)
        at, end = int(prefix.network_address), int(prefix.broadcast_address)
        for block in used:
            first, last = int(block.network_address), int(block.broadcast_address)
            if last < at or first > end:
                continue
            free_blocks += _blocks(at, first - 1, prefix.version)
            at = last + 1
        free_blocks += _blocks(at, end, prefix.version)
    return free_blocks


def _blocks(first: int, last: int, version: int) -> list[Block]:
    """Returns the blocks that make up the addresses from `first` to `last`, both included."""
    if first > last:
        return []
    address = ipaddress.IPv4Address if version == 4 else ipaddress.IPv6Address
    return list(ipaddress.summarize_address_range(address(first), address(last)))
