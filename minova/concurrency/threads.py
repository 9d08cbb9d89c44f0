"""Threads of a process: native threads, what ends one, and the stack traces that a crash in a C library leaves.

Call `use_native` before oslo.messaging is imported, which would otherwise choose eventlet.
"""

import contextlib
import faulthandler
import logging
import sys
import threading

from minova import errors

LOG = logging.getLogger(__name__)


def report_crashes() -> None:
    """Write the stacks of all threads to standard error if the process dies of a signal such as SIGSEGV."""
    if sys.__stderr__ is not None:
        with contextlib.suppress(OSError, ValueError):  # standard error may be closed
            faulthandler.enable(sys.__stderr__)


def log_uncaught() -> None:
    """Log what ends a thread: one line for work that the process abandons at its stop, a traceback for anything else."""
    threading.excepthook = _log


def _log(uncaught: threading.ExceptHookArgs) -> None:
    name, error = uncaught.thread.name if uncaught.thread is not None else "a thread", uncaught.exc_value
    if isinstance(error, errors.Abandoned):
        LOG.info("%s: work is left as it is, for the next start", name)
    else:
        LOG.error("Uncaught error in %s", name, exc_info=error)


def use_native() -> None:
    """Choose oslo.service's threading backend for this process. Harmless if it is already chosen.

    futurist and oslo.utils import eventlet if it is installed. That costs memory, logs a warning and is useless here: a
    None in place of the module makes them work without it.
    """
    sys.modules.setdefault("eventlet", None)  # type: ignore[arg-type]
    from oslo_service import backend  # noqa: PLC0415  - must find eventlet gone

    backend.init_backend(backend.BackendType.THREADING)
