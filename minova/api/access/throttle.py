"""Slows down the guessing of passwords. Failures are counted by user and address, and by address alone.

A stranger cannot lock a user out: failures from one address delay that address only. The table is bounded, and the
workers of one minova-api share it. Only a monotonic clock is read.
"""

import hashlib
import math
import time
from collections.abc import Callable

import msgspec

from minova import errors
from minova.api.access.addresses import network_of
from minova.api.access.failure_table import KEY_BYTES, Failures, FailureTable
from minova.backoff import Backoff

# Failures without a delay: of one user from one address, and of any users from one address.
FREE_OF_USER = 5
FREE_OF_ADDRESS = 50
# The longest delay in seconds. Each further failure doubles the delay: 1, 2, 4 ... seconds.
BACKOFF = Backoff(first=1.0, longest=60.0)
FORGET_AFTER = 900.0  # seconds without a failure
# An entry has 36 bytes.
MAX_ENTRIES = 10_000


class TooManyFailures(errors.MinovaError):
    """`retry_after` is in whole seconds."""

    code = 429

    def __init__(self, delay: float) -> None:
        self.retry_after = math.ceil(delay)
        super().__init__(f"There were too many failed logins. Try again in {self.retry_after} s.")


class PasswordCheck(msgspec.Struct, frozen=True, kw_only=True):
    """One check of a password, which counts as a failure until it succeeds.

    `delay`: the seconds until the next attempt is allowed.
    """

    keys: tuple[bytes, bytes]
    count: int
    delay: float


class Throttle:
    """Thread-safe, and safe for processes that share the table."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, table: FailureTable | None = None) -> None:
        self._clock = clock
        self._table = FailureTable(MAX_ENTRIES) if table is None else table

    def check(self, user: str, address: str) -> None:
        """Raises TooManyFailures while the user at this address, or the address, must wait.

        Runs before any check of the password, cached or not: the answer must not tell a guesser that a guess was right.
        """
        with self._table.locked():
            self._require_unblocked(self._key(user, address), self._key(None, address))

    def begin(self, user: str, address: str) -> PasswordCheck:
        """Raises TooManyFailures as `check` does. Counts the attempt at once, so that concurrent guesses count.

        A refused attempt does not count and makes no entry: flushing the table takes many addresses.
        """
        pair, alone = self._key(user, address), self._key(None, address)
        with self._table.locked():
            self._require_unblocked(pair, alone)
            of_user = self._count(pair, FREE_OF_USER)
            of_address = self._count(alone, FREE_OF_ADDRESS)
            delay = max(of_user.blocked_until, of_address.blocked_until) - self._clock()
            return PasswordCheck(keys=(pair, alone), count=of_user.count, delay=max(delay, 0.0))

    def succeeded(self, attempt: PasswordCheck) -> None:
        """Forgets the user's failures at this address. The failures of other users at this address stay."""
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
            entry.blocked_until = now + BACKOFF.pause(entry.count - free + 1)
        self._table.put(key, entry)
        return entry

    def _key(self, user: str | None, address: str) -> bytes:
        """Returns a key of fixed size, however long the name is."""
        user_part = b"" if user is None else b"\0" + user.encode()
        return hashlib.blake2b(
            network_of(address).encode() + user_part, digest_size=KEY_BYTES, key=self._table.secret
        ).digest()
