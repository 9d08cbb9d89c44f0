"""How a compute leaves work that does not end in time: as a crash would leave it, so that the next start resumes it.

Driver and conductor are reached through a Gate. Once it is closed every call of work that still runs ends with Abandoned,
which is no Exception: nothing undoes the work, and no failure is reported.
"""

import threading
from typing import Any, TypeVar, cast

T = TypeVar("T")


class Abandoned(BaseException):
    """The process ends, and this work with it."""


class Gate:
    """Safe for threads."""

    def __init__(self) -> None:
        self._closed = threading.Event()

    def close(self) -> None:
        self._closed.set()

    def check(self) -> None:
        """Abandoned: the gate is closed."""
        if self._closed.is_set():
            raise Abandoned

    def guard(self, thing: T) -> T:
        """The thing, whose methods raise Abandoned as soon as the gate is closed, before and after they work."""
        return cast(T, _Guarded(thing, self))


class _Guarded:
    def __init__(self, thing: Any, gate: Gate) -> None:
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
