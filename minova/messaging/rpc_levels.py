"""The version of each contract that may be sent while services of different releases run: `[upgrade_levels]`.

`auto` is the lowest version among the live services, as they registered. Processes with a database read it there
(`follow`); computes learn it from the conductor (`learn`). Until it is known there is no limit: a server that is too
old refuses the call.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from minova import errors
from minova.contracts.base import numbers
from minova.contracts.compute import ComputeApi
from minova.contracts.conductor import ConductorApi
from minova.contracts.scheduler import SchedulerApi
from minova.objects.hosts.service import SERVICE_VERSION

LOG = logging.getLogger(__name__)

AUTO = "auto"
# Seconds after which the next use reads the database again.
FRESH = 10.0
_CONTRACTS: Sequence[Any] = (ConductorApi, ComputeApi, SchedulerApi)
CURRENT: dict[str, str] = {each.TOPIC: each.VERSION for each in _CONTRACTS}
# The versions that earlier releases serve, indexed by the number with which their services register
# (objects/hosts/service.py).
RELEASED: tuple[Mapping[str, str], ...] = ({"conductor": "1.5", "compute": "1.1", "scheduler": "1.1"},)
assert len(RELEASED) == SERVICE_VERSION


def version_of(topic: str, service_version: int) -> str:
    """Returns the version that a service with this number serves. A service of a newer release serves every version
    known here; a number that no release has counts as the oldest one.
    """
    return RELEASED[max(service_version, 0)][topic] if service_version < SERVICE_VERSION else CURRENT[topic]


class Levels:
    """Safe for threads. Raises InvalidConfiguration for a level that is not a version of the contract."""

    def __init__(self, conf: Any, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._pinned = {topic: _checked(topic, conf.upgrade_levels[topic]) for topic in CURRENT}
        self._known: Mapping[str, str] = {}
        self._read: Callable[[], Mapping[str, int]] | None = None
        self._lock = threading.Lock()
        self._read_at = float("-inf")

    def of(self, topic: str) -> str | None:
        """Returns the newest version to send to `topic`; None if it is unknown. Does not wait for the database."""
        pinned = self._pinned.get(topic)
        if pinned is not None:
            return pinned
        self._refresh_if_old()
        return self._known.get(topic)

    def by_topic(self) -> dict[str, str]:
        """Returns the known or pinned version of each topic, for services that have no database.

        For a topic without a live service it is this release's own version. Without it, the receiver would assume the
        last release.
        """
        return {topic: self.of(topic) or current for topic, current in CURRENT.items()}

    def learn(self, versions: Mapping[str, str]) -> None:
        """Store the versions that a conductor sent. A conductor of the last release or older sends none; then they are
        the oldest.
        """
        self._know(versions or RELEASED[-1])

    def follow(self, read: Callable[[], Mapping[str, int]]) -> None:
        """`read` returns the lowest number of the live services by topic. This method waits for its first result."""
        self._read = read
        self._refresh()

    def _refresh_if_old(self) -> None:
        if self._read is None:
            return
        with self._lock:
            if self._clock() - self._read_at < FRESH:
                return
            self._read_at = self._clock()
        # Uses another thread, because this one may hold the last connection of the pool.
        threading.Thread(target=self._refresh, name="levels", daemon=True).start()

    def _refresh(self) -> None:
        assert self._read is not None
        with self._lock:
            self._read_at = self._clock()
        try:
            lowest = self._read()
        except errors.MinovaError as error:
            LOG.debug("Versions of the services are not read now: %s", error)
            return
        self._know({topic: version_of(topic, number) for topic, number in lowest.items() if topic in CURRENT})

    def _know(self, versions: Mapping[str, str]) -> None:
        if versions != self._known:
            LOG.info("Versions that every service serves: %s", dict(versions))
        self._known = dict(versions)


def _checked(topic: str, level: str) -> str | None:
    if level == AUTO:
        return None
    try:
        in_range = numbers("1.0") <= numbers(level) <= numbers(CURRENT[topic])
    except ValueError:
        in_range = False
    if not in_range:
        raise errors.InvalidConfiguration(
            f"[upgrade_levels] {topic} = {level}: expected auto or a version from 1.0 to {CURRENT[topic]}"
        )
    return level
