"""Applies what a host has once for all its networks: packet rules, zones and shares of connection tracking, and the resolver
that the networks ask.
"""

import itertools
import json
import shutil
import socket
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from minova.errors import HypervisorError
from minova.virt.namespaces import dnsmasq, rules, shares
from minova.virt.namespaces.kernel import run, within
from minova.virt.namespaces.network import NetworkRecord
from minova.virt.namespaces.records import write_files

# Zones of bridges that are no local networks; those of local networks lie below.
_FIRST_ZONE, _ZONES = 1 << 14, (1 << 16) - (1 << 14)
# The ways through the packet filter of the host's iptables, if it has one that drops by default: all that must not pass is
# dropped by the rules before.
_WAYS = (
    ("FORWARD", "-i", "mu+"),
    ("FORWARD", "-o", "mu+"),
    ("INPUT", "-i", "mu+", "-p", "udp", "--dport", "53"),
    ("INPUT", "-i", "mu+", "-p", "tcp", "--dport", "53"),
)


class HostRules:
    """The caller holds a lock. `folder`: see `namespaces.py`. `host`: the network namespace of the host's bridges."""

    def __init__(self, folder: Path, host: Path) -> None:
        self._resolver = folder / "resolver"
        self._bridges = folder / "bridges.json"
        self._host = host
        self._applied_to_bridges = self._applied_shares = ""
        # The rules, and whether the resolver serves: these rules do not name networks over bridges of the host.
        self._applied = ("", False)

    @property
    def is_serving(self) -> bool:
        """Whether there is a resolver."""
        return self._resolver.exists()

    def forget(self) -> None:
        """Make all rules anew when they are applied next."""
        self._applied, self._applied_to_bridges, self._applied_shares = ("", False), "", ""

    def track(self, owner: str, bridges: Collection[str]) -> None:
        """Write down the bridges of this owner, whose connections are tracked for themselves."""
        present = self._tracked()
        wanted = {each: names for each, names in present.items() if each != owner}
        if bridges:
            wanted[owner] = sorted(bridges)
        if wanted != present:
            write_files(self._bridges.parent, {self._bridges.name: json.dumps(wanted)})

    def owners(self) -> set[str]:
        return {*self._tracked()}

    def _tracked(self) -> dict[str, list[str]]:
        """Returns the bridges by their owners. A release without owners has written a list."""
        written = json.loads(self._bridges.read_text()) if self._bridges.exists() else {}
        if isinstance(written, list):
            return {"": written} if written else {}
        return written

    def apply(self, records: Collection[NetworkRecord]) -> None:
        """Change what differs from the rules for these networks."""
        zones = within(self._host, self._zones)
        text = rules.of_host(records, zones) if records or zones else rules.no_rules()
        wanted = (text, bool(records))
        if wanted != self._applied:
            within(self._host, lambda: self._change(*wanted))
            self._applied = wanted
        of_bridges = rules.of_bridges(records)
        if of_bridges != self._applied_to_bridges:
            within(self._host, lambda: run(["nft", "-f", "-"], of_bridges))
            self._applied_to_bridges = of_bridges
        size = shares.table_size()
        of_shares = shares.of_host(size) if records or zones else shares.no_rules()
        if of_shares != self._applied_shares:
            within(self._host, lambda: _share(size, of_shares))
            self._applied_shares = of_shares

    def _change(self, text: str, served: bool) -> None:
        run(["nft", "-f", "-"], text)
        if shutil.which("iptables", path="/usr/sbin:/sbin:/usr/bin:/bin"):
            for way in _WAYS:
                _open_way(way, served=served)
        self._serve(served=served)

    def _serve(self, *, served: bool) -> None:
        if not served:
            dnsmasq.stop(self._resolver)
            shutil.rmtree(self._resolver, ignore_errors=True)
            return
        files = dnsmasq.of_host(self._resolver, more_connections=dnsmasq.takes_more_connections())
        if write_files(self._resolver, files) or dnsmasq.running(self._resolver) is None:
            dnsmasq.stop(self._resolver)
            run(dnsmasq.command(self._resolver))

    def _zones(self) -> dict[str, int]:
        zones = {}
        for bridge in itertools.chain(*self._tracked().values()):
            with suppress(OSError):  # no such bridge now
                zones[bridge] = _FIRST_ZONE + socket.if_nametoindex(bridge) % _ZONES
        return zones


def _share(size: int, text: str) -> None:
    # Terse: without the elements, of which a busy host has many.
    former = shares.of_former(run(["nft", "--terse", "list", "sets"]), size)
    run(["nft", "-f", "-"], former + text)


def _open_way(way: tuple[str, ...], *, served: bool) -> None:
    chain, *match = way
    rule = [*match, "-m", "comment", "--comment", "minova", "-j", "ACCEPT"]
    try:
        run(["iptables", "-w", "-C", chain, *rule])
        is_there = True
    except HypervisorError:
        is_there = False
    if served and not is_there:
        run(["iptables", "-w", "-I", chain, *rule])
    elif is_there and not served:
        run(["iptables", "-w", "-D", chain, *rule])
