"""The record of a decision: complete counts, and as many reasons as can be read."""

from typing import Any

import pytest

from minova.scheduler.decide.chain import Rules
from minova.scheduler.decide.decision import decide
from minova.scheduler.decide.diagnosis import LOST_WHEN_FOUND, LOST_WHEN_NOT
from minova.scheduler.filters.compute import ComputeFilter
from minova.scheduler.hosts.record import ServiceFacts
from tests.unit.scheduler.hosts import CONF, record, spec_of, table_of, uuids

DOWN = ServiceFacts(forced_down=True)


def decision_of(down: int, up: int, page: int = 0) -> Any:
    """The hosts that are down come first."""
    rules = Rules(
        filters=[ComputeFilter(CONF)],
        weighers=[],
        host_subset_size=1,
        shuffle_best_same_weighed_hosts=False,
        max_placement_results=page,
        draw=lambda n: 0,
    )
    services = [DOWN] * down + [ServiceFacts()] * up
    table = table_of(*(record(number, service=service) for number, service in enumerate(services)))
    return decide(table, spec_of(), uuids(1), 0, rules)


@pytest.mark.parametrize(
    ("down", "up", "reasons"),
    [(LOST_WHEN_FOUND, 1, 20), (LOST_WHEN_FOUND + 1, 1, 20), (LOST_WHEN_NOT, 0, 1000), (LOST_WHEN_NOT + 1, 0, 1000)],
)
def test_a_step_has_so_many_reasons_and_counts_all(down: int, up: int, reasons: int) -> None:
    step = decision_of(down, up).steps[-1]
    assert (step.before, step.after, len(step.lost)) == (down + up, up, reasons)
    assert [lost.host for lost in step.lost] == [f"host{number}" for number in range(reasons)]


def test_a_filter_that_ran_page_by_page_is_one_step() -> None:
    step = decision_of(down=25, up=1, page=5).steps[1]
    assert (step.name, step.before, step.after, len(step.lost)) == ("ComputeFilter", 26, 1, LOST_WHEN_FOUND)
