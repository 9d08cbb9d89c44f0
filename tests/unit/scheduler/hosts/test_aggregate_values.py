"""Values in the metadata of aggregates: texts are split, numbers are not, and the lowest number counts."""

import numpy as np
import pytest

from minova.scheduler.hosts.aggregate_values import AggregateNumber, least, texts, words
from tests.unit.scheduler.hosts import record, table_of
from tests.unit.scheduler.requests import aggregates

BOTH = aggregates({"zone": "a, b", "most": "8"}, {"zone": "c", "most": "3.5", "other": "x"})


def test_words_are_split_and_texts_are_not() -> None:
    assert words(BOTH) == {"zone": {"a", "b", "c"}, "most": {"8", "3.5"}, "other": {"x"}}
    assert texts(BOTH, "zone") == {"a, b", "c"}
    assert texts(BOTH, "missing") == set()


def test_the_lowest_number_counts_unless_one_is_no_number(caplog: pytest.LogCaptureFixture) -> None:
    assert least(BOTH, "most", float) == 3.5
    assert least(BOTH[:1], "most", int) == 8.0
    assert least(BOTH, "missing", float) is None
    assert caplog.messages == []
    assert least(BOTH, "most", int) is None
    assert least(BOTH, "zone", float) is None
    assert len(caplog.messages) == 2
    assert "Could not decode zone" in caplog.messages[1]


def test_hosts_without_a_number_have_the_default() -> None:
    table = table_of(record(1, aggregates=BOTH), record(2), record(3, aggregates=BOTH[:1]))
    number = AggregateNumber("most")
    assert number.over(table, 5.0).tolist() == [3.5, 5.0, 8.0]
    assert number.over(table, np.array([1.0, 2.0, 3.0])).tolist() == [3.5, 2.0, 8.0]
    assert [number.over(table.host(row), 5.0) for row in range(3)] == [3.5, 5.0, 8.0]
    assert AggregateNumber("missing").over(table, 5.0) == 5.0
    assert AggregateNumber("most", int).over(table, 5.0).tolist() == [5.0, 5.0, 8.0]
