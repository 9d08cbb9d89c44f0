"""Whether messages come through. While they do not, no service can be heard, and nobody's silence says anything."""

from collections.abc import Callable
from contextlib import suppress

from minova import errors
from minova.context import service_context
from minova.contracts.conductor import ConductorApi

# Seconds between tries, and since the last good one until the bus counts as broken: at most, and as a share of
# service_down_time, before whose end it must be known.
TRY_INTERVAL, TRY_SHARE = 5.0, 1 / 5
BROKEN_AFTER, BROKEN_SHARE = 12.0, 1 / 3


class Bus:
    """`conductor` is a client, answered by this conductor or another; without one the bus always works. `interval`: seconds
    between tries; `down_time`: of silence, in seconds, after which a service counts as dead.
    """

    def __init__(
        self,
        conductor: ConductorApi | None,
        *,
        host: str,
        binary: str,
        down_time: float,
        clock: Callable[[], float],
    ) -> None:
        self.interval = min(TRY_INTERVAL, down_time * TRY_SHARE)
        self._broken_after = min(BROKEN_AFTER, down_time * BROKEN_SHARE)
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
        return self._conductor is None or self._clock() - self._worked_at < self._broken_after
