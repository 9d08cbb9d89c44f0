"""A host whose description of itself is refused gets no new work, and users and operators see why, until a valid one comes."""

from typing import Any

import msgspec
import pytest
from sqlalchemy import select

from minova import errors
from minova.db import models
from minova.objects.hosts.numa import NUMACell, NUMATopology
from minova.objects.requests.diagnosis import ScheduleAnswer
from minova.scheduler.manager import SchedulerManager
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness, inventories_of
from tests.functional.scheduler.cloud import conf_of, flavor, spec_of, uuids

HUGE = NUMATopology((NUMACell(id=0, memory=2**62),))


def refused_report(harness: ConductorHarness, host: str) -> str | None:
    with harness.db.read() as session:
        return session.scalars(select(models.Service.refused_report).where(models.Service.host == host)).one()


def preview(harness: ConductorHarness) -> ScheduleAnswer:
    manager = SchedulerManager(conf_of(), harness.db, None, host="s")
    return manager.preview_destinations(CTX, spec_of(flavor(memory_mb=64, root_gb=0)), uuids(1))


def chosen(answer: ScheduleAnswer) -> set[str]:
    return {selection.host for some in answer.selections for selection in some}


@pytest.mark.parametrize(
    "figures",
    [{"numa_topology": HUGE}, {"vcpus": 2**63}, {"stats": {"x": "y" * 300}}, {"cpu_allocation_ratio": -1.0}],
    ids=["cell", "vcpus", "stats", "ratio"],
)
def test_bug_host_with_bad_figures_is_left_out_until_it_sends_good_ones(
    harness: ConductorHarness, figures: dict[str, Any]
) -> None:
    node = msgspec.structs.replace(harness.node("a"), **figures)
    with pytest.raises(errors.BadRequest):
        harness.conductor.finish_audit(CTX, node=node, inventories=inventories_of(harness.node("a")))
    reason = refused_report(harness, "a")
    assert reason is not None
    assert reason.startswith("finish_audit: ")
    assert refused_report(harness, "b") is None
    assert chosen(preview(harness)) in ({"b"}, {"c"})
    for host in ("b", "c"):
        harness.force_down(host)
    answer = preview(harness)
    assert answer.selections == ()
    assert reason in str(msgspec.to_builtins(answer.diagnosis))
    harness.audit("a")
    assert refused_report(harness, "a") is None
    assert chosen(preview(harness)) == {"a"}


def test_first_of_the_two_calls_of_an_audit_is_judged_too(harness: ConductorHarness) -> None:
    view = msgspec.structs.replace(harness.view("a"), numa_topology=HUGE)
    with pytest.raises(errors.BadRequest):
        harness.conductor.begin_audit(CTX, host="a", view=view)
    assert "memory" in (refused_report(harness, "a") or "")


def test_other_messages_that_are_refused_say_nothing_about_the_host(harness: ConductorHarness) -> None:
    with pytest.raises(errors.BadRequest):
        harness.conductor.begin_attempt(CTX, instance_uuid="x" * 300, attempt=1, host="a", step="spawning")
    assert refused_report(harness, "a") is None
