"""Threads that cannot be started: work is refused where nothing would run it."""

import threading

import pytest

from minova.conductor.tasks.pools import Pool


def test_work_without_any_thread_is_refused_and_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    pool, done = Pool("test", 2), threading.Event()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        with pytest.raises(RuntimeError):
            pool.spawn(lambda: None)
    assert pool.spawn(done.set)
    assert done.wait(60)
    pool.stop()
    pool.join(60)


def test_work_waits_for_the_threads_that_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    pool, go, done = Pool("test", 2), threading.Event(), threading.Event()

    def wait() -> None:
        assert go.wait(60)

    assert pool.spawn(wait)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        assert pool.spawn(done.set)
    go.set()
    assert done.wait(60)
    pool.stop()
    pool.join(60)
