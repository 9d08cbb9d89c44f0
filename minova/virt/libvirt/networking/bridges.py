"""The bridges of this host that `[networks] bridge_mappings` names, and which of them exist now."""

import logging
import socket
from collections.abc import Callable, Mapping
from pathlib import Path

from minova.virt.namespaces.host_routes import PROC_NET

LOG = logging.getLogger(__name__)


def is_interface(name: str) -> bool:
    """Whether this host has a network interface of this name."""
    try:
        socket.if_nametoindex(name)
    except OSError:
        return False
    return True


def interfaces_in(proc_net: Path = PROC_NET) -> frozenset[str]:
    """Returns the names of all interfaces of the network namespace that `proc_net` shows."""
    lines = (proc_net / "dev").read_text().splitlines()
    return frozenset(line.partition(":")[0].strip() for line in lines if ":" in line)


class Bridges:
    """`mappings` is {segment that the bridge carries: bridge}. `is_there` returns whether a bridge of this name
    exists.
    """

    def __init__(self, mappings: Mapping[str, str], is_there: Callable[[str], bool] = is_interface) -> None:
        self._mappings = dict(mappings)
        self._is_there = is_there
        self._lost: frozenset[str] = frozenset()

    def present(self) -> dict[str, str]:
        """Returns the existing bridges. Logs those that have appeared or vanished since the last call."""
        present = {segment: bridge for segment, bridge in self._mappings.items() if self._is_there(bridge)}
        missing = frozenset(self._mappings) - present.keys()
        for segment in sorted(missing - self._lost):
            LOG.warning(
                "[networks] bridge_mappings: bridge %s is not there: no server on %s is built here",
                self._mappings[segment],
                segment,
            )
        for segment in sorted(self._lost - missing):
            LOG.info("Bridge %s is there again, and carries %s", self._mappings[segment], segment)
        self._lost = missing
        return present
