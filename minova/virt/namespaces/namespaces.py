"""Makes, changes and removes the namespaces of the networks of a host. It needs root's rights; `remote.py` asks for them.

    RUN/networks/NAME/network.json   the record: what the network is made from, written before anything is made
    RUN/networks/NAME/dnsmasq.*      files of its dnsmasq
    RUN/resolver/                    those of the resolver of the host
    RUN/bridges.json                 other bridges that have zones of connection tracking, by owner

RUN ends with the host, as all that is made does. Several owners write there: libvirtds of one machine, such as that of `tools/demo` beside
the machine's own. Only the owner of a network sees its guests, so none changes or removes those of another one. What the host has once is
for all of them.
"""

import contextlib
import fcntl
import ipaddress
import logging
import os
import shutil
import socket
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from minova.errors import HypervisorError
from minova.objects.guests.guest_metadata import ADDRESS, PORT
from minova.objects.network.vif import bridge_name, network_name
from minova.virt.namespaces import dnsmasq, interfaces, rules
from minova.virt.namespaces.host_rules import HostRules
from minova.virt.namespaces.kernel import NAMED, OWN, run, within
from minova.virt.namespaces.network import (
    MAX_HOSTS,
    MAX_NETWORKS,
    GuestInterface,
    LocalNetwork,
    NetworkRecord,
    is_network_id,
    namespace_name,
    require_host,
    require_interface,
    require_mac,
    require_network,
    require_network_id,
)
from minova.virt.namespaces.protocol_sets import make_sets
from minova.virt.namespaces.records import make_folder, read_record, write_files, write_record

LOG = logging.getLogger(__name__)
RUN = Path("/run/minova")
_BACKLOG = 128
# `broken` is called each 30 seconds: a program for each of 200 networks each time would take a sixth of a CPU.
ROUNDS = 10


class NetworkNamespaces:
    """Safe for threads and for several processes. Raises HypervisorError if a program fails, ValueError if an argument is
    none.

    `host`: the network namespace of the host's bridges. Names of namespaces end in `suffix`.
    `bridges` returns the bridges of the host that its configuration names for networks of the cloud.
    `owner`: the URI of the libvirtd whose guests are on the networks that are made here. A network of a release without owners is adopted
    by the first one that makes it.
    """

    def __init__(
        self,
        run: Path = RUN,
        host: Path = OWN,
        suffix: str = "",
        bridges: Callable[[], Collection[str]] = frozenset,
        owner: str = "",
    ) -> None:
        self._run = run
        self._host = host
        self._suffix = suffix
        self._bridges = bridges
        self._owner = owner
        self._lock = threading.Lock()
        self._host_rules = HostRules(run, host)
        # By network: the rules in its namespace.
        self._applied_inside: dict[str, str] = {}
        self._round = 0

    def records(self) -> dict[str, NetworkRecord]:
        """Returns the networks of the owner on this host, by their ids."""
        return {each: record for each, record in self.all_records().items() if record.owner == self._owner}

    def all_records(self) -> dict[str, NetworkRecord]:
        """Returns the networks of all owners."""
        records = {}
        with suppress(FileNotFoundError):
            for folder in sorted(self._networks.iterdir()):
                record = read_record(folder)
                if record is None or not is_network_id(record.network.network_id):
                    continue
                if folder == self._folder(record.network.network_id):
                    records[record.network.network_id] = record
        return records

    @property
    def run_folder(self) -> Path:
        return self._run

    def owners(self) -> set[str]:
        """Returns the owners of what is here."""
        return {record.owner for record in self.all_records().values()} | self._host_rules.owners()

    def ensure(self, network: LocalNetwork, mac: str = "") -> None:
        """Make the network, or what is missing of it, and change what differs. Its bridge must exist. `mac`: of the
        gateway of a network that is new here. Raises ValueError if it, or a name of its interfaces, is another owner's.
        """
        require_network(network)
        if mac:
            require_mac(mac)
        if network.over:
            self._require_bridge(network.over)
        with self._locked():
            record = self._record(network, mac)
            within(self._host, lambda: interfaces.require_free(network))
            if not network.subnets:  # there is nothing to serve
                self._remove(network.network_id)
                self._host_rules.apply(self.all_records().values())
                return
            name, folder = self._name(network.network_id), self._folder(network.network_id)
            if not self._exists(network.network_id) or read_record(folder) is None:
                self._remove(network.network_id)
                write_record(folder, record)
                LOG.info("Making the namespace of network %s", name)
                run(["ip", "netns", "add", name])
            write_record(folder, record)
            is_new = within(self._host, lambda: interfaces.make_pairs(record, name))
            within(NAMED / name, lambda: self._settle(record))
            within(self._host, lambda: interfaces.set_routes(record))
            self._host_rules.apply(self.all_records().values())
            self._serve(record, restart=is_new)

    def enter(self, network_id: str, host: GuestInterface) -> None:
        """Give an interface its address and its name, in place of those that it had. Idempotent. Raises ValueError if it is on
        another network.
        """
        require_host(host)
        with self._locked():
            record = self._own_record(network_id)
            if record is None:
                return
            if host in record.hosts:
                if host.address6:
                    # Its guest starts again, perhaps with a new system: that has another DUID, to which dnsmasq refuses the
                    # address while the old one has the lease.
                    self._restart(record)
                return
            self._require_on(record.network, host)
            others = [
                each for each in record.hosts if each.mac != host.mac and not {*each.addresses} & {*host.addresses}
            ]
            if len(others) >= MAX_HOSTS:
                raise ValueError(f"network {network_id} has {MAX_HOSTS} interfaces on this host")
            self._change_hosts(record, [*others, host])

    def forget(self, network_id: str, macs: Collection[str]) -> None:
        """Give these interfaces no addresses any more. Idempotent."""
        with self._locked():
            record = self._own_record(network_id)
            if record is not None:
                self._change_hosts(record, [each for each in record.hosts if each.mac not in macs])

    def remove(self, network_id: str) -> None:
        """Remove all of the network but its bridge. Idempotent."""
        with self._locked():
            if self._other_owner(network_id):
                return
            self._remove(network_id)
            self._host_rules.apply(self.all_records().values())

    def remove_all(self) -> None:
        """Remove what is here for the owner, whose libvirtd is gone."""
        for network_id in self.records():
            self.remove(network_id)
        self.track(())

    def broken(self) -> dict[str, str]:
        """Returns what is missing of networks of the owner, by their ids. Rules are not compared but made anew meanwhile: those of
        the host each time, those of a network each ROUNDS times.
        """
        with self._locked():
            self._host_rules.forget()
            self._round = (self._round + 1) % ROUNDS
            records = self.all_records()
            masters = within(self._host, interfaces.masters)
            missing = {
                network_id: self._missing(record, masters)
                for network_id, record in records.items()
                if record.owner == self._owner
            }
            # A process may have ended between the last network and the resolver.
            if records or self._host_rules.is_serving:
                self._host_rules.apply(records.values())
            return {network_id: what for network_id, what in missing.items() if what}

    def track(self, bridges: Collection[str]) -> None:
        """Track the connections over each of these bridges for themselves, in place of those that the owner has named before."""
        for bridge in bridges:
            self._require_bridge(bridge)
        with self._locked():
            self._host_rules.track(self._owner, bridges)
            self._host_rules.apply(self.all_records().values())

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
        if self._other_owner(network_id):
            raise ValueError(self._refusal(network_id))
        return within(self._namespace(network_id), _listen)

    def connect(self, network_id: str, address: str, port: int, timeout: float) -> socket.socket:
        """Returns a connection to a guest of the network, made inside it. It changes nothing, so it may be any owner's."""
        namespace, record = self._namespace(network_id), read_record(self._folder(network_id))
        guest = ipaddress.IPv4Address(address)
        if not 0 < port < 2**16:
            raise ValueError(f"{port} is no port")
        network = LocalNetwork(network_id=network_id) if record is None else record.network
        subnets = network.routed_subnets + network.linked_subnets
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

    def _require_on(self, network: LocalNetwork, host: GuestInterface) -> None:
        """Raises ValueError if the interface is on another network: some rules of bridges hold for a device, whichever
        network names it.
        """
        for other in self.all_records().values():
            if other.network.network_id == network.network_id:
                continue
            taken = {each.tap for each in other.hosts if each.tap}
            if other.network.bridge == network.bridge:
                taken |= {each.mac for each in other.hosts}
            if taken & {host.tap, host.mac}:
                raise ValueError(f"interface {host.mac} ({host.tap or 'no device'}) is on another network of this host")
        # Not each guest is in a record: its network may give it no addresses.
        bridge = within(self._host, interfaces.masters).get(host.tap, "") if host.tap else ""
        if bridge not in ("", network.bridge):
            raise ValueError(f"interface {host.mac} ({host.tap}) is on bridge {bridge}, not on {network.bridge}")

    @property
    def _networks(self) -> Path:
        return self._run / "networks"

    def _name(self, network_id: str) -> str:
        """Raises ValueError for what is no ID of a network: all names here are made of this one."""
        require_network_id(network_id)
        return namespace_name(network_id, self._suffix)

    def _namespace(self, network_id: str) -> Path:
        if read_record(self._folder(network_id)) is None:
            raise ValueError(f"network {network_id!r} is not on this host")
        return NAMED / self._name(network_id)

    def _folder(self, network_id: str) -> Path:
        return self._networks / self._name(network_id)

    def _own_record(self, network_id: str) -> NetworkRecord | None:
        """Returns None also for a network of another owner."""
        return None if self._other_owner(network_id) else read_record(self._folder(network_id))

    def _other_owner(self, network_id: str) -> str:
        """Returns the owner of the network if it is another one; "": it is not."""
        record = read_record(self._folder(network_id))
        return "" if record is None or record.owner == self._owner else record.owner

    def _has_namesake(self, network_id: str) -> bool:
        """Whether interfaces of another network here have the names of those of this one, which contain only the first
        digits of its ID. The other's folder shows that, also if its record cannot be read.
        """
        own, prefix = self._name(network_id), network_name("")
        others = {folder.name for folder in self._networks.iterdir()} - {own}
        return any(bridge_name(each.removeprefix(prefix)) == bridge_name(network_id) for each in others)

    def _refusal(self, network_id: str) -> str:
        return f"network {network_id} is on this host for the guests of libvirt at {self._other_owner(network_id)}"

    def _exists(self, network_id: str) -> bool:
        """Whether the namespace is there: a name without one is a plain file."""
        path = NAMED / self._name(network_id)
        return path.exists() and path.stat().st_dev != path.parent.stat().st_dev

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        with self._lock:
            make_folder(self._networks)
            handle = os.open(self._run / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX)
                yield
            finally:
                os.close(handle)

    def _record(self, network: LocalNetwork, mac: str) -> NetworkRecord:
        if self._other_owner(network.network_id):
            raise ValueError(self._refusal(network.network_id))
        if self._has_namesake(network.network_id):
            raise ValueError(
                f"another network of this host has interfaces with the names of those of network {network.network_id}"
            )
        old = read_record(self._folder(network.network_id))
        if old is not None:
            return msgspec.structs.replace(old, network=network, owner=self._owner)
        used_indexes = {record.index for record in self.all_records().values()}
        index = next((number for number in range(MAX_NETWORKS) if number not in used_indexes), None)
        if index is None:
            raise HypervisorError(f"this host has {MAX_NETWORKS} networks already")
        return NetworkRecord(network=network, index=index, mac=mac or network.mac, owner=self._owner)

    def _serve(self, record: NetworkRecord, *, restart: bool) -> None:
        """`restart`: dnsmasq listens on an interface that is no more."""
        folder = self._folder(record.network.network_id)
        changed = write_files(folder, dnsmasq.of_network(record, folder))
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
        write_record(folder, changed)
        files = dnsmasq.of_network(changed, folder)
        is_new = write_files(folder, {dnsmasq.CONFIGURATION: files.pop(dnsmasq.CONFIGURATION)})
        write_files(folder, files)
        if is_new or {each.served_identity for each in record.hosts} - {each.served_identity for each in hosts}:
            self._restart(changed)
        else:
            dnsmasq.read_again(folder)
        within(NAMED / self._name(record.network.network_id), lambda: interfaces.set_neighbours(changed))
        self._host_rules.apply(self.all_records().values())  # the rules name the devices of guests

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
        """Returns what is missing in the namespace of the caller's thread; "" if nothing is."""
        missing = interfaces.missing_addresses(record)
        if not missing and record.index % ROUNDS == self._round:
            self._applied_inside.pop(record.network.network_id, None)
            self._apply_inside(record)
        return missing

    def _settle(self, record: NetworkRecord) -> None:
        """Make addresses, routes and rules in the namespace of the caller's thread."""
        interfaces.set_addresses(record)
        self._apply_inside(record)
        interfaces.set_neighbours(record)

    def _apply_inside(self, record: NetworkRecord) -> None:
        network_id, text = record.network.network_id, rules.of_network(record)
        if text != self._applied_inside.get(network_id):
            run(["nft", "-f", "-"], text)
            self._applied_inside[network_id] = text

    def _remove(self, network_id: str) -> None:
        name, folder = self._name(network_id), self._folder(network_id)
        network = LocalNetwork(network_id=network_id)
        if not self._has_namesake(network_id):
            # Before the namespace: the kernel removes them with it, but later.
            within(self._host, lambda: interfaces.remove_pairs(network))
        dnsmasq.stop(folder)
        if (NAMED / name).exists():
            LOG.info("Removing the namespace of network %s", name)
            run(["ip", "netns", "delete", name])
        shutil.rmtree(folder, ignore_errors=True)
        self._applied_inside.pop(network_id, None)


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
