"""Decisions about domains whose instances were deleted while this host could not be reached. Pure.

It implements Nova's `running_deleted_instance_action`. Domains that must go for another reason are not covered: if
their instance is on another host, or their attempt was given up, they are always removed.
"""

import msgspec

from minova.objects.hosts.compute_node import DomainView
from minova.objects.servers.states import PowerState


class RunningDeleted(msgspec.Struct, frozen=True, kw_only=True):
    """`action` is noop, log, shutdown or reap. It applies to instances deleted for at least `timeout` seconds; without
    `looks` it never applies.

    `interval` is the number of seconds between two checks.
    """

    action: str = "reap"
    timeout: float = 0.0
    looks: bool = True
    interval: float = 0.0

    def reaps(self, seconds: float) -> bool:
        """Whether to remove the domain of an instance that was deleted `seconds` ago."""
        return self.looks and self.action == "reap" and seconds >= self.timeout

    def asked_of(self, domain: DomainView, seconds: float) -> str | None:
        """Returns what to do with the domain: `log`, `shutdown` or `reap`, or None for nothing."""
        if not self.looks or self.action == "noop" or seconds < self.timeout or not domain.ours:
            return None
        if self.action == "shutdown" and domain.power_state == PowerState.SHUTDOWN:
            return None
        return self.action

    def asked_of_purged(self, domain: DomainView, known_for: float) -> str | None:
        """Returns what to do with the domain of a purged instance, which this host has known for `known_for` seconds.

        With `reap`, the domain is stopped when it is found and removed at a later check, so that operators can still
        object.
        """
        if not self.looks or self.action == "noop" or not domain.ours:
            return None
        if self.action == "reap" and known_for >= max(self.timeout, self.interval):
            return "reap"
        if self.action == "log":
            return "log"
        return "shutdown" if domain.power_state != PowerState.SHUTDOWN else None
