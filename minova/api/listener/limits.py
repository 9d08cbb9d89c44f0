"""What one client may take of a listener, and how long it may take; and how many connections there are."""

from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence

import msgspec

from minova.api.access.addresses import Network, in_networks, network_of


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Times in seconds, sizes in bytes. The clock of a time stops while the server itself does not read.

    `connections_per_address` 0: no limit. `trusted_proxies` are not counted: their clients share one address.
    """

    connections: int = 2000
    connections_per_address: int = 256
    trusted_proxies: Sequence[Network] = ()
    handshake: float = 10.0
    first_byte: float = 20.0
    head: float = 20.0
    keep_alive: float = 60.0
    # A body may take `body` seconds, and one second more for each `slowest` bytes.
    body: float = 30.0
    slowest: int = 1024
    # An answer of which the client takes nothing.
    stalled: float = 60.0
    # After an answer that did not wait for the whole request: what is still read, so that the client sees the answer.
    linger: float = 2.0
    linger_bytes: int = 8 << 20
    # Request line and headers; and all that frames a chunked body, beyond eight times the body.
    head_bytes: int = 64 << 10
    pipelined: int = 8
    # A longer body, or one of unknown length, is read by a thread that sends it on, and not before a thread begins.
    short_body: int = 64 << 10


class Lease:
    """The place of one connection. `evict` closes the connection."""

    def __init__(self, admission: "Admission", address: str | None) -> None:
        self._admission = admission
        self.address = address
        self.evict: Callable[[], None] = lambda: None

    def waits(self, waiting: bool) -> None:
        """Whether the connection has no whole request head: then it can make room for another one."""
        self._admission.mark(self, waiting)

    def release(self) -> None:
        self._admission.release(self)


class Admission:
    """Counts connections, in all and by address. Of one thread."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._leases: set[Lease] = set()
        self._by_address: Counter[str] = Counter()
        # Those that wait, the longest first.
        self._waiting: OrderedDict[Lease, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._leases)

    def admit(self, peer: str) -> Lease | None:
        """None: there is no room. Where all places are taken, the connection that has waited longest makes room."""
        limit = self._limits.connections_per_address
        counted = None if in_networks(peer, self._limits.trusted_proxies) else network_of(peer)
        if counted is not None and limit and self._by_address[counted] >= limit:
            return None
        if len(self._leases) >= self._limits.connections and not self._make_room():
            return None
        lease = Lease(self, counted)
        self._leases.add(lease)
        if counted is not None:
            self._by_address[counted] += 1
        self.mark(lease, waiting=True)
        return lease

    def mark(self, lease: Lease, waiting: bool) -> None:
        self._waiting.pop(lease, None)
        if waiting and lease in self._leases:
            self._waiting[lease] = None

    def release(self, lease: Lease) -> None:
        """Harmless when done already."""
        if lease not in self._leases:
            return
        self._leases.remove(lease)
        self._waiting.pop(lease, None)
        if lease.address is not None:
            self._by_address[lease.address] -= 1
            if not self._by_address[lease.address]:
                del self._by_address[lease.address]

    def _make_room(self) -> bool:
        if not self._waiting:
            return False
        lease = next(iter(self._waiting))
        self.release(lease)
        lease.evict()
        return True
