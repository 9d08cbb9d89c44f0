"""SimpleCIDRAffinityFilter: passes hosts whose address is in the network around the address in the hints."""

from functools import lru_cache
from typing import Any

import netaddr

from minova.objects.requests.request_spec import RequestSpec
from minova.scheduler.filters import ClassFilter
from minova.scheduler.filters.errors import InvalidFilterInput


class SimpleCIDRAffinityFilter(ClassFilter):
    """Hints `build_near_host_ip` and `cidr`. `cidr` is `/24` by default and is appended to the address."""

    of = "host_ip"

    def asks(self, spec: RequestSpec) -> bool:
        return bool(spec.get_scheduler_hint("build_near_host_ip"))

    def verdict(self, value: str | None, spec: RequestSpec) -> str | None:
        address, width = spec.get_scheduler_hint("build_near_host_ip"), spec.get_scheduler_hint("cidr", "/24")
        if _contains(address, width, value):
            return None
        return f"address {value}, asked to be in {address}{width}"


# Hosts keep their addresses, and parsing an address takes longer than comparing it.
_network = lru_cache(maxsize=100)(netaddr.IPNetwork)
_address = lru_cache(maxsize=200_000)(netaddr.IPAddress)


def _contains(address: Any, width: Any, value: Any) -> bool:
    """Raises InvalidFilterInput if one of the three arguments is invalid."""
    try:
        network = _network("".join((address, width)))
        return _address(value) in network
    except (netaddr.AddrFormatError, TypeError, ValueError) as error:
        hints = f"build_near_host_ip {address!r}, cidr {width!r}"
        raise InvalidFilterInput(f"Scheduler hints {hints}, host address {value!r}", error) from error
