"""Which version of each contract may be sent while services of different releases run: `[upgrade_levels]`.

`auto` is the lowest among the services that live, as they registered. Processes with a database read it there (`follow`);
computes learn it from the conductor (`learn`). Until it is known there is no limit: a server that is too old refuses the call.
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
from minova.objects.service import SERVICE_VERSION

LOG = logging.getLogger(__name__)

AUTO = "auto"
# Seconds after which the database is read again, at the next use.
FRESH = 10.0
_CONTRACTS: Sequence[Any] = (ConductorApi, ComputeApi, SchedulerApi)
CURRENT: dict[str, str] = {each.TOPIC: each.VERSION for each in _CONTRACTS}
# What releases before this one serve, by the number with which their services register (objects/service.py).
RELEASED: tuple[Mapping[str, str], ...] = ({"conductor": "1.5", "compute": "1.1", "scheduler": "1.1"},)
assert len(RELEASED) == SERVICE_VERSION


def version_of(topic: str, service_version: int) -> str:
    """What a service that registered with this number serves; one of a newer release serves all that this one knows."""
    return RELEASED[service_version][topic] if service_version < SERVICE_VERSION else CURRENT[topic]


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
        """The newest version to send to `topic`; None: not known. It does not wait for the database."""
        pinned = self._pinned.get(topic)
        if pinned is not None:
            return pinned
        self._refresh_if_old()
        return self._known.get(topic)

    def known(self) -> dict[str, str]:
        """By topic, what is known or pinned: for services that have no database. Of a topic without a living service it is
        this release's own: what says nothing of versions is taken for the last release.
        """
        return {topic: self.of(topic) or current for topic, current in CURRENT.items()}

    def learn(self, versions: Mapping[str, str]) -> None:
        """What a conductor said. One of the last release, or older, says nothing of versions: then it is the oldest."""
        self._know(versions or RELEASED[-1])

    def follow(self, read: Callable[[], Mapping[str, int]]) -> None:
        """`read` answers the lowest number of the living services by topic; its first answer is waited for."""
        self._read = read
        self._refresh()

    def _refresh_if_old(self) -> None:
        if self._read is None:
            return
        with self._lock:
            if self._clock() - self._read_at < FRESH:
                return
            self._read_at = self._clock()
        # Not in this thread, which may hold the last connection of the pool.
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
        known = numbers("1.0") <= numbers(level) <= numbers(CURRENT[topic])
    except ValueError:
        known = False
    if not known:
        raise errors.InvalidConfiguration(
            f"[upgrade_levels] {topic} = {level}: expected auto or a version from 1.0 to {CURRENT[topic]}"
        )
    return level
