"""Many computes with fake drivers in one process, which say what their ports let through.

python -m tests.benchmarks.networks.computes FOLDER URL API HOSTS

A line for each change, from the moment that FOLDER has a file `say`: `HOST PORT ADDRESSES`. PORT is the highest TCP port that all interfaces of the host let in, ADDRESSES how many
addresses each of them lets in by a rule that names a group, at least.
"""

import ipaddress
import os
import sys
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from minova.objects.network.vif import GroupMembers, Vif
from minova.objects.servers.instance import Instance
from minova.virt import fake
from minova.virt.port_rules import PortRules
from tests.benchmarks.boots import computes

# Boots are measured before there is this file: to count takes a tenth of what a boot costs the computes.
SAY = Path(sys.argv[1] if len(sys.argv) > 1 else ".") / "say"


def highest_port(vif: Vif) -> int:
    return max((rule.port_max or 0 for rule in vif.rules or () if rule.remotes is None), default=0)


def members_of(vif: Vif) -> int:
    """Of the largest group that a rule names."""
    return max((addresses_in(rule.remotes) for rule in vif.rules or () if rule.remotes is not None), default=0)


@lru_cache
def addresses_in(ranges: tuple[str, ...]) -> int:
    return sum(ipaddress.ip_network(cidr).num_addresses for cidr in ranges)


class TellingDriver(fake.FakeDriver):
    """Knows its interfaces as the driver of libvirt does."""

    def __init__(self, conf: Any) -> None:
        super().__init__(conf)
        self._rules = PortRules()
        self._vifs: dict[str, Vif] = {}

    def prepare(self, instance: Instance, *words: Any, **more: Any) -> None:
        super().prepare(instance, *words, **more)
        with self._lock:
            self._vifs.update({vif.port_id: self._rules.define(vif) for vif in instance.network_info})

    def refresh_interfaces(self, vifs: Mapping[str, Sequence[Vif]]) -> tuple[str, ...]:
        with self._lock:
            every = [vif for of_instance in vifs.values() for vif in of_instance]
            self._vifs = {vif.port_id: self._rules.define(vif) for vif in every}
            self._say()
        return ()

    def refresh_members(self, members: Sequence[GroupMembers]) -> None:
        with self._lock:
            changed = {vif.port_id: vif for vif in self._rules.learn(members)}
            self._vifs |= {port_id: vif for port_id, vif in changed.items() if port_id in self._vifs}
            self._say()

    def _say(self) -> None:
        every = self._vifs.values()
        if every and SAY.exists():
            line = f"{self.nodes[0]} {min(map(highest_port, every))} {min(map(members_of, every))}\n"
            os.write(1, line.encode())  # whole: other hosts write, too


def main() -> None:
    # Of this process alone: the computes are made with the class that is registered by this name.
    fake.FakeDriver = TellingDriver  # type: ignore[misc]
    computes.main()


if __name__ == "__main__":
    main()
