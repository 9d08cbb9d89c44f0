"""Checks whether the broker delivers messages. While it does not, no service can be heard, so silence says nothing
about a service.
"""

from collections.abc import Callable
from contextlib import suppress

from minova import errors
from minova.context import service_context
from minova.contracts.conductor import ConductorApi

# Seconds between pings, and from the last answer until the broker counts as down: an upper limit, and a share of
# service_down_time, because the outage must be detected before that time ends.
PING_INTERVAL, PING_SHARE = 5.0, 1 / 5
DOWN_AFTER, DOWN_SHARE = 12.0, 1 / 3


class BrokerProbe:
    """`conductor` is a client, whose calls this or another conductor answers; None: the broker is always up.

    `interval`: seconds between pings. `down_time`: seconds of silence after which a service counts as down.
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
        self.interval = min(PING_INTERVAL, down_time * PING_SHARE)
        self._down_after = min(DOWN_AFTER, down_time * DOWN_SHARE)
        self._conductor = conductor
        self._host = host
        self._binary = binary
        self._clock = clock
        self._answered_at = clock()

    def ping(self) -> None:
        """Send a heartbeat the way the services do. Raises ServiceUnavailable if it does not arrive."""
        if self._conductor is None:
            return
        with suppress(errors.NotFound):  # this error is an answer, so the message arrived
            self._conductor.heartbeat(service_context(), host=self._host, binary=self._binary)
        self._answered_at = self._clock()

    def is_up(self) -> bool:
        return self._conductor is None or self._clock() - self._answered_at < self._down_after
