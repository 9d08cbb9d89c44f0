"""A case of a filter, asked of one host and of a table in which the host stands between two others."""

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pytest

from minova.scheduler.filters import Filter
from tests.unit.scheduler.hosts import record, table_of
from tests.unit.scheduler.requests import options, request


class Case(msgspec.Struct, frozen=True):
    """`lost`: the reason in full, None where the host passes."""

    filter: type[Filter]
    sentence: str
    lost: str | None
    host: dict[str, Any] = {}
    asked: dict[str, Any] = {}
    options: dict[str, Any] = {}


def each(cases: Sequence[Case]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        "case", cases, ids=[f"{case.filter.__name__}: {case.sentence}".replace("[", "(") for case in cases]
    )


def check(case: Case) -> None:
    others = [record(number, host_ip="10.9.9.9") for number in (1, 3)]
    table, spec = table_of(*others, record(2, **case.host)), request(**case.asked)
    host_filter = case.filter(options(**case.options))
    assert host_filter.refusal_reason(table.host(1), spec) == case.lost
    for left in (np.ones(3, bool), np.array([False, True, False])):
        verdict = host_filter.filter_table(table, left, spec)
        assert bool(verdict.passed[1]) == (case.lost is None)
        if case.lost is not None:
            assert verdict.reason(1) == case.lost


def error_of(case: Case) -> Exception:
    """Both shapes must raise the same."""
    table, spec = table_of(record(1, **case.host)), request(**case.asked)
    host_filter = case.filter(options(**case.options))
    with pytest.raises(Exception) as of_single_host:  # noqa: PT011  - the caller looks at it
        host_filter.refusal_reason(table.host(0), spec)
    with pytest.raises(type(of_single_host.value)) as all_at_once:
        host_filter.filter_table(table, np.ones(1, bool), spec)
    assert str(all_at_once.value) == str(of_single_host.value)
    return of_single_host.value
