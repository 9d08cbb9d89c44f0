"""dnsmasq: DHCP, router advertisements and the resolver of each network in its namespace, and one resolver of the host that
these ask.

A network's dnsmasq gives each interface the addresses of its port, and no address to anything else. It keeps no leases: after
a restart it knows the interfaces from its files. An interface that is removed, or has other addresses, restarts it, since it
would not give the address of a lease to another interface, and so does the first option of an interface. A new interface
or name only makes it read its files.
"""

import ipaddress
import os
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

from minova.objects.guests.guest_metadata import ADDRESS
from minova.objects.network.guest_names import DOMAIN
from minova.objects.network.network import STATEFUL
from minova.virt.namespaces.kernel import run
from minova.virt.namespaces.network import GUESTS, UPLINK, GuestInterface, HostSubnet, LocalNetwork, NetworkRecord
from minova.virt.namespaces.rules import CONNECTIONS_OF_A_RESOLVER

CONFIGURATION, PID = "dnsmasq.conf", "dnsmasq.pid"
HOSTS, OPTIONS, NAMES = "dnsmasq.hosts", "dnsmasq.options", "dnsmasq.names"
# Seconds, as libvirt's.
_LEASE = 3600
# Seconds that a guest keeps an advertised range, and between advertisements.
_ADVERTISED, _EVERY = 86400, 600
_END_WITHIN = 5.0
# dnsmasq reads no line of more than 1024 bytes.
_LONGEST_LINE = 1000
# As many as a guest asks: MAXNS of glibc.
_SERVERS = 3


def of_network(record: NetworkRecord, folder: Path) -> dict[str, str]:
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
            # A client is its MAC address, which the rules of bridges compare with the sender. Its identifier may be any text,
            # and is the same in copies of a disk.
            "dhcp-ignore-clid",
            f"dhcp-lease-max={1 << 16}",
            # A guest does not choose its name: it could take one that others look up.
            "dhcp-ignore-names",
            f"dhcp-hostsfile={folder / HOSTS}",
            f"dhcp-optsfile={folder / OPTIONS}",
            f"dhcp-option=option:mtu,{network.mtu}",
            # Not in the file of hosts: dnsmasq 2.90 ends with a fault if it reads tags there again after a request.
            *(f"dhcp-mac=set:{_tag(host)},{host.mac}" for host in record.hosts if [*_options(host)]),
        ]
    for number, subnet in enumerate(served):
        lines += _range6(number, subnet) if subnet.mode else _range4(number, subnet, network)
    if any(subnet.mode for subnet in served):
        lines += _advertisements(network)
    # It listens on the addresses that its interface has at its start.
    lines += [f"# {address}" for address in network.addresses_inside]
    return {CONFIGURATION: _text(lines)} | entries(record.hosts)


def _range4(number: int, subnet: HostSubnet, network: LocalNetwork) -> Iterator[str]:
    block = ipaddress.ip_network(subnet.cidr)
    is_gateway = network.is_gateway_of(subnet)
    yield f"dhcp-range=set:s{number},{block.network_address},static,{block.netmask},{_LEASE}"
    if not is_gateway:
        # The server has no address of the range.
        yield f"shared-network={GUESTS},{block.network_address}"
    resolvers = [subnet.gateway] if is_gateway else subnet.resolvers or [ADDRESS]
    four = [each for each in resolvers if ":" not in each]
    if four:
        yield f"dhcp-option=tag:s{number},option:dns-server,{','.join(four)}"
    routes = list(subnet.routes)
    if not is_gateway:
        routes.insert(0, (f"{ADDRESS}/32", "0.0.0.0"))  # on the link
    # Guests that know these routes do not look at the router.
    if subnet.gateway:
        yield f"dhcp-option=tag:s{number},option:router,{subnet.gateway}"
        routes += [("0.0.0.0/0", subnet.gateway)] if routes else []
    else:
        yield f"dhcp-option=tag:s{number},option:router"  # none: otherwise dnsmasq names itself
    if routes:
        text = ",".join(f"{destination},{hop}" for destination, hop in routes)
        # 249: of older Windows.
        yield from (f"dhcp-option=tag:s{number},{option},{text}" for option in (121, 249))


def _range6(number: int, subnet: HostSubnet) -> Iterator[str]:
    block = ipaddress.ip_network(subnet.cidr)
    kind = {STATEFUL: "static", "slaac": "ra-only", "dhcpv6-stateless": "ra-stateless"}[subnet.mode]
    # An address that a guest makes itself outlives a host's outage of some hours.
    lease = _LEASE if subnet.mode == STATEFUL else _ADVERTISED
    yield f"dhcp-range=set:s{number},{block.network_address},{kind},{block.prefixlen},{lease}"


def _advertisements(network: LocalNetwork) -> Iterator[str]:
    """Yields what guests learn of IPv6: of a `local` network with a gateway, also that the namespace is the router. The
    gateway of another network is a router outside, of which only network_data tells a guest.
    """
    is_router = any(network.is_gateway_of(subnet) for subnet in network.six)
    yield "enable-ra"
    yield f"ra-param={GUESTS},mtu:{max(network.mtu, 1280)},{_EVERY},{3 * _EVERY if is_router else 0}"
    own = [subnet.gateway for subnet in network.six if network.is_gateway_of(subnet)]
    outside = [each for subnet in network.six for each in subnet.resolvers if ":" in each]
    # The unspecified one stands for the link-local address of the server.
    servers = own or ([] if network.over == "" else outside) or ["fe80::"]
    some = [*dict.fromkeys(servers)][:_SERVERS]
    yield f"dhcp-option=option6:dns-server,{','.join(f'[{each}]' for each in some)}"


def entries(hosts: Iterable[GuestInterface]) -> dict[str, str]:
    """Returns the files with the interfaces. A name stands for one guest; a second guest of the same name is reached
    only by its address.
    """
    hosts_by_name: dict[str, GuestInterface] = {}
    hosts = list(hosts)
    for host in hosts:
        if host.name:
            hosts_by_name.setdefault(host.full_name.lower(), host)
    first = {host.mac for host in hosts_by_name.values()}
    return {
        HOSTS: _text(_host(host, is_first=host.mac in first) for host in hosts if host.address or host.address6),
        OPTIONS: _text(f"tag:{_tag(host)},{option}" for host in hosts for option in _options(host)),
        NAMES: _text(line for host in hosts_by_name.values() for line in _names(host)),
    }


def _host(host: GuestInterface, *, is_first: bool) -> str:
    """Returns the line of an interface. With a domain its name comes as an option: dnsmasq would resolve the bare one."""
    six = f"[{host.address6}]" if host.address6 else ""
    name = host.name if is_first and not host.domain else ""
    return ",".join(each for each in (host.mac, host.address, six, name) if each)


def _tag(host: GuestInterface) -> str:
    return f"h{host.mac.replace(':', '')}"


def _options(host: GuestInterface) -> Iterator[str]:
    """Yields the options of this interface alone."""
    if host.domain:
        yield from ([f"12,{host.name}"] if host.name else [])
        yield f"option:domain-name,{host.domain}"
        yield f"option:domain-search,{host.domain}"
    for option in host.options:
        number = option.name if option.version == 4 and option.name.isdigit() else ""
        kind = "option" if option.version == 4 else "option6"
        yield f"{number or f'{kind}:{option.name}'},{option.value}"


def _names(host: GuestInterface) -> Iterator[str]:
    """Yields the entries of a guest. For an address, dnsmasq answers the name that it reads first: on a shared network not
    the name of another project's guest.
    """
    for address in host.addresses:
        if host.domain:
            yield f"{address} host-{address.replace('.', '-').replace(':', '-')}.{DOMAIN}"
        yield f"{address} {host.full_name}"


@cache
def takes_more_connections() -> bool:
    """Whether this dnsmasq can take more than 20 TCP connections, as 2.90 and later ones do."""
    return "--max-tcp-connections" in run(["dnsmasq", "--help"])


def of_host(folder: Path, *, more_connections: bool = False) -> dict[str, str]:
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
        # For a hundred networks, each with all that it may have.
        *([f"max-tcp-connections={100 * CONNECTIONS_OF_A_RESOLVER}"] if more_connections else []),
        f"pid-file={folder / PID}",
    ]
    return {CONFIGURATION: _text(lines)}


def _text(lines: Iterable[str]) -> str:
    """Raises ValueError if dnsmasq could not read a line."""
    lines = list(lines)
    for line in lines:
        if len(line) > _LONGEST_LINE:
            raise ValueError(f"a line of {len(line)} characters for dnsmasq: {line[:64]}...")
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
    pids = [pid] if pid is not None else [int(each.name) for each in Path("/proc").glob("[0-9]*")]
    for each in pids:
        _end(each, folder)


def _end(pid: int, folder: Path) -> None:
    until = time.monotonic() + _END_WITHIN
    while _is_of(pid, folder):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM if time.monotonic() < until else signal.SIGKILL)
        time.sleep(0.01)
