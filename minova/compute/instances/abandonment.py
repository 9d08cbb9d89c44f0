"""Abandons work that does not end in time. The work stays as a crash would leave it, so that the next start resumes it.

Work calls driver and conductor through a ShutdownGate. Once the gate is closed, every such call ends with Abandoned. Abandoned
is not an Exception: no handler undoes the work, and no failure is reported.
"""

import threading
from typing import Any, TypeVar, cast

from minova.errors import Abandoned

__all__ = ["Abandoned", "ShutdownGate"]
T = TypeVar("T")


class ShutdownGate:
    """Safe for threads."""

    def __init__(self) -> None:
        self._closed = threading.Event()

    def close(self) -> None:
        self._closed.set()

    def check(self) -> None:
        """Raises Abandoned if the gate is closed."""
        if self._closed.is_set():
            raise Abandoned

    def guard(self, thing: T) -> T:
        """Returns a wrapper of `thing`. Its methods raise Abandoned if the gate is closed before or after the call."""
        return cast(T, _Guarded(thing, self))


class _Guarded:
    def __init__(self, thing: Any, gate: ShutdownGate) -> None:
        self._thing = thing
        self._gate = gate

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._thing, name)
        if not callable(value):
            return value

        def act(*args: Any, **kwargs: Any) -> Any:
            self._gate.check()
            try:
                return value(*args, **kwargs)
            finally:
                self._gate.check()

        return act
