"""Pieces of one piece of work that run at the same time."""

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from minova.concurrency.outside_waits import waiting

LOG = logging.getLogger(__name__)


@contextmanager
def beside(name: str, work: Callable[[], object]) -> Iterator[None]:
    """Runs `work` in a thread while the block runs, and waits for it. Raises the error of the block, or else that of `work`."""
    failures: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001  - the caller's thread raises it
            failures.append(error)

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()

    def join() -> None:
        with waiting(name, of=lambda: () if thread.ident is None else (thread.ident,)):
            thread.join()

    try:
        yield
    except BaseException:
        join()
        if failures:
            LOG.warning("Work beside (%s) failed, too: %s", name, failures[0])
        raise
    join()
    if failures:
        raise failures[0]


def together(name: str, works: Sequence[Callable[[], object]]) -> None:
    """Does all of them, each in a thread but the first, and waits for all. Raises the error of the first one in this order that has failed."""
    if not works:
        return
    if len(works) == 1:
        works[0]()
        return
    with beside(name, lambda: together(name, works[1:])):
        works[0]()
