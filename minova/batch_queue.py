"""A queue of callers whose requests are served many at a time, without a thread of its own.

The first caller serves the queue in its own thread; callers that come meanwhile wait, and the next of them serves all
that wait then. A single caller is served at once.
"""

import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")


class Ticket(Generic[A, B]):
    """The request of one caller, and its answer or error."""

    def __init__(self, asked: A) -> None:
        self.asked = asked
        self.answer: B | None = None
        self.error: BaseException | None = None
        self.done = False
        self._gate = threading.Lock()
        self._gate.acquire()

    def served(self, answer: B | BaseException) -> None:
        """Let the caller go at once, whatever else is still to be done for others."""
        if isinstance(answer, BaseException):
            self.error = answer
        else:
            self.answer = answer
        self.done = True
        self.wake()

    def outcome(self) -> B | Exception:
        """The answer or error of a request that was served. Raises an error that is no Exception."""
        if isinstance(self.error, Exception):
            return self.error
        if self.error is not None:
            raise self.error
        return self.answer  # type: ignore[return-value]

    def wait(self) -> None:
        """Wait until the request is served, or is the first in the queue."""
        self._gate.acquire()

    def wake(self) -> None:
        if self._gate.locked():
            self._gate.release()


class BatchQueue(Generic[A, B]):
    """One thread at a time calls `work`, with at most `most` tickets. `work` serves every ticket that it gets."""

    def __init__(self, work: Callable[[Sequence[Ticket[A, B]]], None], most: int) -> None:
        self._work = work
        self._most = most
        self._waiting: list[Ticket[A, B]] = []
        self._headed = False  # whether a caller works, or was woken to work
        self._entry = threading.Lock()
        self._turn = threading.Lock()

    def ask(self, asked: A) -> B:
        """The answer. Raises what `work` raised or set for this request."""
        ticket: Ticket[A, B] = Ticket(asked)
        if not self._enter([ticket]):
            ticket.wait()
        if not ticket.done:
            self._serve_waiting()
        outcome = ticket.outcome()
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def ask_all(self, asked: Sequence[A]) -> list[B | Exception]:
        """Answer or error of each of one caller's requests, in their order."""
        tickets: list[Ticket[A, B]] = [Ticket(one) for one in asked]
        if not tickets:
            return []
        first_serves = self._enter(tickets)
        for number, ticket in enumerate(tickets):
            if number or not first_serves:
                ticket.wait()
            if not ticket.done:
                self._serve_waiting()
        return [ticket.outcome() for ticket in tickets]

    def alone(self, work: Callable[[], C]) -> C:
        """Run other work while the queue's own work does not run."""
        with self._turn:
            return work()

    def _enter(self, tickets: Sequence[Ticket[A, B]]) -> bool:
        """Whether the caller serves the queue; else it waits for its tickets."""
        with self._entry:
            self._waiting += tickets
            serves, self._headed = not self._headed, True
        return serves

    def _serve_waiting(self) -> None:
        """Serve all that wait; then wake the first of those that have come meanwhile."""
        batch: list[Ticket[A, B]] = []
        try:
            with self._turn:
                with self._entry:
                    batch, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
                self._work(batch)
        except BaseException as error:
            for ticket in batch:
                if not ticket.done:
                    ticket.served(error)
            if not isinstance(error, Exception):
                raise
        finally:
            with self._entry:
                self._headed = bool(self._waiting)
                if self._waiting:
                    self._waiting[0].wake()
