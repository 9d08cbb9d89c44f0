"""The cells of all hosts as columns: what is written is read again, whatever else is written."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minova.hardware.numa_counts import counts_of, needs_of
from minova.objects.hosts.numa import NUMATopology
from minova.scheduler.hosts.numa_columns import MAX_KINDS, NumaColumns
from tests.unit.hardware import guests

topologies = st.none() | guests.hosts()


def columns_of(*written: NUMATopology | None) -> NumaColumns:
    columns = NumaColumns()
    columns.reshape(np.zeros(0, bool), len(written), np.arange(len(written)))
    for row, topology in enumerate(written):
        columns.write(row, topology)
    return columns


def holds(columns: NumaColumns, *expected: NUMATopology | None) -> bool:
    return [columns.counts(row) for row in range(len(expected))] == [
        () if topology is None else counts_of(topology) for topology in expected
    ]


@settings(max_examples=40)
@given(first=st.lists(topologies, min_size=1, max_size=4), data=st.data())
def test_what_was_written_is_read_again(first: list[NUMATopology | None], data: st.DataObject) -> None:
    columns = columns_of(*first)
    assert holds(columns, *first)
    copy = columns.copy()
    rows = np.array(data.draw(st.permutations(range(len(first)))))[: data.draw(st.integers(1, len(first)))]
    each = data.draw(topologies)
    columns.write_each(rows, each)
    assert holds(columns, *(each if row in rows else old for row, old in enumerate(first)))
    assert holds(copy, *first)


@settings(max_examples=40)
@given(first=st.lists(topologies, min_size=1, max_size=4), data=st.data())
def test_rows_go_come_and_change_their_places(first: list[NUMATopology | None], data: st.DataObject) -> None:
    columns = columns_of(*first)
    keep = np.array([data.draw(st.booleans()) for _ in first], bool)
    left = [topology for topology, stays in zip(first, keep, strict=True) if stays]
    fresh = data.draw(st.integers(0, 2))
    order = np.array(data.draw(st.permutations(range(len(left) + fresh))), np.int64)
    columns.reshape(keep, fresh, order)
    assert holds(columns, *((left + [None] * fresh)[place] for place in order))
    if fresh:
        new = data.draw(guests.hosts())
        columns.write(int(np.argmax(order)), new)
        assert columns.counts(int(np.argmax(order))) == counts_of(new)


def test_hosts_without_cells_take_no_guest_with_cells() -> None:
    needs = needs_of(guests.guest(guests.pinned()))
    assert columns_of(None, None).fitting(needs, None).passed.tolist() == [False, False]
    small, wide = guests.host(guests.cell(0)), guests.host(guests.cell(0), guests.cell(1))
    two = needs_of(guests.guest(guests.pinned(), guests.pinned(index=1)))
    assert columns_of(small, None, wide).fitting(two, None).passed.tolist() == [False, False, True]


def test_a_size_of_pages_that_a_host_lacks_gives_it_none() -> None:
    needs = needs_of(guests.guest(guests.pinned(pagesize=2048)))
    with_pages = guests.host(guests.cell(mempages=guests.pages(small=500_000, large=700)))
    columns = columns_of(guests.host(guests.cell()), with_pages)
    assert columns.fitting(needs, None).passed.tolist() == [False, True]


@pytest.mark.parametrize(("kinds", "exact"), [(MAX_KINDS, True), (MAX_KINDS + 1, False)])
def test_a_guest_of_many_kinds_of_cells_is_left_to_the_exact_fit(kinds: int, exact: bool) -> None:
    guest = needs_of(guests.guest(*(guests.shared(1, index, memory=100 + index) for index in range(kinds))))
    host = guests.host(*(guests.cell(index) for index in range(kinds)))
    fitting = columns_of(host, guests.host(guests.cell(0))).fitting(guest, None)
    assert fitting.passed.tolist() == [True, False]
    assert fitting.exact is exact
