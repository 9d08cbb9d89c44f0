"""What the metadata of a host's aggregates says: words, split at commas, and numbers, which are not (as in Nova)."""

import logging
import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minova.scheduler.hosts.class_value_cache import ClassValueCache
from minova.scheduler.hosts.record import AggregateFacts
from minova.scheduler.hosts.table import Hosts, HostTable

LOG = logging.getLogger(__name__)

Aggregates = Sequence[AggregateFacts]


def words(aggregates: Aggregates) -> dict[str, set[str]]:
    """Every key of these aggregates with all its values, split at commas."""
    found: dict[str, set[str]] = defaultdict(set)
    for aggregate in aggregates:
        for key, value in aggregate.metadata:
            found[key].update(part.strip() for part in value.split(","))
    return found


def texts(aggregates: Aggregates, key: str) -> set[str]:
    """The values under one key as they stand."""
    return {value for aggregate in aggregates for name, value in aggregate.metadata if name == key}


def least(aggregates: Aggregates, key: str, cast: Callable[[str], float]) -> float | None:
    """The least number under the key; None if there is none, or if one is no number: that one discards them all."""
    found = texts(aggregates, key)
    try:
        return min((float(cast(text)) for text in found), default=None)
    except ValueError as error:
        LOG.warning("Could not decode %s: '%s'", key, error)
        return None


class AggregateNumber:
    """`least` of all hosts as a column, with a default where there is none. `cast` (int or float) reads the texts."""

    def __init__(self, key: str, cast: Callable[[str], float] = float) -> None:
        self._numbers = ClassValueCache("aggregates", partial(_least_or_nan, key=key, cast=cast))
        self._each: NDArray[np.float64] | None = None
        self._anywhere = False

    def over(self, hosts: Hosts, default: Any) -> Any:
        """`default`, a number or column, save where aggregates say otherwise."""
        if not isinstance(hosts, HostTable):
            number = self._numbers.of_one(hosts)
            return default if math.isnan(number) else number
        each = self._numbers.of_each(hosts)
        if each is not self._each:
            self._each, self._anywhere = each, not np.isnan(each).all()
        if not self._anywhere:
            return default
        ids = hosts.class_column("aggregates").ids
        return np.where(np.isnan(each)[ids], default, each[ids])


def _least_or_nan(aggregates: Aggregates, key: str, cast: Callable[[str], float]) -> float:
    number = least(aggregates, key, cast)
    return math.nan if number is None else number
