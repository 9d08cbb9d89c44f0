"""Disks of guests that this host cannot read or write: libvirt's I/O error events, as lines of the log.

QEMU pauses a guest only if its disk has no space left, and tells it of any other error (`werror=enospc`, `rerror=report`): such a guest runs on, so
that no state of its domain says it.
"""

import logging
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import libvirt

LOG = logging.getLogger(__name__)
# Seconds between lines about one disk. QEMU sends up to one event a second for it.
REMINDER = 600.0
_CONSEQUENCES = {
    libvirt.VIR_DOMAIN_EVENT_IO_ERROR_NONE: "the guest was not told",
    libvirt.VIR_DOMAIN_EVENT_IO_ERROR_PAUSE: "the guest stands still",
    libvirt.VIR_DOMAIN_EVENT_IO_ERROR_REPORT: "the guest was told",
}


class _Said(NamedTuple):
    at: float
    since_then: int


class DiskFailures:
    """One line for a disk at its first failure, and one each ten minutes while it goes on failing. Used in one thread, that of libvirt's events."""

    def __init__(self, ticks: Callable[[], float] = time.monotonic) -> None:
        self._ticks = ticks
        self._said: dict[tuple[str, str, int], _Said] = {}

    def failed(self, domain: Any, path: str, alias: str, action: int, reason: str) -> None:
        """`path`: the disk's file; `alias`: libvirt's name of the device."""
        now = self._ticks()
        key = (domain.UUIDString(), alias, action)
        before = self._said.get(key)
        if before is not None and now - before.at < REMINDER:
            self._said[key] = before._replace(since_then=before.since_then + 1)
            return
        self._said = {each: said for each, said in self._said.items() if now - said.at < REMINDER}
        self._said[key] = _Said(now, 0)
        times = f", {before.since_then} more times since the last line" if before and before.since_then else ""
        LOG.warning(
            "Instance %s: this host cannot read or write disk %s (%s%s); %s%s",
            key[0],
            path or "without a file",
            alias,
            f", {reason}" if reason else "",
            _CONSEQUENCES.get(action, f"libvirt says {action}"),
            times,
        )
