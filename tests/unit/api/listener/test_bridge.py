"""Threads that a pool makes, and that never keep the process."""

import threading

import pytest

from minova.api.listener.bridge import DaemonExecutor


def test_work_runs_in_daemons_and_no_more_than_the_size_at_once() -> None:
    pool = DaemonExecutor(2, "pool")
    begun, go = threading.Semaphore(0), threading.Event()

    def work() -> bool:
        begun.release()
        go.wait(30)
        return threading.current_thread().daemon

    futures = [pool.submit(work) for _ in range(5)]
    assert all(begun.acquire(timeout=30) for _ in range(2))
    assert not begun.acquire(timeout=0.05)
    go.set()
    assert [future.result(30) for future in futures] == [True] * 5
    pool.shutdown()


def test_error_reaches_the_caller() -> None:
    pool = DaemonExecutor(1, "pool")
    with pytest.raises(ValueError, match="invalid literal"):
        pool.submit(int, "a").result(30)
    assert pool.submit(len, "abc").result(30) == 3
    pool.shutdown()


def test_work_after_the_end_is_refused() -> None:
    pool = DaemonExecutor(1, "pool")
    pool.shutdown()
    with pytest.raises(RuntimeError, match="after shutdown"):
        pool.submit(len, "abc")
