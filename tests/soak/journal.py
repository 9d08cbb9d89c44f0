"""What users asked, what they were answered, and how long they waited. Safe for threads."""

import threading
import time
from collections import Counter

import msgspec


class Create(msgspec.Struct, kw_only=True):
    """One request of a user, repeated with the same UUID until it is answered. Times are of time.monotonic."""

    uuid: str
    kind: str
    count: int
    sent_at: float
    answered_at: float | None = None
    refused: str = ""


class Journal:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.creates: dict[str, Create] = {}
        # Servers of which a delete was sent, and those of which it was acknowledged.
        self.delete_sent: set[str] = set()
        self.deleted: set[str] = set()
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
            self.deleted.add(server)
            self.operations["delete"] += 1

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
