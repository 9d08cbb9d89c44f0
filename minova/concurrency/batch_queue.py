"""A queue that serves the requests of several callers together, without a thread of its own.

The first caller serves the queue in its own thread. Callers that arrive meanwhile wait, and the first of them then
serves all requests that wait. A single caller is served at once.
"""

import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")


class QueuedRequest(Generic[A, B]):
    """The request of one caller, with its answer or error.

    Unlike a concurrent.futures.Future, it can also wake its caller before there is an answer, so that the caller serves
    the queue.
    """

    def __init__(self, request: A) -> None:
        self.request = request
        self.answer: B | None = None
        self.error: BaseException | None = None
        self.done = False
        self._gate = threading.Lock()
        self._gate.acquire()

    def served(self, answer: B | BaseException) -> None:
        """Release the caller at once, even if other requests are not served yet."""
        if isinstance(answer, BaseException):
            self.error = answer
        else:
            self.answer = answer
        self.done = True
        self.wake()

    def outcome(self) -> B | Exception:
        """Returns the answer or the error of a served request. Raises the error if it is not an Exception."""
        if isinstance(self.error, Exception):
            return self.error
        if self.error is not None:
            raise self.error
        return self.answer  # type: ignore[return-value]

    def wait(self) -> None:
        """Wait until this request is served or is the first in the queue."""
        self._gate.acquire()

    def wake(self) -> None:
        if self._gate.locked():
            self._gate.release()


def serve_together(
    queued: Sequence[QueuedRequest[A, B]],
    together: Callable[[Sequence[QueuedRequest[A, B]]], None],
    alone: Callable[[A], B],
    *,
    stop_at: tuple[type[Exception], ...] = (),
) -> None:
    """Serve several requests in one piece of work, then each request that is not served yet on its own, so that a
    request never fails its neighbours.

    `together` serves all requests that it can. An error of `alone` becomes the answer of its caller. An error in
    `stop_at` is raised instead, because it concerns all requests that are not served yet.
    """
    if len(queued) > 1:
        together(queued)
    for entry in queued:
        if entry.done:
            continue
        try:
            entry.served(alone(entry.request))
        except stop_at:
            raise
        except Exception as error:  # noqa: BLE001  - its caller gets it
            entry.served(error)


class BatchQueue(Generic[A, B]):
    """One thread at a time calls `work`, with at most `limit` requests. `work` serves each of them."""

    def __init__(self, work: Callable[[Sequence[QueuedRequest[A, B]]], None], limit: int) -> None:
        self._work = work
        self._limit = limit
        self._waiting: list[QueuedRequest[A, B]] = []
        self._headed = False  # whether a caller serves the queue, or was woken to serve it
        self._entry = threading.Lock()
        self._turn = threading.Lock()

    def ask(self, request: A) -> B:
        """Returns the answer. Raises what `work` raised or set for this request."""
        entry: QueuedRequest[A, B] = QueuedRequest(request)
        if not self._enter([entry]):
            entry.wait()
        if not entry.done:
            self._serve_waiting()
        outcome = entry.outcome()
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def ask_all(self, requests: Sequence[A]) -> list[B | Exception]:
        """Returns the answer or error of each request of one caller, in their order."""
        queued: list[QueuedRequest[A, B]] = [QueuedRequest(request) for request in requests]
        if not queued:
            return []
        first_serves = self._enter(queued)
        for number, entry in enumerate(queued):
            if number or not first_serves:
                entry.wait()
            if not entry.done:
                self._serve_waiting()
        return [entry.outcome() for entry in queued]

    def run_alone(self, work: Callable[[], C]) -> C:
        """Run other work while the queue's own work does not run."""
        with self._turn:
            return work()

    def _enter(self, queued: Sequence[QueuedRequest[A, B]]) -> bool:
        """Returns whether the caller serves the queue. Otherwise the caller waits for its answers."""
        with self._entry:
            self._waiting += queued
            serves, self._headed = not self._headed, True
        return serves

    def _serve_waiting(self) -> None:
        """Serve the waiting requests, up to the limit; then wake the caller of the first one that still waits."""
        batch: list[QueuedRequest[A, B]] = []
        try:
            with self._turn:
                with self._entry:
                    batch, self._waiting = self._waiting[: self._limit], self._waiting[self._limit :]
                self._work(batch)
        except BaseException as error:
            for entry in batch:
                if not entry.done:
                    entry.served(error)
            if not isinstance(error, Exception):
                raise
        finally:
            with self._entry:
                self._headed = bool(self._waiting)
                if self._waiting:
                    self._waiting[0].wake()
