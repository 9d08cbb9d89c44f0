"""dnsmasq: DHCP and the resolver of each network in its namespace, and one resolver of the host that these ask.

A network's dnsmasq gives each interface the address of its port, and no address to anything else. It keeps no leases: after a
restart it knows the interfaces from its files. A removed or changed interface restarts it, since it would not give the
address of a lease to another interface; a new one only makes it read its files.
"""

import ipaddress
import os
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from minova.objects.network.guest_names import DOMAIN
from minova.virt.namespaces.network import GUESTS, UPLINK, Host, Record

CONFIGURATION, PID = "dnsmasq.conf", "dnsmasq.pid"
HOSTS, OPTIONS, NAMES = "dnsmasq.hosts", "dnsmasq.options", "dnsmasq.names"
# Seconds, as libvirt's.
_LEASE = 3600
_END_WITHIN = 5.0


def of_network(record: Record, folder: Path) -> dict[str, str]:
    """Returns the files of a network's dnsmasq, by their names in `folder`."""
    network = record.network
    resolvers = dict.fromkeys(each for subnet in network.subnets for each in subnet.resolvers)
    lines = [
        f"interface={GUESTS}",
        "except-interface=lo",
        "bind-interfaces",
        "no-hosts",
        "no-resolv",
        "strict-order",
        # A third of what dnsmasq allows by default: the resolver of the host serves other networks, too.
        "dns-forward-max=50",
        *(f"server={each}" for each in resolvers or [record.host_end]),
        f"addn-hosts={folder / NAMES}",
        f"pid-file={folder / PID}",
    ]
    served = [subnet for subnet in network.subnets if subnet.dhcp]
    if served:
        lines += [
            "dhcp-authoritative",
            "leasefile-ro",
            "no-ping",
            f"dhcp-lease-max={1 << 16}",
            # A guest does not choose its name: it could take one that others look up.
            "dhcp-ignore-names",
            f"dhcp-hostsfile={folder / HOSTS}",
            f"dhcp-optsfile={folder / OPTIONS}",
            f"dhcp-option=option:mtu,{network.mtu}",
        ]
    for number, subnet in enumerate(served):
        block = ipaddress.ip_network(subnet.cidr)
        lines += [
            f"dhcp-range=set:s{number},{block.network_address},static,{block.netmask},{_LEASE}",
            f"dhcp-option=tag:s{number},option:router,{subnet.gateway}",
            f"dhcp-option=tag:s{number},option:dns-server,{subnet.gateway}",
        ]
    # It listens on the addresses that its interface has at its start.
    lines += [f"# gateway {subnet.gateway}" for subnet in network.subnets]
    return {CONFIGURATION: _text(lines)} | entries(record.hosts)


def entries(hosts: Iterable[Host]) -> dict[str, str]:
    """Returns the files with the interfaces. A name stands for one guest; a second guest of the same name is reached
    only by its address.
    """
    named: dict[str, Host] = {}
    hosts = list(hosts)
    for host in hosts:
        if host.name:
            named.setdefault(host.full_name.lower(), host)
    return {
        HOSTS: _text(f"{host.mac},set:{_tag(host)},{host.address}" for host in hosts),
        OPTIONS: _text(line for host in hosts for line in _options(host)),
        NAMES: _text(line for host in named.values() for line in _names(host)),
    }


def _tag(host: Host) -> str:
    return f"h{host.mac.replace(':', '')}"


def _options(host: Host) -> Iterator[str]:
    if host.name:
        yield f"tag:{_tag(host)},option:hostname,{host.name}"
    if host.domain:
        yield f"tag:{_tag(host)},option:domain-name,{host.domain}"
        yield f"tag:{_tag(host)},option:domain-search,{host.domain}"


def _names(host: Host) -> Iterator[str]:
    """Yields the entry of a guest. For an address, dnsmasq answers the name that it reads first: on a shared network not
    the name of another project's guest.
    """
    if host.domain:
        yield f"{host.address} host-{host.address.replace('.', '-')}.{DOMAIN}"
    yield f"{host.address} {host.full_name}"


def of_host(folder: Path) -> dict[str, str]:
    """Returns the files of the resolver of the host. It asks whatever the host asks, and listens on the links alone."""
    lines = [
        f"interface={UPLINK}*",
        "except-interface=lo",
        "bind-dynamic",
        "strict-order",
        # Guests need not know the names of the operator's machines.
        "no-hosts",
        # Each network has a cache of its own. One cache of all would show what guests of others have asked for.
        "cache-size=0",
        "dns-forward-max=10000",
        f"pid-file={folder / PID}",
    ]
    return {CONFIGURATION: _text(lines)}


def _text(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def command(folder: Path) -> list[str]:
    return ["dnsmasq", f"--conf-file={folder / CONFIGURATION}"]


def running(folder: Path) -> int | None:
    """Returns the pid of the dnsmasq of this folder; None if it has ended."""
    with suppress(OSError, ValueError):
        pid = int((folder / PID).read_text())
        if _is_of(pid, folder):
            return pid
    return None


def _is_of(pid: int, folder: Path) -> bool:
    with suppress(OSError):
        return os.fsencode(command(folder)[1]) in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    return False


def read_again(folder: Path) -> None:
    pid = running(folder)
    if pid is not None:
        os.kill(pid, signal.SIGHUP)


def stop(folder: Path) -> None:
    """Ends the dnsmasq of this folder, and returns when it has ended."""
    pid = running(folder)
    # Without its file it may still run, and would keep the addresses of a new one.
    every = [pid] if pid is not None else [int(each.name) for each in Path("/proc").glob("[0-9]*")]
    for each in every:
        _end(each, folder)


def _end(pid: int, folder: Path) -> None:
    until = time.monotonic() + _END_WITHIN
    while _is_of(pid, folder):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM if time.monotonic() < until else signal.SIGKILL)
        time.sleep(0.01)
