"""Many computes with fake drivers in one process, which say what their ports let through.

python -m tests.benchmarks.networks.computes FOLDER URL API HOSTS

A line for each refresh: `HOST PORT ADDRESSES`. PORT is the highest TCP port that all interfaces of the host let in, ADDRESSES how many
addresses each of them lets in by a rule that names a group, at least.
"""

import ipaddress
import os
from collections.abc import Mapping, Sequence

from minova.objects.vif import Vif
from minova.virt.fake import FakeDriver
from tests.benchmarks.boots import computes


def highest_port(vif: Vif) -> int:
    return max((rule.port_max or 0 for rule in vif.rules or () if rule.remotes is None), default=0)


def members(vif: Vif) -> int:
    """Of the largest group that a rule names."""
    ranges = [rule.remotes for rule in vif.rules or () if rule.remotes is not None]
    return max((sum(ipaddress.ip_network(one).num_addresses for one in remotes) for remotes in ranges), default=0)


class TellingDriver(FakeDriver):
    def refresh_interfaces(self, vifs: Mapping[str, Sequence[Vif]]) -> tuple[str, ...]:
        every = [vif for of_instance in vifs.values() for vif in of_instance]
        if every:
            line = f"{self.nodes[0]} {min(map(highest_port, every))} {min(map(members, every))}\n"
            os.write(1, line.encode())  # whole: other hosts write, too
        return ()


def main() -> None:
    # Of this process alone: the computes are made with the class of this name.
    FakeDriver.refresh_interfaces = TellingDriver.refresh_interfaces  # type: ignore[method-assign, assignment]
    computes.main()


if __name__ == "__main__":
    main()
