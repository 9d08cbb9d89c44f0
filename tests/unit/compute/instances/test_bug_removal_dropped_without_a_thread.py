"""A removal that waits for its build is done, and may be asked for again, when no thread can be had for it."""

from collections.abc import Callable

from minova.compute.instances.workers import GuestWorkers

Work = Callable[[], None]


class Threads:
    """Keeps work until it is run; refuses new work while there are none left."""

    def __init__(self) -> None:
        self.kept: list[Work] = []
        self.left = True

    def __call__(self, work: Work) -> None:
        if not self.left:
            raise RuntimeError("can't start new thread")
        self.kept.append(work)

    def run(self) -> None:
        while self.kept:
            self.kept.pop(0)()


def test_removal_behind_a_build_is_not_dropped() -> None:
    threads, done = Threads(), []
    workers = GuestWorkers(0, threads)
    workers.build("x", lambda: done.append("build"))
    workers.remove(("terminate", "x"), lambda: done.append("removal"))
    threads.left = False
    threads.run()
    assert done == ["build", "removal"]


def test_removal_may_be_asked_for_again() -> None:
    threads, done = Threads(), []
    workers = GuestWorkers(0, threads)
    workers.build("x", lambda: None)
    workers.remove(("terminate", "x"), lambda: done.append("first"))
    threads.left = False
    threads.run()
    threads.left = True
    workers.remove(("terminate", "x"), lambda: done.append("second"))
    threads.run()
    assert done == ["first", "second"]
