"""Threads of a process: native ones, and what they leave behind when a C library crashes.

Call `use_native` before oslo.messaging is imported: it would take eventlet.
"""

import contextlib
import faulthandler
import sys


def report_crashes() -> None:
    """Write the stacks of all threads to standard error if the process dies of a signal such as SIGSEGV."""
    if sys.__stderr__ is not None:
        with contextlib.suppress(OSError, ValueError):  # it may be closed
            faulthandler.enable(sys.__stderr__)


def use_native() -> None:
    """oslo.service's threading backend, for this process; harmless when chosen already.

    futurist and oslo.utils import eventlet where it is installed, which costs memory and a warning and serves
    nothing here: a None in its place makes them do without.
    """
    sys.modules.setdefault("eventlet", None)  # type: ignore[arg-type]
    from oslo_service import backend  # noqa: PLC0415  - must find eventlet gone

    backend.init_backend(backend.BackendType.THREADING)
