"""Limits of a listener: sizes and times for each client, and the number of connections."""

import functools
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence

import msgspec

from minova.api.access.addresses import Network, in_networks, network_of
from minova.api.listener.places import RequestPlace


class ConnectionLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Times in seconds, sizes in bytes. While the server itself does not read, no time counts.

    `connections_per_address`, `connections_per_network`: 0 means no limit.
    `trusted_proxies`: not counted, because all their clients share one address.
    """

    connections: int = 2000
    connections_per_address: int = 256
    connections_per_network: int = 0
    trusted_proxies: Sequence[Network] = ()
    handshake: float = 10.0
    first_byte: float = 20.0
    head: float = 20.0
    keep_alive: float = 60.0
    # A body may take `body` seconds, and one second more for each `slowest` bytes.
    body: float = 30.0
    slowest: int = 1024
    # The time in which the client reads nothing of an answer.
    stalled: float = 60.0
    # The time and the bytes that are still read after an answer that did not wait for the whole request, so that the
    # client sees the answer.
    linger: float = 2.0
    linger_bytes: int = 8 << 20
    # The size of the request line and headers; also the size of the framing of a chunked body, beyond eight times the
    # body.
    head_bytes: int = 64 << 10
    pipelined: int = 8
    # A thread reads a longer body, or one of unknown length, while it handles the request. A shorter body is read
    # before a thread begins.
    short_body: int = 64 << 10


class Lease:
    """One admitted connection.

    `evict` closes it. `refuse` ends its current request with an error. `is_sending`: whether its client has yet to read an answer.
    `place`: of its current request, if that needs one.
    """

    def __init__(self, admission: "Admission", address: str | None, network: str) -> None:
        self._admission = admission
        self.address = address
        self.network = network
        self.evict: Callable[[], None] = lambda: None
        self.refuse: Callable[[int, str], None] = lambda status, text: None
        self.is_sending: Callable[[], bool] = lambda: False
        self.place: RequestPlace | None = None
        self.is_released = False

    def waits(self, waiting: bool) -> None:
        """Sets whether the connection waits for a complete request head: then it may be closed to make room for another
        one.
        """
        self._admission.mark(self, waiting)

    def release(self) -> None:
        self._admission.release(self)


class Admission:
    """Counts connections, in total, by address, and by the network whose listener accepted them. For one thread only."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self._limits = limits
        # The oldest first.
        self._leases: OrderedDict[Lease, None] = OrderedDict()
        self._by_address: Counter[str] = Counter()
        self._by_network: Counter[str] = Counter()
        # Waiting connections, the longest waiting first.
        self._waiting: OrderedDict[Lease, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._leases)

    def admit(self, peer: str, network: str = "") -> Lease | None:
        """Returns None if there is no room. If all connections of this address or network are taken, the one of them that has
        waited longest for a request is closed. If all are taken, the network with the most gives one up. `network`: in which
        the address is meant.
        """
        limits = self._limits
        counted = None if in_networks(peer, limits.trusted_proxies) else network + network_of(peer)
        bounds: list[tuple[int, int, Callable[[], bool]]] = [
            (len(self._leases), limits.connections, lambda: self._take_from_largest(network))
        ]
        if network and limits.connections_per_network:
            of_network = self._by_network[network]
            make_room = functools.partial(self._make_room, lambda lease: lease.network == network)
            bounds.append((of_network, limits.connections_per_network, make_room))
        if counted is not None and limits.connections_per_address:
            of_address = self._by_address[counted]
            make_room = functools.partial(self._make_room, lambda lease: lease.address == counted)
            bounds.append((of_address, limits.connections_per_address, make_room))
        # The narrowest bound first: the connection that it closes counts in the wider ones as well.
        full = next((make_room for taken_count, most, make_room in reversed(bounds) if taken_count >= most), None)
        if full is not None and not full():
            return None
        lease = Lease(self, counted, network)
        self._leases[lease] = None
        self._by_network[network] += 1
        if counted is not None:
            self._by_address[counted] += 1
        self.mark(lease, waiting=True)
        return lease

    def mark(self, lease: Lease, waiting: bool) -> None:
        self._waiting.pop(lease, None)
        if waiting and lease in self._leases:
            self._waiting[lease] = None

    def release(self, lease: Lease) -> None:
        """Idempotent."""
        lease.is_released = True
        if lease not in self._leases:
            return
        del self._leases[lease]
        self._waiting.pop(lease, None)
        _take_one(self._by_network, lease.network)
        if lease.address is not None:
            _take_one(self._by_address, lease.address)

    def _make_room(self, is_counted: Callable[[Lease], bool]) -> bool:
        """Closes the one of these connections that has waited longest. Returns whether there was one."""
        for lease in self._waiting:
            if is_counted(lease) and not lease.is_sending():
                self._close(lease)
                return True
        return False

    def _take_from_largest(self, network: str) -> bool:
        """Closes a connection of the network with the most, one that waits for a request if there is one. A connection in
        the middle of a request is closed only for a smaller network: otherwise requests that are sent slowly in some
        networks would keep all others out.
        """
        largest, count = self._by_network.most_common(1)[0]
        own = self._by_network[network]
        if count <= own:
            largest = network
        if self._make_room(lambda lease: lease.network == largest):
            return True
        if count <= own + 1:  # the two networks would take it from each other in turn
            return False
        self._close(next(lease for lease in self._leases if lease.network == largest))
        return True

    def _close(self, lease: Lease) -> None:
        self.release(lease)
        lease.evict()


def _take_one(counts: Counter[str], key: str) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]
