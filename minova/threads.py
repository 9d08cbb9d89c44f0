"""Chooses native threads. Call `use_native` before oslo.messaging is imported: it would take eventlet."""

import sys


def use_native() -> None:
    """oslo.service's threading backend, for this process; harmless when chosen already.

    futurist and oslo.utils import eventlet where it is installed, which costs memory and a warning and serves
    nothing here: a None in its place makes them do without.
    """
    sys.modules.setdefault("eventlet", None)  # type: ignore[arg-type]
    from oslo_service import backend  # noqa: PLC0415  - must find eventlet gone

    backend.init_backend(backend.BackendType.THREADING)
