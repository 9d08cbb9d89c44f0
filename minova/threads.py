"""Threads of a process: native threads, and the stack traces that a crash in a C library leaves.

Call `use_native` before oslo.messaging is imported, which would otherwise choose eventlet.
"""

import contextlib
import faulthandler
import sys


def report_crashes() -> None:
    """Write the stacks of all threads to standard error if the process dies of a signal such as SIGSEGV."""
    if sys.__stderr__ is not None:
        with contextlib.suppress(OSError, ValueError):  # standard error may be closed
            faulthandler.enable(sys.__stderr__)


def use_native() -> None:
    """Choose oslo.service's threading backend for this process. Harmless if it is already chosen.

    futurist and oslo.utils import eventlet if it is installed. That costs memory, logs a warning and is useless here: a
    None in place of the module makes them work without it.
    """
    sys.modules.setdefault("eventlet", None)  # type: ignore[arg-type]
    from oslo_service import backend  # noqa: PLC0415  - must find eventlet gone

    backend.init_backend(backend.BackendType.THREADING)
