"""The base classes of weighers, which give one float per host; and how Nova sums them.

A host's weight is the sum over the weighers of multiplier x normalised value.
"""

from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from minova.objects.requests.request_spec import RequestSpec
from minova.scheduler.hosts.aggregate_values import AggregateNumber
from minova.scheduler.hosts.table import Hosts, HostTable

Floats = NDArray[np.float64]
Numbers = Floats | float


class Weigher:
    """`minval`, `maxval`: values are clamped to these bounds and normalised by them; None: the smallest or largest
    value.
    `bounded`: the column must not be clamped.

    `option` of [filter_scheduler] is the multiplier; an aggregate's metadata of that name overrides it. `sign` -1
    reverses it.
    """

    minval: float | None = None
    maxval: float | None = None
    option: ClassVar[str] = ""
    sign: ClassVar[int] = 1
    bounded: ClassVar[bool] = False

    def __init__(self, conf: Any) -> None:
        self.name = type(self).__name__
        self.multiplier: float = getattr(conf.filter_scheduler, self.option) if self.option else 1.0
        self._override = AggregateNumber(self.option)

    def weigh(self, hosts: Hosts, spec: RequestSpec) -> Any:
        """Returns a column, or one number for all hosts."""
        raise NotImplementedError

    def column(self, hosts: HostTable, rows: NDArray[np.int64], spec: RequestSpec) -> Numbers:
        """Returns the values of these rows, or one number if all have the same."""
        return _values_at(self.weigh(hosts, spec), rows)

    def multipliers(self, hosts: HostTable, rows: NDArray[np.int64]) -> Numbers:
        """Returns one multiplier for each of these rows, or one for all."""
        return self.sign * _values_at(self._override.over(hosts, self.multiplier), rows)


class WeighedHost(NamedTuple):
    """An element of the list that a weigher written for Nova gets."""

    obj: Any
    weight: float = 0.0


class BaseHostWeigher:
    """Base class of weighers written for Nova: only the import changes. Override `_weigh_object` or `weigh_objects`.

    `conf` is the configuration.
    """

    minval: float | None = None
    maxval: float | None = None
    conf: Any = None

    def weight_multiplier(self, host_state: Any) -> float:
        return 1.0

    def _weigh_object(self, obj: Any, weight_properties: Any) -> float:
        raise NotImplementedError

    def weigh_objects(self, weighed_obj_list: Any, weight_properties: Any) -> Any:
        """Returns weights within the bounds. As in Nova, a class that overrides this must clamp them itself."""
        weights = np.array(
            [self._weigh_object(weighed.obj, weight_properties) for weighed in weighed_obj_list], np.float64
        )
        return _bounded(weights, self.minval, self.maxval)


class PerHostWeigher(Weigher):
    """Adapts a weigher written for Nova. It gets the hosts that are left, in the shapes of Nova's objects."""

    bounded = True

    def __init__(self, lifted: Any) -> None:
        self.name = type(lifted).__name__
        self._lifted = lifted

    @property
    def minval(self) -> float | None:  # type: ignore[override]
        """Some weighers set their bounds while they weigh."""
        return self._lifted.minval  # type: ignore[no-any-return]

    @property
    def maxval(self) -> float | None:  # type: ignore[override]
        return self._lifted.maxval  # type: ignore[no-any-return]

    def column(self, hosts: HostTable, rows: NDArray[np.int64], spec: RequestSpec) -> Floats:
        listed = [WeighedHost(hosts.host(row).nova()) for row in rows.tolist()]
        return np.array(list(self._lifted.weigh_objects(listed, spec)), np.float64)

    def multipliers(self, hosts: HostTable, rows: NDArray[np.int64]) -> Floats:
        return np.array([self._lifted.weight_multiplier(hosts.host(row).nova()) for row in rows.tolist()], np.float64)


class TotalWeights(NamedTuple):
    """`shares`: each weigher's part of `total`, multiplier included; a number if it is equal for all hosts."""

    total: Floats
    shares: dict[str, Numbers]


class ShareFactors(NamedTuple):
    """The factors of one weigher's share: its clamped values, the same normalised to 0..1, and its multipliers. Each is a
    column, or one number for all hosts.
    """

    values: Numbers
    normal: Numbers
    multipliers: Numbers


def normalize(values: Numbers, minval: float | None, maxval: float | None) -> Numbers:
    """Scales to 0..1 between the bounds, as in Nova: all 0 if the bounds are equal."""
    low = _min(values) if minval is None else minval
    high = _max(values) if maxval is None else maxval
    if low == high:
        return 0.0
    if not low:
        return values / (high - low)
    normal = values - low
    normal /= high - low
    return normal


def parts(weigher: Weigher, hosts: HostTable, rows: NDArray[np.int64], spec: RequestSpec) -> ShareFactors:
    values = weigher.column(hosts, rows, spec)
    if not weigher.bounded:
        values = _bounded(values, weigher.minval, weigher.maxval)
    return ShareFactors(values, normalize(values, weigher.minval, weigher.maxval), weigher.multipliers(hosts, rows))


def _bounded(values: Numbers, minval: float | None, maxval: float | None) -> Numbers:
    if minval is not None and _min(values) < minval:
        values = np.maximum(values, minval)
    if maxval is not None and _max(values) > maxval:
        values = np.minimum(values, maxval)
    return values


def weigh(hosts: HostTable, rows: NDArray[np.int64], spec: RequestSpec, weighers: list[Weigher]) -> TotalWeights:
    """A single host is not weighed, because the result would not matter. A weigher that is configured twice counts
    twice, as in Nova.
    """
    total = np.zeros(len(rows))
    shares: dict[str, Numbers] = {}
    if len(rows) <= 1:
        return TotalWeights(total, shares)
    for weigher in weighers:
        _, normal, multipliers = parts(weigher, hosts, rows, spec)
        share = _share(normal, multipliers)
        if not isinstance(share, float) or share:
            total += share
        shares[weigher.name] = shares[weigher.name] + share if weigher.name in shares else share
    return TotalWeights(total, shares)


def _share(normal: Numbers, multipliers: Numbers) -> Numbers:
    """Returns `normal` times the multipliers. A column `normal` belongs to this weigher alone, so the result may
    overwrite it.
    """
    if not isinstance(multipliers, float) or isinstance(normal, float):
        return normal * multipliers
    if multipliers != 1.0:
        normal *= multipliers
    return normal


def _values_at(values: Any, rows: NDArray[np.int64]) -> Numbers:
    if not getattr(values, "shape", ()):
        return float(values)
    # Rows are sorted, so if there are as many rows as values, they are all rows.
    chosen = values if len(rows) == len(values) else values[rows]
    return chosen if chosen.dtype == np.float64 else chosen.astype(np.float64)  # type: ignore[no-any-return]


def _min(values: Numbers) -> float:
    return values if isinstance(values, float) else float(np.minimum.reduce(values))


def _max(values: Numbers) -> float:
    return values if isinstance(values, float) else float(np.maximum.reduce(values))
