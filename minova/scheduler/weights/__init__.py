"""How a weigher is written: one float per host, for the whole table or for one host; and how Nova sums them.

A host's weight is the sum over the weighers of multiplier x normalised value.
"""

from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from minova.objects.request_spec import RequestSpec
from minova.scheduler.aggregate_values import AggregateNumber
from minova.scheduler.host_table import Hosts, HostTable

Floats = NDArray[np.float64]


class Weigher:
    """`minval`, `maxval`: bounds that values are clamped to, and normalised by; None takes the smallest, largest.

    `option` of [filter_scheduler] is the multiplier, which metadata of that name may override in an aggregate; `sign`
    turns it round.
    """

    minval: float | None = None
    maxval: float | None = None
    option: ClassVar[str] = ""
    sign: ClassVar[int] = 1

    def __init__(self, conf: Any) -> None:
        self.name = type(self).__name__
        self.multiplier: float = getattr(conf.filter_scheduler, self.option) if self.option else 1.0
        self._override = AggregateNumber(self.option)

    def weigh(self, hosts: Hosts, spec: RequestSpec) -> Any:
        """A column, or one number that stands for all."""
        raise NotImplementedError

    def column(self, hosts: HostTable, rows: NDArray[np.int64], spec: RequestSpec) -> Floats:
        """The values of some rows."""
        return _taken(self.weigh(hosts, spec), rows)

    def multipliers(self, hosts: HostTable, rows: NDArray[np.int64]) -> Floats:
        """One for each of these rows."""
        return self.sign * _taken(self._override.over(hosts, self.multiplier), rows)


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

    def multipliers(self, hosts: HostTable, rows: NDArray[np.int64]) -> Floats:
        return np.array([self._lifted.weight_multiplier(hosts.host(int(row))) for row in rows], np.float64)


class Weighed(NamedTuple):
    """`shares` have each weigher's part of `total`, multiplier included."""

    total: Floats
    shares: dict[str, Floats]


class Parts(NamedTuple):
    """What makes one weigher's share: its values, within its bounds; these from 0 to 1; its multiplier at each host."""

    values: Floats
    normal: Floats
    multipliers: Floats


def normalize(values: Floats, minval: float | None, maxval: float | None) -> Floats:
    """To 0..1 between the bounds, as Nova does: when they are equal, all 0."""
    low = float(values.min()) if minval is None else minval
    high = float(values.max()) if maxval is None else maxval
    return np.zeros(len(values)) if low == high else (values - low) / (high - low)


def parts(weigher: Weigher, hosts: HostTable, rows: NDArray[np.int64], spec: RequestSpec) -> Parts:
    values = weigher.column(hosts, rows, spec)
    if weigher.minval is not None or weigher.maxval is not None:
        values = np.clip(values, weigher.minval, weigher.maxval)
    return Parts(values, normalize(values, weigher.minval, weigher.maxval), weigher.multipliers(hosts, rows))


def weigh(hosts: HostTable, rows: NDArray[np.int64], spec: RequestSpec, weighers: list[Weigher]) -> Weighed:
    """A single host is not weighed: nothing depends on it. A weigher that is named twice counts twice, as in Nova."""
    total = np.zeros(len(rows))
    shares: dict[str, Floats] = {}
    if len(rows) <= 1:
        return Weighed(total, shares)
    for weigher in weighers:
        _, normal, multipliers = parts(weigher, hosts, rows, spec)
        share = normal * multipliers
        shares[weigher.name] = shares.get(weigher.name, 0.0) + share
        total += share
    return Weighed(total, shares)


def _taken(values: Any, rows: NDArray[np.int64]) -> Floats:
    """Of these rows; a single number stands for all."""
    return np.asarray(values[rows], np.float64) if getattr(values, "shape", ()) else np.full(len(rows), float(values))
