"""Whether messages come through. While they do not, no service can be heard, and nobody's silence says anything."""

from collections.abc import Callable
from contextlib import suppress

from minova import errors
from minova.context import service_context
from minova.contracts.conductor import ConductorApi

# Seconds between tries, and since the last good one until the bus counts as broken.
TRY_INTERVAL = 5.0
BROKEN_AFTER = 12.0


class Bus:
    """`conductor` is a client, answered by this conductor or another; without one the bus always works."""

    def __init__(self, conductor: ConductorApi | None, *, host: str, binary: str, clock: Callable[[], float]) -> None:
        self._conductor = conductor
        self._host = host
        self._binary = binary
        self._clock = clock
        self._worked_at = clock()

    def try_out(self) -> None:
        """Send a heartbeat the way the services do. ServiceUnavailable: it does not come through."""
        if self._conductor is None:
            return
        with suppress(errors.NotFound):  # it came through all the same
            self._conductor.heartbeat(service_context(), host=self._host, binary=self._binary)
        self._worked_at = self._clock()

    def works(self) -> bool:
        return self._conductor is None or self._clock() - self._worked_at < BROKEN_AFTER
