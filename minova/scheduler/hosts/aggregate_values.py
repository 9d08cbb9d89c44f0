"""Values in the metadata of a host's aggregates. As in Nova, texts are split at commas and numbers are not."""

import logging
import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from minova.scheduler.hosts.record import AggregateFacts
from minova.scheduler.hosts.table import Hosts, HostTable

LOG = logging.getLogger(__name__)

Aggregates = Sequence[AggregateFacts]


def words(aggregates: Aggregates) -> dict[str, set[str]]:
    """Returns every key of these aggregates with all its values, split at commas."""
    values: dict[str, set[str]] = defaultdict(set)
    for aggregate in aggregates:
        for key, value in aggregate.metadata:
            values[key].update(part.strip() for part in value.split(","))
    return values


def texts(aggregates: Aggregates, key: str) -> set[str]:
    """Returns the values of one key, not split."""
    return {value for aggregate in aggregates for name, value in aggregate.metadata if name == key}


def least(aggregates: Aggregates, key: str, cast: Callable[[str], float]) -> float | None:
    """Returns the lowest number under the key; None if there is none, or if any of the values is not a number."""
    values = texts(aggregates, key)
    try:
        return min((float(cast(text)) for text in values), default=None)
    except ValueError as error:
        LOG.warning("Could not decode %s: '%s'", key, error)
        return None


class AggregateNumber:
    """`least` of all hosts as a column, with a default for hosts without a number. `cast` (int or float) parses the
    texts.
    """

    def __init__(self, key: str, cast: Callable[[str], float] = float) -> None:
        self._number = partial(_least_or_nan, key=key, cast=cast)

    def over(self, hosts: Hosts, default: Any) -> Any:
        """Returns `default`, a number or a column, with the numbers of aggregates in place of it on hosts that have
        one.
        """
        if not isinstance(hosts, HostTable):
            number = self._number(hosts.aggregates)
            return default if math.isnan(number) else number
        numbers, any_number = hosts.class_numbers("aggregates", self._number)
        if not any_number:
            return default
        ids = hosts.class_column("aggregates").ids
        return np.where(np.isnan(numbers)[ids], default, numbers[ids])


def _least_or_nan(aggregates: Aggregates, key: str, cast: Callable[[str], float]) -> float:
    number = least(aggregates, key, cast)
    return math.nan if number is None else number
