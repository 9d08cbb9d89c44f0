"""A line of callers, served many at a time by whoever is at its head. No thread of its own.

The first caller works; those who come meanwhile wait, and the next of them works for all that wait then. A single
caller is served at once, in its own thread.
"""

import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

A = TypeVar("A")
B = TypeVar("B")


class Ticket(Generic[A, B]):
    """One caller's question, and what came of it."""

    def __init__(self, asked: A) -> None:
        self.asked = asked
        self.answer: B | None = None
        self.error: BaseException | None = None
        self.done = False

    def served(self, answer: B | BaseException) -> None:
        if isinstance(answer, BaseException):
            self.error = answer
        else:
            self.answer = answer
        self.done = True


class Line(Generic[A, B]):
    """`work` is called by one thread at a time, and serves every ticket it is given."""

    def __init__(self, work: Callable[[Sequence[Ticket[A, B]]], None], most: int) -> None:
        self._work = work
        self._most = most
        self._waiting: list[Ticket[A, B]] = []
        self._entry = threading.Lock()
        self._turn = threading.Lock()

    def ask(self, asked: A) -> B:
        """The answer, or the error that `work` met."""
        ticket: Ticket[A, B] = Ticket(asked)
        with self._entry:
            self._waiting.append(ticket)
        while not ticket.done:
            with self._turn:
                if not ticket.done:
                    self._serve()
        if ticket.error is not None:
            raise ticket.error
        return ticket.answer  # type: ignore[return-value]

    def alone(self, work: Callable[[], object]) -> None:
        """Do something else that `work` must not meet."""
        with self._turn:
            work()

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
