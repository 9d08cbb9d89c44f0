"""Verdicts of a filter: masks, reasons and what is lacking."""

import numpy as np

from minova.objects.requests.checks import at_least, enough_free
from minova.scheduler.filters import all_of
from minova.scheduler.filters.image_properties import ImagePropertiesFilter
from tests.unit.scheduler.hosts import CONF, record, table_of
from tests.unit.scheduler.requests import request

ROWS = np.array([0, 2])


def test_without_checks_every_row_passes_and_none_has_a_reason() -> None:
    verdict = all_of([], 3)
    assert (verdict.passed.tolist(), verdict.applies) == ([True] * 3, False)
    assert verdict.reasons(ROWS) == verdict.kinds_of(ROWS) == ["", ""]
    assert verdict.tally(np.ones(3, bool)) == {}


def test_values_that_all_pass_have_no_reason() -> None:
    table = table_of(record(1), record(2), record(3))
    verdict = ImagePropertiesFilter(CONF).filter_table(table, np.ones(3, bool), request())
    assert verdict.passed.tolist() == [True] * 3
    assert verdict.reasons(ROWS) == ["", ""]


def test_a_row_has_the_reasons_of_all_checks_that_it_failed() -> None:
    free, units = np.array([1, 9, 1]), np.array([0, 0, 5])
    verdict = all_of([enough_free("memory", free, 5), at_least("units", units, 2)], 3)
    assert verdict.passed.tolist() == [False, False, False]
    assert verdict.reasons(ROWS) == [
        "free memory 1 < requested 5; units 0 < requested 2",
        "free memory 1 < requested 5",
    ]
    assert verdict.kinds_of(ROWS) == ["free memory, units", "free memory"]
    assert verdict.reason(1) == "units 0 < requested 2"
    # Other checks are counted for hosts that lack no resource.
    assert verdict.tally(np.array([True, True, True])) == {"not enough free memory": 2, "units < requested": 1}
    assert verdict.tally(np.array([False, True, False])) == {"units < requested": 1}
