"""Makes, changes and removes the namespaces of the networks of a host. It needs root's rights; `remote.py` asks for them.

    RUN/networks/NAME/network.json   the record: what the network is made from, written before anything is made
    RUN/networks/NAME/dnsmasq.*      files of its dnsmasq
    RUN/resolver/                    those of the resolver of the host
    RUN/bridges.json                 other bridges that have zones of connection tracking

RUN ends with the host, as all that is made does.
"""

import contextlib
import fcntl
import ipaddress
import json
import logging
import os
import shutil
import socket
import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from minova.codecs import Decoder
from minova.errors import HypervisorError
from minova.objects.guests.guest_metadata import ADDRESS, PORT
from minova.objects.network.addresses import link_local
from minova.virt.namespaces import dnsmasq, rules, shares
from minova.virt.namespaces.host_routes import overlapping, routes_of_host
from minova.virt.namespaces.kernel import NAMED, OWN, ip, run, within
from minova.virt.namespaces.network import (
    GUESTS,
    HOST,
    MAX_HOSTS,
    MAX_NETWORKS,
    GuestInterface,
    LocalNetwork,
    NetworkRecord,
    namespace_name,
    require_host,
    require_interface,
    require_mac,
    require_network,
)
from minova.virt.namespaces.protocol_sets import make_sets

LOG = logging.getLogger(__name__)
RUN = Path("/run/minova")
# Where the kernel shows the namespace in which a thread works.
_NET = Path("/proc/thread-self/net")
# Zones of bridges that are no local networks; those of local networks lie below.
_FIRST_ZONE, _ZONES = 1 << 14, (1 << 16) - (1 << 14)
_BACKLOG = 128
# `broken` is called each 30 seconds: a program for each of 200 networks each time would take a sixth of a CPU.
ROUNDS = 10
_RECORD = Decoder(NetworkRecord)
# Otherwise each of the four interfaces of a network has queues for all CPUs that the machine could have, with their files in /sys.
_QUEUES = "numtxqueues 1 numrxqueues 1"
# The number that marks routes to guests without a gateway in a namespace.
_OURS = 77
# The ways through the packet filter of the host's iptables, if it has one that drops by default: all that must not pass is
# dropped by the rules before.
_WAYS = (
    ("FORWARD", "-i", "mu+"),
    ("FORWARD", "-o", "mu+"),
    ("INPUT", "-i", "mu+", "-p", "udp", "--dport", "53"),
    ("INPUT", "-i", "mu+", "-p", "tcp", "--dport", "53"),
)


class NetworkNamespaces:
    """Safe for threads and for several processes. Raises HypervisorError if a program fails, ValueError if an argument is
    none.

    `host`: the network namespace of the host's bridges. Names of namespaces end in `suffix`.
    `bridges` returns the bridges of the host that its configuration names for networks of the cloud.
    """

    def __init__(
        self,
        run: Path = RUN,
        host: Path = OWN,
        suffix: str = "",
        bridges: Callable[[], Collection[str]] = frozenset,
    ) -> None:
        self._run = run
        self._host = host
        self._suffix = suffix
        self._bridges = bridges
        self._lock = threading.Lock()
        self._applied = self._applied_to_bridges = self._applied_shares = ""
        # By network: the rules in its namespace.
        self._applied_inside: dict[str, str] = {}
        self._round = 0

    def records(self) -> dict[str, NetworkRecord]:
        """Returns the networks of this host, by their ids."""
        records = {}
        with suppress(FileNotFoundError):
            for folder in sorted(self._networks.iterdir()):
                record = _read(folder)
                if record is not None and folder == self._folder(record.network.network_id):
                    records[record.network.network_id] = record
        return records

    def ensure(self, network: LocalNetwork, mac: str = "") -> None:
        """Make the network, or what is missing of it, and change what differs. Its bridge must exist. `mac`: of the
        gateway of a network that is new here.
        """
        require_network(network)
        if mac:
            require_mac(mac)
        if network.over:
            self._require_bridge(network.over)
        with self._alone():
            record = self._record(network, mac)
            within(self._host, lambda: _require_free(network))
            if not network.subnets:  # there is nothing to serve
                self._remove(network.network_id)
                return
            folder = self._folder(network.network_id)
            if not self._exists(network.network_id) or _read(folder) is None:
                self._remove(network.network_id)
                _write(folder, record)
                LOG.info("Making the namespace of network %s", self._name(network.network_id))
                run(["ip", "netns", "add", self._name(network.network_id)])
            _write(folder, record)
            is_new = within(self._host, lambda: self._link(record))
            within(NAMED / self._name(network.network_id), lambda: self._settle(record))
            within(self._host, lambda: self._route(record))
            self._apply_host()
            self._serve(record, restart=is_new)

    def enter(self, network_id: str, host: GuestInterface) -> None:
        """Give an interface its address and its name, in place of those that it had. Idempotent."""
        require_host(host)
        with self._alone():
            record = _read(self._folder(network_id))
            if record is None:
                return
            if host in record.hosts:
                if host.address6:
                    # Its guest starts again, perhaps with a new system: that has another DUID, to which dnsmasq refuses the
                    # address while the old one has the lease.
                    self._restart(record)
                return
            others = [
                each for each in record.hosts if each.mac != host.mac and not {*each.addresses} & {*host.addresses}
            ]
            if len(others) >= MAX_HOSTS:
                raise ValueError(f"network {network_id} has {MAX_HOSTS} interfaces on this host")
            self._change_hosts(record, [*others, host])

    def forget(self, network_id: str, macs: Collection[str]) -> None:
        """Give these interfaces no addresses any more. Idempotent."""
        with self._alone():
            record = _read(self._folder(network_id))
            if record is not None:
                self._change_hosts(record, [each for each in record.hosts if each.mac not in macs])

    def remove(self, network_id: str) -> None:
        """Remove all of the network but its bridge. Idempotent."""
        with self._alone():
            self._remove(network_id)
            self._apply_host()

    def broken(self) -> dict[str, str]:
        """Returns what is missing of networks, by their ids. Rules are not compared but made anew meanwhile: those of the
        host each time, those of a network each ROUNDS times.
        """
        with self._alone():
            self._applied = self._applied_to_bridges = self._applied_shares = ""
            self._round = (self._round + 1) % ROUNDS
            records = self.records()
            masters = within(self._host, _masters)
            missing = {network_id: self._missing(record, masters) for network_id, record in records.items()}
            if records:
                self._apply_host()
            return {network_id: what for network_id, what in missing.items() if what}

    def track(self, bridges: Collection[str]) -> None:
        """Track the connections over each of these bridges for themselves."""
        for bridge in bridges:
            self._require_bridge(bridge)
        with self._alone():
            path = self._run / "bridges.json"
            text = json.dumps(sorted(bridges))
            if not path.exists() or path.read_text() != text:
                path.write_text(text)
            self._apply_host()

    def make_protocol_sets(self, numbers: Collection[int]) -> None:
        """Make the sets of these protocols, to which network filters refer."""
        within(self._host, lambda: make_sets(numbers))

    def namespaces(self) -> dict[str, int]:
        """Returns the numbers of the namespaces in which the metadata service listens, by networks. A namespace that is
        made anew has another number.
        """
        numbers = {}
        for network_id, record in self.records().items():
            if record.network.metadata and self._exists(network_id):
                numbers[network_id] = (NAMED / self._name(network_id)).stat().st_ino
        return numbers

    def listener(self, network_id: str) -> socket.socket:
        """Returns a socket that listens for requests of the network's guests to the metadata service."""
        return within(self._namespace(network_id), _listen)

    def connect(self, network_id: str, address: str, port: int, timeout: float) -> socket.socket:
        """Returns a connection to a guest of the network, made inside it."""
        namespace, record = self._namespace(network_id), _read(self._folder(network_id))
        guest = ipaddress.IPv4Address(address)
        if not 0 < port < 2**16:
            raise ValueError(f"{port} is no port")
        network = LocalNetwork(network_id=network_id) if record is None else record.network
        subnets = network.routed + network.linked
        # From the namespace, other addresses are those that the host reaches.
        if not any(guest in ipaddress.IPv4Network(each.cidr) and address != each.gateway for each in subnets):
            raise ValueError(f"{address} is no address of a guest of network {network_id}")
        connection = within(namespace, lambda: socket.create_connection((str(guest), port), timeout))
        # A time-out makes the socket itself non-blocking, for each process that gets it.
        connection.settimeout(None)
        return connection

    def _require_bridge(self, name: str) -> None:
        """Raises ValueError unless it is a bridge for networks of the cloud: what a caller names alone may be any interface
        of the host.
        """
        require_interface(name)
        if name not in self._bridges():
            raise ValueError(f"{name} is no bridge of [networks] bridge_mappings in the configuration of this host")

    @property
    def _networks(self) -> Path:
        return self._run / "networks"

    def _name(self, network_id: str) -> str:
        return namespace_name(network_id, self._suffix)

    def _namespace(self, network_id: str) -> Path:
        if _read(self._folder(network_id)) is None:
            raise ValueError(f"network {network_id!r} is not on this host")
        return NAMED / self._name(network_id)

    def _folder(self, network_id: str) -> Path:
        if "/" in network_id:
            raise ValueError(f"{network_id!r} is no id of a network")
        return self._networks / self._name(network_id)

    def _exists(self, network_id: str) -> bool:
        """Whether the namespace is there: a name without one is a plain file."""
        path = NAMED / self._name(network_id)
        return path.exists() and path.stat().st_dev != path.parent.stat().st_dev

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        with self._lock:
            make_folder(self._networks)
            handle = os.open(self._run / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX)
                yield
            finally:
                os.close(handle)

    def _record(self, network: LocalNetwork, mac: str) -> NetworkRecord:
        old = _read(self._folder(network.network_id))
        if old is not None:
            return msgspec.structs.replace(old, network=network)
        taken = {record.index for record in self.records().values()}
        index = next((number for number in range(MAX_NETWORKS) if number not in taken), None)
        if index is None:
            raise HypervisorError(f"this host has {MAX_NETWORKS} networks already")
        return NetworkRecord(network=network, index=index, mac=mac or network.mac)

    def _link(self, record: NetworkRecord) -> bool:
        """In the host: the two interfaces to the namespace. Returns whether the one of the guests is new."""
        network = record.network
        is_new = not _has_interface(network.port)
        name = self._name(network.network_id)
        for own, inside in ((network.port, GUESTS), (network.uplink, HOST)):
            if not _has_interface(own):
                ip([f"link add {own} {_QUEUES} type veth peer name {inside} {_QUEUES} netns {name}"])
        ip(
            [
                *(f"link set {own} mtu {network.mtu} addrgenmode none" for own in (network.port, network.uplink)),
                f"link set {network.port} master {network.bridge}",
                f"link set {network.port} up",
                f"address replace {record.host_end}/31 dev {network.uplink}",
                f"link set {network.uplink} up",
            ]
        )
        _forward()
        return is_new

    def _route(self, record: NetworkRecord) -> None:
        """In the host: routes to a reachable network, and to no other. A route of another interface to the same addresses
        stays, and is an error.
        """
        uplink, gateway = record.network.uplink, record.network_end
        required_routes = (
            {(each.cidr, gateway) for each in record.network.routed} if record.network.reachable else set()
        )
        there = {
            (route["dst"], route.get("gateway", ""))
            for route in json.loads(run(["ip", "-json", "-4", "route", "show", "dev", uplink]) or "[]")
            if route.get("protocol") != "kernel"
        }
        ip(
            [
                *(f"route del {each} dev {uplink}" for each, _ in sorted(there - required_routes)),
                *(f"route add {each} via {way} dev {uplink}" for each, way in sorted(required_routes - there)),
            ]
        )

    def _apply_host(self) -> None:
        records = self.records().values()
        zones = within(self._host, self._zones)
        text = rules.of_host(records, zones) if records or zones else rules.no_rules()
        if text != self._applied:
            within(self._host, lambda: self._change_host(text, served=bool(records)))
            self._applied = text
        of_bridges = rules.of_bridges(records)
        if of_bridges != self._applied_to_bridges:
            within(self._host, lambda: run(["nft", "-f", "-"], of_bridges))
            self._applied_to_bridges = of_bridges
        size = shares.table_size()
        of_shares = shares.of_host(size) if records or zones else shares.no_rules()
        if of_shares != self._applied_shares:
            within(self._host, lambda: _share(size, of_shares))
            self._applied_shares = of_shares

    def _change_host(self, text: str, *, served: bool) -> None:
        run(["nft", "-f", "-"], text)
        if shutil.which("iptables", path="/usr/sbin:/sbin:/usr/bin:/bin"):
            for way in _WAYS:
                _open_way(way, served=served)
        self._serve_host(served=served)

    def _serve_host(self, *, served: bool) -> None:
        folder = self._run / "resolver"
        if not served:
            dnsmasq.stop(folder)
            shutil.rmtree(folder, ignore_errors=True)
        elif dnsmasq.running(folder) is None:
            _write_files(folder, dnsmasq.of_host(folder))
            run(dnsmasq.command(folder))

    def _zones(self) -> dict[str, int]:
        path = self._run / "bridges.json"
        zones = {}
        for bridge in json.loads(path.read_text()) if path.exists() else ():
            with suppress(OSError):  # no such bridge now
                zones[bridge] = _FIRST_ZONE + socket.if_nametoindex(bridge) % _ZONES
        return zones

    def _serve(self, record: NetworkRecord, *, restart: bool) -> None:
        """`restart`: dnsmasq listens on an interface that is no more."""
        folder = self._folder(record.network.network_id)
        changed = _write_files(folder, dnsmasq.of_network(record, folder))
        if dnsmasq.running(folder) is None or changed or restart:
            self._restart(record)

    def _restart(self, record: NetworkRecord) -> None:
        folder = self._folder(record.network.network_id)
        dnsmasq.stop(folder)
        within(NAMED / self._name(record.network.network_id), lambda: run(dnsmasq.command(folder)))

    def _change_hosts(self, record: NetworkRecord, hosts: list[GuestInterface]) -> None:
        changed = msgspec.structs.replace(record, hosts=tuple(hosts))
        if changed == record:
            return
        folder = self._folder(record.network.network_id)
        _write(folder, changed)
        files = dnsmasq.of_network(changed, folder)
        is_new = _write_files(folder, {dnsmasq.CONFIGURATION: files.pop(dnsmasq.CONFIGURATION)})
        _write_files(folder, files)
        if is_new or {each.given for each in record.hosts} - {each.given for each in hosts}:
            self._restart(changed)
        else:
            dnsmasq.read_again(folder)
        within(NAMED / self._name(record.network.network_id), lambda: _know(changed))
        self._apply_host()  # the rules name the devices of guests

    def _missing(self, record: NetworkRecord, masters: dict[str, str]) -> str:
        network = record.network
        folder = self._folder(network.network_id)
        if not self._exists(network.network_id):
            return "its namespace"
        if masters.get(network.port) != network.bridge or network.uplink not in masters:
            return "its way to its bridge or to the host"
        if dnsmasq.running(folder) is None:
            return "dnsmasq"
        return within(NAMED / self._name(network.network_id), lambda: self._missing_inside(record))

    def _missing_inside(self, record: NetworkRecord) -> str:
        """In the namespace: what is missing of the addresses and the route."""
        trie, six = (_NET / "fib_trie").read_text().split(), (_NET / "if_inet6").read_text().split()
        inside = [each.partition("/")[0] for each in record.network.addresses_inside]
        addresses4 = [*(each for each in inside if ":" not in each), record.network_end]
        addresses6 = [ipaddress.IPv6Address(each).packed.hex() for each in inside if ":" in each]
        if not set(addresses4) <= set(trie) or not set(addresses6) <= set(six):
            return "its addresses"
        if f"{HOST}\t00000000\t" not in (_NET / "route").read_text():
            return "its route"
        if record.index % ROUNDS == self._round:
            self._applied_inside.pop(record.network.network_id, None)
            self._apply_inside(record)
        return ""

    def _settle(self, record: NetworkRecord) -> None:
        """In the namespace: addresses, routes, rules."""
        _settle(record)
        self._apply_inside(record)
        _know(record)

    def _apply_inside(self, record: NetworkRecord) -> None:
        network_id, text = record.network.network_id, rules.of_network(record)
        if text != self._applied_inside.get(network_id):
            run(["nft", "-f", "-"], text)
            self._applied_inside[network_id] = text

    def _remove(self, network_id: str) -> None:
        name, folder = self._name(network_id), self._folder(network_id)
        network = LocalNetwork(network_id=network_id)
        # Before the namespace: the kernel removes them with it, but later.
        within(self._host, lambda: _unlink((network.port, network.uplink)))
        dnsmasq.stop(folder)
        if (NAMED / name).exists():
            LOG.info("Removing the namespace of network %s", name)
            run(["ip", "netns", "delete", name])
        shutil.rmtree(folder, ignore_errors=True)
        self._applied_inside.pop(network_id, None)


def _read(folder: Path) -> NetworkRecord | None:
    """Returns None if there is no record, or none that this release can read: then the network is made anew."""
    try:
        return _RECORD.from_json((folder / "network.json").read_bytes())
    except (OSError, msgspec.DecodeError):
        return None


def _write(folder: Path, record: NetworkRecord) -> None:
    _write_files(folder, {"network.json": msgspec.json.encode(record).decode()})


def _write_files(folder: Path, files: dict[str, str]) -> bool:
    """Returns whether a file has changed. dnsmasq reads them, which has a user of its own."""
    make_folder(folder)
    changed = False
    for name, text in files.items():
        path = folder / name
        if path.exists() and path.read_text() == text:
            continue
        half = path.with_name(f"{name}.part")
        half.write_text(text)
        half.chmod(0o644)
        half.rename(path)
        changed = True
    return changed


def make_folder(path: Path) -> None:
    """Whatever the umask of the process: dnsmasq has a user of its own."""
    if not path.is_dir():
        make_folder(path.parent)
        path.mkdir(exist_ok=True)
        path.chmod(0o755)


def _require_free(network: LocalNetwork) -> None:
    """In the host: raises ValueError if a route to the network would take traffic of another route or address. The caller has
    checked it; its word is not enough.
    """
    routes = [route for route in routes_of_host(_NET) if route.interface != network.uplink]
    for subnet in network.routed if network.reachable else ():
        taken = overlapping(subnet.cidr, routes)
        if taken is not None:
            raise ValueError(f"its range {subnet.cidr} overlaps {taken}")


def _has_interface(name: str) -> bool:
    with suppress(OSError):
        return bool(socket.if_nametoindex(name))
    return False


def _unlink(names: Iterable[str]) -> None:
    ip([f"link delete {name}" for name in names if _has_interface(name)])


def _forward() -> None:
    """Let this namespace forward packets."""
    _set_to_one(Path("/proc/sys/net/ipv4/ip_forward"))


def _set_to_one(path: Path) -> None:
    if path.read_text().strip() != "1":
        path.write_text("1")


def _share(size: int, text: str) -> None:
    # Terse: without the elements, of which a busy host has many.
    former = shares.of_former(run(["nft", "--terse", "list", "sets"]), size)
    run(["nft", "-f", "-"], former + text)


def _masters() -> dict[str, str]:
    """Returns the interfaces here, with the bridges that they belong to."""
    links: list[dict[str, Any]] = json.loads(run(["ip", "-json", "link", "show"]))
    return {link["ifname"]: link.get("master", "") for link in links}


def _settle(record: NetworkRecord) -> None:
    """In the namespace: addresses and routes."""
    network = record.network
    addresses = dict.fromkeys(network.addresses_inside)
    if network.six:
        addresses[f"{link_local(record.mac)}/64"] = None
    (link,) = json.loads(run(["ip", "-json", "address", "show", "dev", GUESTS]))
    there = {f"{each['local']}/{each['prefixlen']}" for each in link["addr_info"]}
    ip(
        [
            "link set lo up",
            f"address replace {ADDRESS}/32 dev lo" if network.metadata else "link set lo up",
            *(f"address delete {each} dev {GUESTS}" for each in sorted(there - addresses.keys())),
            f"link set {GUESTS} address {record.mac} mtu {network.mtu} addrgenmode none",
            f"link set {HOST} mtu {network.mtu} addrgenmode none",
            *(f"address replace {each} dev {GUESTS}{_at_once(each)}" for each in addresses if each not in there),
            f"link set {GUESTS} up",
            f"route flush dev {GUESTS} proto {_OURS}",
            *(f"route add {each.cidr} dev {GUESTS} src {ADDRESS} proto {_OURS}" for each in network.linked),
            f"address replace {record.network_end}/31 dev {HOST}",
            f"link set {HOST} up",
            f"route replace default via {record.host_end} dev {HOST}",
        ]
    )
    _forward()
    if any(network.is_gateway_of(each) for each in network.six):
        # With no way further it says so to guests, which then take IPv4.
        _set_to_one(Path("/proc/sys/net/ipv6/conf/all/forwarding"))


def _know(record: NetworkRecord) -> None:
    """In the namespace: dnsmasq takes the MAC address of a client of DHCPv6 from the neighbours of the kernel. A guest
    would answer with any.
    """
    if not record.network.six:
        return
    macs = {link_local(host.mac): host.mac for host in record.hosts}
    neighbours = json.loads(run(["ip", "-json", "-6", "neighbour", "show", "dev", GUESTS, "nud", "permanent"]) or "[]")
    there = {each["dst"]: each.get("lladdr", "") for each in neighbours}
    ip(
        [
            *(f"neighbour delete {each} dev {GUESTS}" for each in sorted(there.keys() - macs.keys())),
            *(
                f"neighbour replace {each} lladdr {mac} nud permanent dev {GUESTS}"
                for each, mac in macs.items()
                if there.get(each) != mac
            ),
        ]
    )


def _at_once(address: str) -> str:
    """Without a test whether another machine has it, in which dnsmasq could not listen there."""
    return " nodad" if ":" in address else ""


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


def _listen() -> socket.socket:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((ADDRESS, PORT))
        listening.listen(_BACKLOG)
    except OSError:
        listening.close()
        raise
    return listening
