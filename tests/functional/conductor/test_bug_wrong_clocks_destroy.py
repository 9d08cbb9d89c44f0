"""A conductor whose own clock was wrong destroyed every soft-deleted server and the disk of every shelved one, or destroyed at once
what was put aside while its clock was wrong. What is removed after some time goes by the cloud clock.
"""

import ast
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

import minova
from minova.db import models
from minova.objects.servers.states import PowerState
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness, new_request

HOUR, YEARS = 3600.0, 10 * 365 * 86_400.0
STEPS = [2 * HOUR, -2 * HOUR, YEARS, -YEARS]
# Modules that compare times of people, and why that destroys nothing but old records.
COMPARES_TIMES_OF_PEOPLE = {
    # Records for people, by whichever clock is behind.
    "conductor/purge.py",
    # A cleaning is repeated.
    "conductor/network/neutron/cleaning.py",
}


@pytest.fixture
def harness(harness: ConductorHarness) -> ConductorHarness:
    harness.options |= {"reclaim_instance_interval": HOUR, "shelved_offload_time": HOUR}
    harness.conductor = harness.start("one")
    return harness


def put_aside(harness: ConductorHarness) -> dict[str, str]:
    """Servers of which something is removed later, by what was done to them."""
    uuids = {kind: harness.active() for kind in ("soft_delete", "shelve", "delete", "stop")}
    harness.delete(uuids["soft_delete"])
    report: Any = {"instance_uuid": uuids["soft_delete"], "action_id": harness.action_id(uuids["soft_delete"])}
    harness.conductor.begin_action(CTX, **report, host="a")
    harness.conductor.action_succeeded(CTX, **report, host="a", power_state=int(PowerState.SHUTDOWN))
    harness.acted(uuids["shelve"], "shelve")
    harness.conductor.delete_server(new_request(), instance_uuid=uuids["delete"], force=True)
    harness.conductor.instance_deleted(CTX, instance_uuid=uuids["delete"], host="a")
    harness.acted(uuids["stop"], "stop")
    with harness.db.write() as session:
        now = harness.conductor.worker.now()
        message = {"id": uuids["stop"], "executed_at": harness.conductor.worker.at(), "executed_since": now}
        session.add(models.ExecutedMessage(**message))
    return uuids


def all_periodic_work(harness: ConductorHarness) -> None:
    harness.beat("a")
    for task in harness.conductor.periodic_tasks():
        task.work()
    harness.settle()


def kept(harness: ConductorHarness, *tables: Any) -> dict[str, Any]:
    """The states of all servers, and how many rows these tables have."""
    with harness.db.read() as session:
        query = select(models.Instance.uuid, models.Instance.vm_state, models.Instance.task_state)
        rows: dict[str, Any] = {uuid: state for uuid, *state in session.execute(query)}
        return rows | {table.__tablename__: session.scalar(select(func.count()).select_from(table)) for table in tables}


@pytest.mark.parametrize("step", STEPS)
def test_a_conductor_with_a_wrong_clock_removes_nothing_early(harness: ConductorHarness, step: float) -> None:
    put_aside(harness)
    all_periodic_work(harness)
    every_table = [mapper.class_ for mapper in models.Base.registry.mappers]
    before = kept(harness, *every_table)
    terminated = list(harness.hosts["a"].terminated)
    harness.host_step = step
    all_periodic_work(harness)
    after = kept(harness, *every_table)
    assert {name: after.get(name) for name in before if after.get(name) != before[name]} == {}
    assert harness.hosts["a"].terminated == terminated


@pytest.mark.parametrize("step", STEPS)
def test_what_a_conductor_with_a_wrong_clock_puts_aside_stays_as_long(harness: ConductorHarness, step: float) -> None:
    harness.host_step = step
    uuids = put_aside(harness)
    tables = (models.Instance, models.Image, models.ExecutedMessage, models.Allocation)
    before, terminated = kept(harness, *tables), list(harness.hosts["a"].terminated)
    harness.host_step = 0.0
    all_periodic_work(harness)
    assert kept(harness, *tables) == before
    assert harness.hosts["a"].terminated == terminated
    harness.now += HOUR + 1
    all_periodic_work(harness)
    assert harness.hosts["a"].terminated == [*terminated, uuids["soft_delete"]]
    assert harness.state(uuids["shelve"]) == "shelved/shelving_offloading on a"


@pytest.mark.parametrize("step", STEPS)
def test_a_leftover_domain_is_as_old_as_the_deletion(harness: ConductorHarness, step: float) -> None:
    uuid = put_aside(harness)["delete"]
    view = harness.view("a", uuid)
    harness.now += 60.0
    harness.host_step = step
    assert harness.conductor.begin_audit(CTX, host="a", view=view).deleted == {uuid: 60.0}


def test_the_time_of_rows_of_a_release_before_begins_now(harness: ConductorHarness) -> None:
    uuids = put_aside(harness)
    with harness.db.write() as session:
        session.query(models.Instance).update(
            {"shelved_since": None, "soft_deleted_since": None, "deleted_since": None}
        )
    terminated = list(harness.hosts["a"].terminated)
    harness.now += HOUR + 1
    all_periodic_work(harness)
    assert harness.hosts["a"].terminated == terminated
    assert harness.state(uuids["shelve"]) == "shelved/None on a"
    harness.now += HOUR + 1
    all_periodic_work(harness)
    assert harness.hosts["a"].terminated == [*terminated, uuids["soft_delete"]]
    assert harness.state(uuids["shelve"]) == "shelved/shelving_offloading on a"


def test_no_other_module_compares_times_of_people() -> None:
    """`at()` is a conductor's own clock, for what people read. A difference or a sum of such times decides about nothing else."""
    root, modules = Path(minova.__file__).parent, set()
    for room in ("conductor", "db", "placement", "scheduler", "compute"):
        for path in (root / room).rglob("*.py"):
            names = {
                node.attr if isinstance(node, ast.Attribute) else node.id
                for node in ast.walk(ast.parse(path.read_text()))
                if isinstance(node, ast.Attribute | ast.Name)
            }
            if names & {"timedelta", "total_seconds"}:
                modules.add(str(path.relative_to(root)))
    assert modules == COMPARES_TIMES_OF_PEOPLE
