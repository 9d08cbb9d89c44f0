"""Which work proceeds, and what other work waits for."""

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from minova.concurrency.daemon_pool import DaemonPool
from minova.concurrency.outside_waits import OutsideWait, silent, waiting
from minova.concurrency.side_work import beside
from tests.waiting import wait_for

LONG = 3600.0


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Sets the time."""
    time = [0.0]
    monkeypatch.setattr("minova.concurrency.outside_waits.time.monotonic", lambda: time[0])
    return lambda seconds: time.__setitem__(0, seconds)


def here(seconds: float) -> str | None:
    return silent(threading.get_ident(), seconds)


def test_work_is_silent_when_nothing_has_come_for_some_time(now: Callable[[float], None]) -> None:
    with waiting("the image service") as wait:
        assert here(3) is None
        now(3)
        assert here(3) is None, "local work has preceded it"
        now(4)
        assert here(3) == "the image service"
        wait.moved()
        assert here(3) is None
    now(LONG)
    assert here(3) is None, "it does something else now"


def test_a_retry_is_no_sign_of_life(now: Callable[[float], None]) -> None:
    with waiting("the network service"):
        now(4)
        with waiting("the conductor service"):
            assert here(3) == "the network service"


def test_work_that_waits_for_a_thread_proceeds_while_that_one_does(now: Callable[[float], None]) -> None:
    begun, end = threading.Event(), threading.Event()
    other: list[OutsideWait] = []

    def download() -> None:
        with waiting("the image service") as wait:
            other.append(wait)
            begun.set()
            assert end.wait(60)

    thread = threading.Thread(target=download)
    thread.start()
    try:
        assert begun.wait(60)
        with waiting("a download", of=lambda: [thread.ident or 0]):
            now(4)
            assert here(3) == "a download"
            other[0].moved()
            assert here(3) is None
    finally:
        end.set()
        thread.join()


class Held:
    """Work that waits in a block until it is let go."""

    def __init__(self, block: Callable[[], AbstractContextManager[object]]) -> None:
        self._block = block
        self.go = threading.Event()

    def __call__(self) -> None:
        with self._block():
            assert self.go.wait(60)


@pytest.mark.parametrize("side", [False, True])
def test_a_pool_is_silent_if_all_of_its_work_is(side: bool) -> None:
    pool = DaemonPool("test", 0)
    assert pool.silent(0.0) == []
    outside = Held(lambda: waiting("the image service"))
    local = Held(threading.Lock)

    def with_side_work() -> None:
        with beside("the rest", outside):
            pass

    try:
        pool.spawn(with_side_work if side else outside)
        expected = ["the rest" if side else "the image service"]
        wait_for("silence", lambda: pool.silent(0.0) == expected)
        assert pool.silent(LONG) is None
        pool.spawn(local)
        wait_for("local work", lambda: pool.silent(0.0) is None)
        local.go.set()
        wait_for("silence", lambda: pool.silent(0.0) == expected)
    finally:
        for work in (outside, local):
            work.go.set()
