"""What becomes of domains whose instances were deleted while this host could not be asked. Pure.

It is Nova's `running_deleted_instance_action`. Domains that must go for another reason, because their instance is on another
host or their attempt was given up, are none of its business: they are always removed.
"""

import msgspec

from minova.objects.compute_node import DomainView
from minova.objects.states import PowerState


class RunningDeleted(msgspec.Struct, frozen=True, kw_only=True):
    """`action`: noop, log, shutdown or reap, for instances deleted for `timeout` seconds; without `looks` never.

    `interval`: seconds between two looks.
    """

    action: str = "reap"
    timeout: float = 0.0
    looks: bool = True
    interval: float = 0.0

    def reaps(self, seconds: float) -> bool:
        """Whether the domain of an instance deleted so long ago is to be removed."""
        return self.looks and self.action == "reap" and seconds >= self.timeout

    def asked_of(self, domain: DomainView, seconds: float) -> str | None:
        """What to do with it: `log`, `shutdown` or `reap`; None: nothing."""
        if not self.looks or self.action == "noop" or seconds < self.timeout or not domain.ours:
            return None
        if self.action == "shutdown" and domain.power_state == PowerState.SHUTDOWN:
            return None
        return self.action

    def asked_of_purged(self, domain: DomainView, known_for: float) -> str | None:
        """What to do with the domain of an instance that was purged, and of which this host has known so many seconds.

        It is stopped when it is found and removed at a later look, so that people can still object.
        """
        if not self.looks or self.action == "noop" or not domain.ours:
            return None
        if self.action == "reap" and known_for >= max(self.timeout, self.interval):
            return "reap"
        if self.action == "log":
            return "log"
        return "shutdown" if domain.power_state != PowerState.SHUTDOWN else None
