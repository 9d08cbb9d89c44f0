"""Slows down the guessing of passwords: failures are counted by user and address, and by address alone.

A stranger cannot lock a user out: failures from one address delay that address only. The table is this process's own, and bounded:
with several API processes a guesser has as many tries more. Only a monotonic clock is read.
"""

import hashlib
import ipaddress
import math
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence

import msgspec

from minova import errors

# Failures without a delay: of one user from one address, and of one address with any users.
FREE_OF_USER = 5
FREE_OF_ADDRESS = 50
# Each further one doubles the delay: 1, 2, 4 ... seconds.
LONGEST_DELAY = 60.0
FORGET_AFTER = 900.0  # seconds without a failure
# Entries of about 300 bytes. The one that has not failed for the longest time makes room.
MAX_ENTRIES = 10_000

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class TooManyFailures(errors.MinovaError):
    """`retry_after` in whole seconds."""

    code = 429

    def __init__(self, delay: float) -> None:
        self.retry_after = math.ceil(delay)
        super().__init__(f"There were too many failed logins. Try again in {self.retry_after} s.")


class _Failures(msgspec.Struct):
    """Times by the monotonic clock."""

    count: int = 0
    last: float = 0.0
    blocked_until: float = 0.0


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One check of a password, counted as a failure until it succeeds. `delay`: seconds that the next one must wait."""

    keys: tuple[bytes, bytes]
    count: int
    delay: float


class Throttle:
    """Safe for threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._secret = os.urandom(32)
        self._entries: OrderedDict[bytes, _Failures] = OrderedDict()

    def check(self, user: str, address: str) -> None:
        """Raises TooManyFailures while the user must wait at this address, or the address. Comes before any look at the password,
        whether cached or not: the answer must not tell a guesser that it was right.
        """
        with self._lock:
            self._require_unblocked(self._key(user, address), self._key(None, address))

    def begin(self, user: str, address: str) -> Attempt:
        """Raises TooManyFailures as `check` does. The attempt counts at once, so that guesses at the same time count.

        What is refused does not count and makes no entry: to flush the table takes many addresses.
        """
        pair, alone = self._key(user, address), self._key(None, address)
        with self._lock:
            self._require_unblocked(pair, alone)
            of_user = self._count(pair, FREE_OF_USER)
            of_address = self._count(alone, FREE_OF_ADDRESS)
            delay = max(of_user.blocked_until, of_address.blocked_until) - self._clock()
            return Attempt(keys=(pair, alone), count=of_user.count, delay=max(delay, 0.0))

    def succeeded(self, attempt: Attempt) -> None:
        """The user's failures at this address are forgotten; those of other users at this address stay."""
        pair, alone = attempt.keys
        with self._lock:
            self._entries.pop(pair, None)
            entry = self._entries.get(alone)
            if entry is not None:
                entry.count -= 1
                if entry.count < FREE_OF_ADDRESS:
                    entry.blocked_until = 0.0

    def __len__(self) -> int:
        return len(self._entries)

    def _require_unblocked(self, *keys: bytes) -> None:
        blocked = [entry.blocked_until for key in keys if (entry := self._entries.get(key)) is not None]
        delay = max(blocked, default=0.0) - self._clock()
        if blocked and delay > 0:
            raise TooManyFailures(delay)

    def _count(self, key: bytes, free: int) -> _Failures:
        now = self._clock()
        entry = self._entries.get(key)
        if entry is None or now - entry.last > FORGET_AFTER:
            entry = self._entries[key] = _Failures()
        entry.count += 1
        entry.last = now
        if entry.count >= free:
            # The exponent is bounded: 2.0 ** 1024 is an error.
            entry.blocked_until = now + min(2.0 ** min(entry.count - free, 10), LONGEST_DELAY)
        self._entries.move_to_end(key)
        while len(self._entries) > MAX_ENTRIES:
            self._entries.popitem(last=False)
        return entry

    def _key(self, user: str | None, address: str) -> bytes:
        """Of one size, however long the name."""
        named = b"" if user is None else b"\0" + user.encode()
        return hashlib.blake2b(network_of(address).encode() + named, digest_size=16, key=self._secret).digest()


def network_of(address: str) -> str:
    """Addresses that one client has at its will count as one: the /64 of an IPv6 address."""
    parsed = _parse(address)
    if isinstance(parsed, ipaddress.IPv6Address):
        return str(ipaddress.IPv6Network((parsed, 64), strict=False))
    return address if parsed is None else str(parsed)


def client_address(peer: str, forwarded_for: str, trusted: Sequence[Network]) -> str:
    """The address of the client: `peer`, or behind trusted proxies what the outermost of them has written into X-Forwarded-For.

    What stands left of that, a client may have written itself.
    """
    address = _parse(peer)
    if address is None:
        return peer
    for part in reversed(forwarded_for.split(",")):
        if not any(address in network for network in trusted):
            break
        parsed = _parse(part.strip())
        if parsed is None:
            break
        address = parsed
    return str(address)


def parse_networks(option: str, values: Sequence[str]) -> tuple[Network, ...]:
    """Raises InvalidConfiguration with the option."""
    try:
        return tuple(ipaddress.ip_network(value) for value in values)
    except ValueError as error:
        raise errors.InvalidConfiguration(f"{option}: {error}") from None


def _parse(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """An IPv4 address inside an IPv6 one is that IPv4 address."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return None
    return (parsed.ipv4_mapped or parsed) if isinstance(parsed, ipaddress.IPv6Address) else parsed
