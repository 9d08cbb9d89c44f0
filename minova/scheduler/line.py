"""A line of callers, served many at a time by whoever is at its head. No thread of its own.

The first caller works; those who come meanwhile wait, and the next of them works for all that wait then. A single
caller is served at once, in its own thread.
"""

import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")


class Ticket(Generic[A, B]):
    """One caller's question, and what came of it."""

    def __init__(self, asked: A) -> None:
        self.asked = asked
        self.answer: B | None = None
        self.error: BaseException | None = None
        self.done = False
        self._gate = threading.Lock()
        self._gate.acquire()

    def served(self, answer: B | BaseException) -> None:
        """Its caller goes at once, whatever else is still to be done for others."""
        if isinstance(answer, BaseException):
            self.error = answer
        else:
            self.answer = answer
        self.done = True
        self.wake()

    def wait(self) -> None:
        """Until it is served, or at the head of the line."""
        self._gate.acquire()

    def wake(self) -> None:
        if self._gate.locked():
            self._gate.release()


class Line(Generic[A, B]):
    """`work` is called by one thread at a time, and serves every ticket it is given."""

    def __init__(self, work: Callable[[Sequence[Ticket[A, B]]], None], most: int) -> None:
        self._work = work
        self._most = most
        self._waiting: list[Ticket[A, B]] = []
        self._headed = False  # whether somebody works, or has been woken to
        self._entry = threading.Lock()
        self._turn = threading.Lock()

    def ask(self, asked: A) -> B:
        """The answer, or the error that `work` met."""
        ticket: Ticket[A, B] = Ticket(asked)
        with self._entry:
            self._waiting.append(ticket)
            waits, self._headed = self._headed, True
        if waits:
            ticket.wait()
        if not ticket.done:
            self._head()
        if ticket.error is not None:
            raise ticket.error
        return ticket.answer  # type: ignore[return-value]

    def alone(self, work: Callable[[], C]) -> C:
        """Do something else that `work` must not meet."""
        with self._turn:
            return work()

    def _head(self) -> None:
        """Work for all that wait; then the first of those who have come meanwhile does."""
        try:
            with self._turn:
                self._serve()
        finally:
            with self._entry:
                self._headed = bool(self._waiting)
                if self._waiting:
                    self._waiting[0].wake()

    def _serve(self) -> None:
        with self._entry:
            batch, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
        try:
            self._work(batch)
        except BaseException as error:
            for ticket in batch:
                if not ticket.done:
                    ticket.served(error)
            if not isinstance(error, Exception):
                raise
