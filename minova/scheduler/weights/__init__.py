"""How a weigher is written: one float per host, for the whole table or for one host; and how Nova sums them.

A host's weight is the sum over the weighers of multiplier x normalised value.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from minova.objects.request_spec import RequestSpec
from minova.scheduler.host_table import Hosts, HostTable

Floats = NDArray[np.float64]


class Weigher:
    """`minval`, `maxval`: bounds that values are clamped to, and normalised by; None takes the smallest, largest."""

    minval: float | None = None
    maxval: float | None = None

    def __init__(self, conf: Any) -> None:
        self.name = type(self).__name__
        self.multiplier = 1.0

    def weigh(self, hosts: Hosts, spec: RequestSpec) -> Any:
        raise NotImplementedError

    def column(self, hosts: HostTable, rows: NDArray[np.int64], spec: RequestSpec) -> Floats:
        """The values of some rows."""
        return np.asarray(self.weigh(hosts, spec)[rows], np.float64)

    def multipliers(self, hosts: HostTable, rows: NDArray[np.int64]) -> Any:
        """One for all, or one for each of these rows."""
        return self.multiplier


class BaseHostWeigher:
    """Base of weighers written for Nova: only its import changes."""

    minval: float | None = None
    maxval: float | None = None

    def weight_multiplier(self, host_state: Any) -> float:
        return 1.0

    def _weigh_object(self, host_state: Any, weight_properties: Any) -> float:
        raise NotImplementedError


class PerHostWeigher(Weigher):
    """Lifts a weigher written for Nova."""

    def __init__(self, lifted: Any) -> None:
        self.name = type(lifted).__name__
        self.minval, self.maxval = lifted.minval, lifted.maxval
        self._lifted = lifted

    def column(self, hosts: HostTable, rows: NDArray[np.int64], spec: RequestSpec) -> Floats:
        values = [self._lifted._weigh_object(hosts.host(int(row)), spec) for row in rows]
        return np.array(values, np.float64)

    def multipliers(self, hosts: HostTable, rows: NDArray[np.int64]) -> Any:
        return np.array([self._lifted.weight_multiplier(hosts.host(int(row))) for row in rows], np.float64)


class Weighed(NamedTuple):
    """`shares` have each weigher's part of `total`, multiplier included."""

    total: Floats
    shares: dict[str, Floats]


def normalize(values: Floats, minval: float | None, maxval: float | None) -> Floats:
    """To 0..1 between the bounds, as Nova does: when they are equal, all 0."""
    low = float(values.min()) if minval is None else minval
    high = float(values.max()) if maxval is None else maxval
    return np.zeros(len(values)) if low == high else (values - low) / (high - low)


def weigh(hosts: HostTable, rows: NDArray[np.int64], spec: RequestSpec, weighers: list[Weigher]) -> Weighed:
    """A single host is not weighed: nothing depends on it."""
    total = np.zeros(len(rows))
    shares: dict[str, Floats] = {}
    if len(rows) <= 1:
        return Weighed(total, shares)
    for weigher in weighers:
        values = weigher.column(hosts, rows, spec)
        if weigher.minval is not None or weigher.maxval is not None:
            values = np.clip(values, weigher.minval, weigher.maxval)
        share = normalize(values, weigher.minval, weigher.maxval) * weigher.multipliers(hosts, rows)
        shares[weigher.name] = share
        total += share
    return Weighed(total, shares)
