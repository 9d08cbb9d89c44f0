"""What a malformed request does to a chain."""

import random

import pytest

from minova.scheduler.decide.decision import Decision, decide
from minova.scheduler.drivers.filter_scheduler import rules_of
from minova.scheduler.filters.errors import InvalidFilterInput
from tests.unit.scheduler.hosts import record, table_of, uuids
from tests.unit.scheduler.requests import options, request

WRONG = {"query": '["<", "$hypervisor_type", 3]'}


def decision_of(memory_mb: int, *chain: str) -> Decision:
    rules = rules_of(options(enabled_filters=list(chain)), random.Random(0))
    return decide(table_of(record(1), record(2)), request(memory_mb=memory_mb, hints=WRONG), uuids(1), 0, rules)


def test_it_fails_the_whole_request() -> None:
    with pytest.raises(InvalidFilterInput, match=r"Scheduler hint query: .*hypervisor_type.*TypeError"):
        decision_of(1024, "RamFilter", "JsonFilter", "DiskFilter")


def test_it_does_not_if_no_host_reaches_that_filter() -> None:
    decision = decision_of(99999, "AllHostsFilter", "RamFilter", "JsonFilter")
    assert decision.found == 0
    assert [step.name for step in decision.steps][-1] in ("RamFilter", "placement")


def test_it_does_not_if_that_filter_is_not_in_the_chain() -> None:
    assert decision_of(1024, "RamFilter").found == 1
