"""A conductor that owed answers to queues that were gone stopped after 60 s, and let go of its tasks only then."""

import logging
import threading
import time

import pytest

from minova.service import PERIODIC_STOP, SERVER_STOP, PeriodicTask, RpcService


class Stuck:
    """A server and a manager: a message, and a periodic task, never come to an end."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.end = threading.Event()
        self.begun = threading.Event()

    def init_host(self) -> None: ...

    def pre_start_hook(self) -> None: ...

    def post_start_hook(self) -> None: ...

    def start(self) -> None: ...

    def periodic_tasks(self) -> list[PeriodicTask]:
        return [PeriodicTask(name="stuck", interval=60.0, work=self.work, at_once=True)]

    def work(self) -> None:
        self.begun.set()
        self.end.wait()

    def leave(self) -> None:
        self.notes.append("leave")

    def stop(self) -> None:
        self.notes.append("stop")

    def wait(self) -> None:
        self.notes.append("wait")
        self.end.wait()


def test_a_stop_leaves_first_and_does_not_wait_for_what_never_ends(caplog: pytest.LogCaptureFixture) -> None:
    stuck = Stuck()
    service = RpcService("minova-test", stuck, lambda: stuck, threading.Event(), leave=stuck.leave)
    service.start()
    assert stuck.begun.wait(30)
    begun = time.monotonic()
    service.stop()
    took = time.monotonic() - begun
    stuck.end.set()
    assert stuck.notes == ["leave", "stop", "wait", "stop"]
    # So ends each idle server of oslo.messaging: no operator should look for the reason.
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert SERVER_STOP + PERIODIC_STOP <= took < 5.0
