"""Ends a process whose test hangs although its time is over, with the stacks of all threads.

pytest-timeout raises an exception once, in the main thread. A test that then waits without end for a thread, or in C code, would keep
the whole run from ending. Another thread, which does not need Python's lock, ends the process after a grace period. pytest-xdist counts the test as
failed and goes on in a new process.
"""

from __future__ import annotations

import faulthandler
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from _pytest.faulthandler import fault_handler_stderr_fd_key

# Seconds after the time-out of a test in which its fixtures may end.
GRACE = 120.0


@contextmanager
def end_process_at_hang(item: pytest.Item) -> Iterator[None]:
    """Does nothing for a test without a time-out."""
    timeout = _timeout_of(item)
    if not timeout:
        yield
        return
    # pytest captures the file descriptor of stderr, and keeps a copy for what must be seen.
    stderr = item.config.stash[fault_handler_stderr_fd_key]
    faulthandler.dump_traceback_later(timeout + GRACE, exit=True, file=stderr)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


def _timeout_of(item: pytest.Item) -> float:
    """Returns seconds; 0 if there is none."""
    mark = item.get_closest_marker("timeout")
    if mark is not None:
        return float(mark.args[0] if mark.args else mark.kwargs["timeout"])
    return float(item.config.getoption("timeout") or item.config.getini("timeout") or 0)
