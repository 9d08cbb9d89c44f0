"""Which hosts any sequence of guests fills in the same way. test_capacity.py has the law."""

from typing import Any

import pytest

from minova.scheduler.hosts.numa_equivalence import equivalence_key
from tests.unit.hardware.guests import cell, cpus, host, pages

PLAIN = cell(pinned_cpus=cpus(0, 1, 2))


def test_the_numbers_of_the_used_cpus_do_not_count() -> None:
    assert equivalence_key(host(PLAIN)) == equivalence_key(host(cell(pinned_cpus=cpus(0, 1, 3))))


@pytest.mark.parametrize(
    ("sentence", "changes"),
    [
        ("one thread of each of two cores, not two of one and one of another", {"pinned_cpus": cpus(0, 2, 4)}),
        ("another order of the cores", {"pinned_cpus": cpus(2, 3, 4)}),
        ("one more is taken", {"pinned_cpus": cpus(0, 1, 2, 3)}),
        ("another number of threads", {"threads": 4, "cores": 2}),
        ("other shared CPUs", {"cpuset": cpus(0, 1)}),
        ("other CPUs of the same number", {"cpuset": cpus(*range(8, 16))}),
        ("other usage", {"cpu_usage": 1}),
        ("other memory", {"memory": 8192}),
        ("other usage of memory", {"memory_usage": 1}),
        ("other pages", {"mempages": pages(small=1)}),
        ("another socket", {"socket": 1}),
        ("a dedicated CPU fewer, which was free", {"pcpuset": cpus(*range(7))}),
        ("no siblings are known", {"siblings": ()}),
    ],
)
def test_what_a_guest_can_tell_apart_counts(sentence: str, changes: dict[str, Any]) -> None:
    other = cell(**{"pinned_cpus": PLAIN.pinned_cpus, **changes})
    assert equivalence_key(host(PLAIN)) != equivalence_key(host(other)), sentence


def test_cells_are_compared_in_their_order() -> None:
    first, second = cell(0), cell(1, pinned_cpus=cpus(8))
    assert equivalence_key(host(first, second)) != equivalence_key(host(cell(0, pinned_cpus=cpus(0)), cell(1)))
    assert equivalence_key(host(first)) != equivalence_key(host(first, second))


def test_a_cell_without_known_siblings_has_cores_of_one_thread() -> None:
    full = cell(threads=1, pinned_cpus=cpus(0, 1, 2, 3))
    unknown = cell(threads=1, pinned_cpus=cpus(0, 1, 2, 3), siblings=())
    assert equivalence_key(host(full)) == equivalence_key(host(unknown))


def test_a_core_without_a_free_thread_is_as_one_that_is_not_there() -> None:
    full = cell(cores=2, pinned_cpus=cpus(0, 1))
    assert equivalence_key(host(full)) == equivalence_key(host(cell(cores=2, pinned_cpus=cpus(2, 3))))
