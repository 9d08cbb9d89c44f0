"""Slows down the guessing of passwords: failures are counted by user and address, and by address alone.

A stranger cannot lock a user out: failures from one address delay that address only. The table is bounded, and shared by the workers of
one minova-api. Only a monotonic clock is read.
"""

import hashlib
import math
import time
from collections.abc import Callable

import msgspec

from minova import errors
from minova.api.access.addresses import network_of
from minova.api.access.failure_table import KEY_BYTES, Failures, FailureTable

# Failures without a delay: of one user from one address, and of one address with any users.
FREE_OF_USER = 5
FREE_OF_ADDRESS = 50
# Each further one doubles the delay: 1, 2, 4 ... seconds.
LONGEST_DELAY = 60.0
FORGET_AFTER = 900.0  # seconds without a failure
# Of 36 bytes each.
MAX_ENTRIES = 10_000


class TooManyFailures(errors.MinovaError):
    """`retry_after` in whole seconds."""

    code = 429

    def __init__(self, delay: float) -> None:
        self.retry_after = math.ceil(delay)
        super().__init__(f"There were too many failed logins. Try again in {self.retry_after} s.")


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One check of a password, counted as a failure until it succeeds. `delay`: seconds that the next one must wait."""

    keys: tuple[bytes, bytes]
    count: int
    delay: float


class Throttle:
    """Safe for threads, and for processes with the same table."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, table: FailureTable | None = None) -> None:
        self._clock = clock
        self._table = FailureTable(MAX_ENTRIES) if table is None else table

    def check(self, user: str, address: str) -> None:
        """Raises TooManyFailures while the user must wait at this address, or the address. Comes before any look at the password,
        whether cached or not: the answer must not tell a guesser that it was right.
        """
        with self._table.locked():
            self._require_unblocked(self._key(user, address), self._key(None, address))

    def begin(self, user: str, address: str) -> Attempt:
        """Raises TooManyFailures as `check` does. The attempt counts at once, so that guesses at the same time count.

        What is refused does not count and makes no entry: to flush the table takes many addresses.
        """
        pair, alone = self._key(user, address), self._key(None, address)
        with self._table.locked():
            self._require_unblocked(pair, alone)
            of_user = self._count(pair, FREE_OF_USER)
            of_address = self._count(alone, FREE_OF_ADDRESS)
            delay = max(of_user.blocked_until, of_address.blocked_until) - self._clock()
            return Attempt(keys=(pair, alone), count=of_user.count, delay=max(delay, 0.0))

    def succeeded(self, attempt: Attempt) -> None:
        """The user's failures at this address are forgotten; those of other users at this address stay."""
        pair, alone = attempt.keys
        with self._table.locked():
            self._table.pop(pair)
            entry = self._table.get(alone)
            if entry is not None:
                entry.count -= 1
                if entry.count < FREE_OF_ADDRESS:
                    entry.blocked_until = 0.0
                self._table.put(alone, entry)

    def __len__(self) -> int:
        return len(self._table)

    def _require_unblocked(self, *keys: bytes) -> None:
        blocked = [entry.blocked_until for key in keys if (entry := self._table.get(key)) is not None]
        delay = max(blocked, default=0.0) - self._clock()
        if blocked and delay > 0:
            raise TooManyFailures(delay)

    def _count(self, key: bytes, free: int) -> Failures:
        now = self._clock()
        entry = self._table.get(key)
        if entry is None or now - entry.last > FORGET_AFTER:
            entry = Failures()
        entry.count += 1
        entry.last = now
        if entry.count >= free:
            # The exponent is bounded: 2.0 ** 1024 is an error.
            entry.blocked_until = now + min(2.0 ** min(entry.count - free, 10), LONGEST_DELAY)
        self._table.put(key, entry)
        return entry

    def _key(self, user: str | None, address: str) -> bytes:
        """Of one size, however long the name."""
        named = b"" if user is None else b"\0" + user.encode()
        return hashlib.blake2b(
            network_of(address).encode() + named, digest_size=KEY_BYTES, key=self._table.secret
        ).digest()
