"""What is asked for again and again is begun once at a time."""

from collections.abc import Callable

import pytest

from minova.concurrency.single_flight import SingleFlight


class SlowWork:
    """Work waits until it is run."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []
        self.done: list[str] = []
        self.once = SingleFlight(self.waiting.append)

    def ask(self, what: str) -> None:
        self.once(what, lambda: self.done.append(what))

    def run(self) -> None:
        while self.waiting:
            self.waiting.pop(0)()


def test_what_waits_already_is_not_begun_again() -> None:
    line = SlowWork()
    for what in ("a", "b", "a"):
        line.ask(what)
    line.run()
    assert line.done == ["a", "b"]


def test_what_has_ended_is_begun_again() -> None:
    line = SlowWork()
    for _ in range(2):
        line.ask("a")
        line.run()
    assert line.done == ["a", "a"]


def test_what_has_failed_is_begun_again() -> None:
    line = SlowWork()

    def fail() -> None:
        raise RuntimeError

    line.once("a", fail)
    with pytest.raises(RuntimeError):
        line.run()
    line.ask("a")
    line.run()
    assert line.done == ["a"]


def test_what_cannot_be_begun_may_be_asked_for_again() -> None:
    line = SlowWork()

    def no_thread(work: Callable[[], None]) -> None:
        raise RuntimeError("can't start new thread")

    once = SingleFlight(no_thread)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="new thread"):
            once("a", line.run)
