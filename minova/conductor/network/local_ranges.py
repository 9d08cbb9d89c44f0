"""The ranges that subnets of `local` networks may have.

A network has a namespace of its own on each host, so its ranges may be any. Exclusive ranges are those of reachable
networks: hosts have routes to them. While a host of a release without namespaces runs, all local networks have
exclusive ranges.
"""

import ipaddress
from collections.abc import Callable, Collection, Mapping, Sequence

from sqlalchemy.orm import Session

from minova import errors
from minova.contracts.base import numbers
from minova.contracts.compute import ComputeApi
from minova.db.hosts import compute_nodes
from minova.db.models import Network as NetworkRow
from minova.db.networks import networks, subnets
from minova.objects.network import addresses

# The version of the compute contract since which hosts give each local network a namespace.
NAMESPACES = "1.4"


class LocalRanges:
    def __init__(self, levels: Callable[[], Mapping[str, str]], allowed: Sequence[str] = ()) -> None:
        """`levels`: the version of each contract that every service serves, by topic; without one for computes, ranges
        are exclusive.

        `allowed`: in which exclusive ranges may lie; empty: any range. Raises InvalidConfiguration.
        """
        self._levels = levels
        try:
            self._allowed = [ipaddress.ip_network(text) for text in allowed]
        except ValueError as error:
            raise errors.InvalidConfiguration(f"[networks] local_ranges: {error}") from None

    def are_exclusive(self, *, reachable: bool) -> bool:
        """Whether no other such network may have addresses of a network's ranges."""
        return reachable or not self._all_hosts_have_namespaces()

    def lock(self, session: Session) -> None:
        """Locks all local networks, so that exclusive ranges are compared one at a time."""
        networks.lock_local(session)

    def require(self, session: Session, row: NetworkRow, cidrs: Collection[str], *, any_range: bool) -> None:
        """Checks exclusive ranges of the network. All local networks must be locked.

        `any_range`: an administrator chooses them: they need not be private, and an error may name a host.

        Raises BadRequest if a range is not allowed, or contains a host. Raises OverlappingSubnets if another network
        has addresses of it.
        """
        reachable = self._all_hosts_have_namespaces()
        others = subnets.ranges_of_local(session, without=row.id, reachable=reachable)
        of_hosts = compute_nodes.addresses(session) if any_range else []
        for cidr in cidrs:
            self._require_allowed(cidr, any_range=any_range)
            host = next((address for address in of_hosts if addresses.contains(cidr, address)), None)
            if host is not None:
                raise errors.BadRequest(f"Invalid input for cidr. Reason: '{cidr}' contains a host's address, {host}.")
            # The text does not name the other subnet, because it may be another project's.
            if addresses.overlap(cidr, others) is not None:
                kind = "reachable" if reachable else "local"
                raise errors.OverlappingSubnets(
                    f"Invalid input for operation: Requested subnet with cidr: {cidr} overlaps with a subnet of another "
                    f"{kind} network. Hosts have routes to all {kind} networks: choose another range."
                )

    def _require_allowed(self, cidr: str, *, any_range: bool) -> None:
        """Hosts have routes to exclusive ranges. Outside the allowed ranges, such a route could divert traffic of the
        cloud itself.
        """
        block = ipaddress.ip_network(cidr)
        if self._allowed and not addresses.is_within(block, self._allowed):
            ranges = ", ".join(map(str, self._allowed))
            raise errors.BadRequest(
                f"Invalid input for cidr. Reason: '{cidr}' is not in a range of local networks: {ranges}."
            )
        if not any_range:
            addresses.check_local_range(block, limited=not self._allowed)

    def _all_hosts_have_namespaces(self) -> bool:
        level = self._levels().get(ComputeApi.TOPIC)
        return level is not None and numbers(level) >= numbers(NAMESPACES)
