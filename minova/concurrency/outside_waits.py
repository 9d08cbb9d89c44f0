"""What threads wait for outside of this process, such as the bytes of an image, and whether it still comes.

The stop of a service waits for work that proceeds. Work that waits for another machine proceeds as long as something comes from there.

    local work                         proceeds
    in `waiting(WHAT)`                 proceeds for some seconds after its beginning, and after each `moved`
    in `waiting(WHAT, of=THREADS)`     proceeds while one of those threads does
    in several of them                 proceeds while all of them do: a retry is no sign of life
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

Threads = Callable[[], Sequence[int]]


class OutsideWait:
    """`of`: returns the identifiers of the threads whose work is waited for; None: something outside is waited for."""

    def __init__(self, what: str, of: Threads | None = None) -> None:
        self.what = what
        self.of = of
        self.moved_at = time.monotonic()

    def moved(self) -> None:
        """Something has come."""
        self.moved_at = time.monotonic()

    def is_silent(self, seconds: float) -> bool:
        if self.of is None:
            return time.monotonic() - self.moved_at > seconds
        return all(silent(thread, seconds) for thread in self.of())


# By the identifier of the thread, the outermost first. Only the thread itself changes its list.
_waits: dict[int, list[OutsideWait]] = {}


@contextmanager
def waiting(what: str, of: Threads | None = None) -> Iterator[OutsideWait]:
    """The block waits for `what`, such as "the image service"."""
    thread, wait = threading.get_ident(), OutsideWait(what, of)
    waits = _waits.setdefault(thread, [])
    waits.append(wait)
    try:
        yield wait
    finally:
        waits.remove(wait)
        if not waits:
            del _waits[thread]


def silent(thread: int, seconds: float) -> str | None:
    """Returns what the thread waits for, if nothing has come from there for that long; None if its work proceeds."""
    for wait in tuple(_waits.get(thread, ())):
        if wait.is_silent(seconds):
            return wait.what
    return None
