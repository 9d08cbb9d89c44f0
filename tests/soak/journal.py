"""What users asked, what they were answered, and how long they waited. Safe for threads."""

import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec


class Create(msgspec.Struct, kw_only=True):
    """One request of a user, repeated with the same UUID until it is answered. Times are of time.monotonic."""

    uuid: str
    kind: str
    count: int
    sent_at: float
    answered_at: float | None = None
    refused: str = ""


class Loss(msgspec.Struct, frozen=True, kw_only=True):
    """The database has lost changes of these seconds of time.monotonic: those since the backup, or since the replica lagged, until
    no service took changes any more.
    """

    since: float
    until: float


class Guest(msgspec.Struct, frozen=True, kw_only=True):
    """Where a guest runs, and which build of its server it is: another one would have an empty disk."""

    compute: str
    attempt: int


class Journal:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.creates: dict[str, Create] = {}
        # Servers of which a delete was sent, and those of which it was acknowledged.
        self.delete_sent: set[str] = set()
        self.deleted: dict[str, float] = {}
        self.losses: list[Loss] = []
        # Set while the cloud takes no changes because its database has lost some.
        self.is_recovering = threading.Event()
        # The URL of the API that may be at another cloud's database now.
        self.misled_url: str | None = None
        # Guests that ran when the database went back in time, by the servers' UUIDs, and what operators adopted since.
        self.guests: dict[str, Guest] = {}
        self.adopted: set[str] = set()
        # Servers that were back, and were deleted once more.
        self.deleted_again: set[str] = set()
        # Set while no user begins a move.
        self.no_moves = threading.Event()
        # Servers of which a move was sent, and that an operator has evacuated.
        self.moved: set[str] = set()
        # Images that were uploaded; no user deletes any.
        self.images: set[str] = set()
        self.operations: Counter[str] = Counter()
        self.repeats: Counter[str] = Counter()
        self.violations: list[str] = []
        self.longest_wait = 0.0
        self.longest_wait_for = ""

    def create_sent(self, uuid: str, kind: str, count: int) -> None:
        with self._lock:
            self.creates[uuid] = Create(uuid=uuid, kind=kind, count=count, sent_at=time.monotonic())

    def create_answered(self, uuid: str, refused: str = "") -> None:
        with self._lock:
            create = self.creates[uuid]
            create.answered_at, create.refused = time.monotonic(), refused
            self.operations[f"create {create.kind}"] += 1
            if refused:
                self.violations.append(f"create {uuid} was refused: {refused}")

    def delete_begun(self, server: str) -> None:
        with self._lock:
            self.delete_sent.add(server)

    def delete_answered(self, server: str) -> None:
        with self._lock:
            self.deleted[server] = time.monotonic()
            self.operations["delete"] += 1

    def move_sent(self, server: str) -> None:
        with self._lock:
            self.moved.add(server)

    def move_answered(self, kind: str, *, refused: bool) -> None:
        with self._lock:
            self.operations[f"{kind}, refused" if refused else kind] += 1

    def image_uploaded(self, image: str) -> None:
        with self._lock:
            self.images.add(image)

    def ran(self, guests: Mapping[str, Guest]) -> None:
        """These guests run while the database goes back in time. Of a guest that was noted before, the first note counts."""
        with self._lock:
            self.guests = {**guests, **self.guests}

    def lost(self, loss: Loss) -> None:
        with self._lock:
            self.losses.append(loss)

    def were_adopted(self, things: Iterable[str]) -> None:
        with self._lock:
            self.adopted |= set(things)

    def were_deleted_again(self, servers: Iterable[str]) -> None:
        with self._lock:
            self.deleted_again |= set(servers)

    def may_be_lost(self, create: Create) -> bool:
        """Whether the answer may have been that of a database whose last changes were lost."""
        answered_at = create.answered_at
        return answered_at is not None and any(
            create.sent_at <= loss.until and answered_at >= loss.since for loss in self.losses
        )

    def deleted_since(self, at: float) -> set[str]:
        with self._lock:
            return {server for server, answered_at in self.deleted.items() if answered_at >= at}

    def waited(self, what: str, seconds: float) -> None:
        with self._lock:
            self.operations["requests"] += 1
            if seconds > self.longest_wait:
                self.longest_wait, self.longest_wait_for = seconds, what

    def repeated(self, reason: str) -> None:
        with self._lock:
            self.repeats[reason] += 1

    def violation(self, words: str) -> None:
        with self._lock:
            self.violations.append(words)
