"""What a host may report: the largest value is taken, and one beyond is not."""

from typing import Any

import msgspec
import pytest

from minova.objects.hosts import bounds, pci

INT32, INT64 = 2147483647, 9223372036854775807

NUMBERS = [
    (bounds.Count, 0, INT32),
    (bounds.Figure, -INT64, INT64),
    (bounds.Usage, -INT32, INT32),
    (bounds.Serial, 0, INT64),
    (bounds.PowerNumber, 0, 15),
    (bounds.CpuNumber, 0, 65535),
    (bounds.PageSize, 4, 16777216),
    (pci.NumaNode, -1, 65535),
    (bounds.Ratio, 0, 1000000000),
    (bounds.Time, 0, 1000000000000),
]
TEXTS = [
    (bounds.Line, 255),
    (bounds.Id, 36),
    (bounds.Name, 4096),
    (bounds.Reason, 262144),
    (bounds.Document, 262144),
]


def fits(value: Any, of: Any) -> bool:
    try:
        msgspec.convert(value, of)
    except msgspec.ValidationError:
        return False
    return True


@pytest.mark.parametrize(("of", "least", "most"), NUMBERS)
def test_numbers(of: Any, least: int, most: int) -> None:
    assert [fits(number, of) for number in (least - 1, least, most, most + 1)] == [False, True, True, False]


@pytest.mark.parametrize(("of", "most"), TEXTS)
def test_texts(of: Any, most: int) -> None:
    assert [fits("x" * length, of) for length in (0, most, most + 1)] == [True, True, False]


@pytest.mark.parametrize(("of", "most"), [(bounds.Core, 64), (bounds.CpuSet, 65536)])
def test_sets_of_cpus(of: Any, most: int) -> None:
    assert fits(list(range(most)), of)
    # There are no more numbers of CPUs than a set may have.
    assert not fits([*range(most), most], of)


def test_pages_are_powers_of_two_from_4_kib_to_16_gib() -> None:
    assert bounds.PAGE_SIZES[:2] == (4, 8)
    assert bounds.PAGE_SIZES[-1] == 16 * 1024 * 1024
    assert all(after == 2 * before for before, after in zip(bounds.PAGE_SIZES, bounds.PAGE_SIZES[1:], strict=False))


def test_lists_are_far_longer_than_those_of_real_hosts() -> None:
    """Other rooms bound their lists by these: a change must be made in all services at once."""
    lengths = {
        "guests": bounds.MAX_GUESTS,
        "nodes": bounds.MAX_NODES,
        "reports": bounds.MAX_REPORTS,
        "devices": bounds.MAX_DEVICES,
        "names": bounds.MAX_NAMES,
        "bridges": bounds.MAX_BRIDGES,
        "cells": bounds.MAX_CELLS,
        "found": bounds.MAX_FOUND,
    }
    assert lengths == {
        "guests": 10000,
        "nodes": 256,
        "reports": 256,
        "devices": 8192,
        "names": 1024,
        "bridges": 16384,
        "cells": 128,
        "found": 100000,
    }
