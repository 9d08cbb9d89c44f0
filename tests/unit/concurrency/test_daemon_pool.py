"""Threads on demand: how many there are, what they do with work that cannot begin, and when they end."""

import queue
import threading
import time

import pytest

from minova.concurrency import daemon_pool
from minova.concurrency.daemon_pool import DaemonPool
from tests.fakes.computes import wait_until


def test_work_without_any_thread_is_refused_and_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    pool, done = DaemonPool("test", 2), threading.Event()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        with pytest.raises(RuntimeError):
            pool.spawn(lambda: None)
    assert pool.spawn(done.set)
    assert done.wait(60)
    assert pool.stop(time.monotonic() + 60) == 0


def test_work_waits_for_the_threads_that_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    pool, go, done = DaemonPool("test", 2), threading.Event(), threading.Event()

    def wait() -> None:
        assert go.wait(60)

    assert pool.spawn(wait)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        assert pool.spawn(done.set)
    go.set()
    assert done.wait(60)
    assert pool.stop(time.monotonic() + 60) == 0


def threads_of(name: str) -> set[int | None]:
    return {thread.ident for thread in threading.enumerate() if thread.name == name}


def test_an_idle_thread_takes_the_next_work_and_ends_without_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemon_pool, "IDLE_SECONDS", 0.5)
    pool, idents = DaemonPool("reused", 8), queue.SimpleQueue[int]()

    def ident() -> int:
        pool.spawn(lambda: idents.put(threading.get_ident()))
        return idents.get(timeout=60)

    # A thread is idle a moment after its work has ended.
    wait_until(lambda: ident() == ident())
    wait_until(lambda: not threads_of("reused"))
    assert ident()


def test_stuck_work_gives_its_place_to_other_work_and_takes_it_back() -> None:
    pool, go, ran = DaemonPool("stuck", 1, stuck_after=0.1), threading.Event(), threading.Semaphore(0)

    def stuck() -> None:
        go.wait(60)

    pool.spawn(stuck)
    for _ in range(3):
        pool.spawn(ran.release)
    assert all(ran.acquire(timeout=60) for _ in range(3))
    go.set()
    wait_until(lambda: len(threads_of("stuck")) == 1)
    pool.spawn(ran.release)
    assert ran.acquire(timeout=60)


def test_after_the_stop_no_work_begins_and_threads_end() -> None:
    pool, begun, go = DaemonPool("stopped", 1), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        go.wait(60)

    late: list[int] = []
    assert pool.spawn(work)
    assert begun.wait(60)
    assert pool.spawn(lambda: late.append(1))
    assert pool.stop(0.0) == 1
    assert not pool.spawn(lambda: late.append(2))
    go.set()
    assert pool.stop(time.monotonic() + 60) == 0
    wait_until(lambda: not threads_of("stopped"))
    assert late == []
