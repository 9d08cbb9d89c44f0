"""Nova's normalisation, with its oddities."""

from typing import Any

import numpy as np
import pytest

from minova.scheduler.weights import BaseHostWeigher, PerHostWeigher, Weigher, normalize, weigh
from minova.scheduler.weights.cpu import CPUWeigher
from minova.scheduler.weights.disk import DiskWeigher
from minova.scheduler.weights.ram import RAMWeigher
from tests.unit.scheduler.hosts import CONF, Options, record, spec_of, table_of
from tests.unit.scheduler.requests import per_host

ALL = [CPUWeigher(CONF), DiskWeigher(CONF), RAMWeigher(CONF)]


@pytest.mark.parametrize(
    ("sentence", "values", "minval", "normal"),
    [
        ("from the smallest to the largest", [2, 3, 4], None, [0, 0.5, 1]),
        ("equal ones become 0", [5, 5], None, [0, 0]),
        ("from 0 up: the smallest need not be 0", [2, 3, 4], 0, [0.5, 0.75, 1]),
        ("from 0 up: equal ones become 1", [5, 5], 0, [1, 1]),
        ("from 0 up: all 0 stays 0", [0, 0], 0, [0, 0]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_normalize(sentence: str, values: list[float], minval: float | None, normal: list[float]) -> None:
    assert per_host(normalize(np.array(values, float), minval, None), len(values)) == normal


def test_free_memory_vcpus_and_disk_are_summed_with_their_multipliers() -> None:
    half = record(2, memory_mb_used=16384, vcpus_used=32, local_gb_used=250)
    table = table_of(record(1), half)
    conf = Options(
        filter_scheduler=Options(ram_weight_multiplier=2.0, cpu_weight_multiplier=-1.0, disk_weight_multiplier=1.0)
    )
    weighed = weigh(table, np.arange(2), spec_of(), [RAMWeigher(conf), CPUWeigher(conf), DiskWeigher(conf)])
    assert list(weighed.total) == [2.0, 1.0]
    assert {name: per_host(share, 2) for name, share in weighed.shares.items()} == {
        "RAMWeigher": [2.0, 1.0],
        "CPUWeigher": [-1.0, -0.5],
        "DiskWeigher": [1.0, 0.5],
    }


def test_what_is_overcommitted_counts_as_nothing_free() -> None:
    table = table_of(record(1), record(2, memory_mb_used=99999))
    assert list(weigh(table, np.arange(2), spec_of(), [RAMWeigher(CONF)]).total) == [1.0, 0.0]


class Capped(BaseHostWeigher):
    """Vcpus, of which 8 are enough."""

    maxval = 8

    def _weigh_object(self, host_state: Any, weight_properties: Any) -> float:
        return float(host_state.vcpus_total)


class Uncapped(Capped):
    def weigh_objects(self, weighed_obj_list: Any, weight_properties: Any) -> Any:
        return [weighed.weight + self._weigh_object(weighed.obj, weight_properties) for weighed in weighed_obj_list]


@pytest.mark.parametrize(("lifted", "weights"), [(Capped(), [0.0, 1.0, 1.0]), (Uncapped(), [0.0, 1.0, 3.0])])
def test_bounds_are_kept_where_objects_are_weighed_one_by_one_as_in_nova(lifted: Any, weights: list[float]) -> None:
    table = table_of(record(1, vcpus=4), record(2, vcpus=8), record(3, vcpus=16))
    assert list(weigh(table, np.arange(3), spec_of(), [PerHostWeigher(lifted)]).total) == weights


def test_a_single_host_is_not_weighed() -> None:
    class Fails(Weigher):
        def weigh(self, hosts: Any, spec: Any) -> Any:
            raise AssertionError("asked")

    assert list(weigh(table_of(record()), np.arange(1), spec_of(), [Fails(CONF)]).total) == [0.0]


class PreferLastWeigher(BaseHostWeigher):
    """As a user of Nova would have written it."""

    def weight_multiplier(self, host_state: Any) -> float:
        return 10.0

    def _weigh_object(self, host_state: Any, weight_properties: Any) -> float:
        return float(host_state.nodename.removeprefix("node"))


def test_a_weigher_written_for_nova_takes_part() -> None:
    table = table_of(record(1), record(2), record(3))
    weighed = weigh(table, np.array([0, 2]), spec_of(), [PerHostWeigher(PreferLastWeigher()), *ALL])
    assert per_host(weighed.shares["PreferLastWeigher"], 2) == [0.0, 10.0]
    assert list(weighed.total) == [3.0, 13.0]
