"""Work in a fork of this process, which may break or hang without harm to it."""

import contextlib
import os
import signal
import time
from collections.abc import Callable

FAILED, PASSED, TIMED_OUT = "noticed", "survived", "timed out"


def begin(work: Callable[[], int], output: str = os.devnull) -> int:
    """Returns the id of the process. Its exit code is what `work` returns."""
    pid = os.fork()
    if pid:
        # Both processes do it: `end` may kill the group before the child has run.
        with contextlib.suppress(OSError):
            os.setpgid(pid, pid)
        return pid
    code = 1
    try:
        os.setpgid(0, 0)
        file = os.open(output, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(file, number)
        code = work()
    finally:
        os._exit(code)


def end(pid: int, seconds: float) -> str:
    """Waits at most so long."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return PASSED if status == 0 else FAILED
        time.sleep(0.01)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return TIMED_OUT
