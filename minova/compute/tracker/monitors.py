"""CPU monitors of a host. They fill the metrics of its nodes, by which the scheduler can filter and weigh.

`compute_monitors = cpu.virt_driver`, as in Nova; off unless it is set. Percentages go from 0 to 1 and cover the time
since the previous audit; those of the first audit cover the time since the host was started.
"""

import logging
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from minova import errors
from minova.objects.hosts.cpu_times import CpuTimes
from minova.virt.driver.host import HostDriver

LOG = logging.getLogger(__name__)

CPU_MONITOR = "cpu.virt_driver"
Metrics = tuple[dict[str, Any], ...]
NONE = CpuTimes(user=0, kernel=0, idle=0, iowait=0, frequency=0)


def metrics_of(now: CpuTimes, before: CpuTimes, at: datetime, source: str) -> Metrics:
    """Returns metrics with Nova's names and shape. Percentages are cut off to whole percents as in Nova; there are none
    if no time has passed.
    """
    kinds = ("user", "kernel", "idle", "iowait")
    values: dict[str, float] = {"cpu.frequency": now.frequency}
    values |= {f"cpu.{kind}.time": getattr(now, kind) for kind in kinds}
    passed = now.total - before.total
    if passed > 0:
        spent = {f"cpu.{kind}.percent": getattr(now, kind) - getattr(before, kind) for kind in kinds}
        spent["cpu.percent"] = now.used - before.used
        values |= {name: int(100 * part / passed) / 100 for name, part in spent.items()}
    stamp = at.strftime("%Y-%m-%dT%H:%M:%S.%f")
    return tuple({"name": name, "value": value, "timestamp": stamp, "source": source} for name, value in values.items())


class Monitors:
    """Called once in each audit of a node. Raises InvalidConfiguration if there is no such monitor."""

    def __init__(
        self, monitor_names: Sequence[str], driver: HostDriver, *, source: str, clock: Callable[[], float]
    ) -> None:
        for name in monitor_names:
            if name != CPU_MONITOR:
                raise errors.InvalidConfiguration(
                    f"[DEFAULT] compute_monitors: there is no monitor {name!r}, only {CPU_MONITOR}"
                )
        self._wanted = bool(monitor_names)
        self._driver = driver
        self._source = source
        self._clock = clock
        self._before: dict[str, CpuTimes] = {}

    def metrics(self, nodename: str) -> Metrics:
        """Returns an empty tuple if nothing is monitored, or if the monitor fails: an audit does not fail for that."""
        if not self._wanted:
            return ()
        try:
            now = self._driver.cpu_times(nodename)
        except errors.MinovaError as error:
            LOG.warning("Monitor %s of node %s: %s", CPU_MONITOR, nodename, error)
            return ()
        if now is None:
            LOG.debug("Monitor %s: the driver does not know what the CPUs of node %s do", CPU_MONITOR, nodename)
            return ()
        before, self._before[nodename] = self._before.get(nodename, NONE), now
        return metrics_of(now, before, datetime.fromtimestamp(self._clock(), UTC), self._source)


def nothing_monitored(nodename: str) -> Metrics:
    return ()
