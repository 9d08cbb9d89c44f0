"""The tasks of a dead conductor waited 30 s for its lease to run out, and up to five more for the next look."""

import pytest

from minova.conductor.tasks.worker import GRACE, TaskWorker
from tests.fakes.running_conductor import RunningConductor
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness, request


def run(harness: ConductorHarness, conductor: RunningConductor, seconds: float) -> None:
    """A living conductor for so long: its lease and its looks for orphans, each at its interval."""
    tasks = [task for task in conductor.periodic_tasks() if task.name in {"renew_lease", "take_over"}]
    assert max(task.interval for task in tasks) <= 0.5
    until = harness.now + seconds
    while harness.now < until:
        harness.now = min(harness.now + 0.5, until)
        for task in tasks:
            task.work()


def owner(harness: ConductorHarness, uuid: str) -> str:
    task = harness.task(uuid)
    assert task is not None
    return task.worker_id


def test_another_conductor_goes_on_within_ten_seconds(harness: ConductorHarness) -> None:
    other = harness.start("other")
    (uuid,) = harness.conductor.create_servers(CTX, request=request()).instance_uuids
    harness.conductor.worker.renew()
    harness.kill("one")
    run(harness, other, 9.75)
    harness.settle()
    assert owner(harness, uuid) == other.worker.id
    assert [build.instance.uuid for build in harness.hosts["a"].builds] == [uuid]


@pytest.mark.parametrize("since_the_last_renewal", [0.0, 0.25, 0.5])
def test_a_conductor_that_stands_still_for_eight_seconds_keeps_its_tasks(
    harness: ConductorHarness, since_the_last_renewal: float
) -> None:
    other = harness.start("other")
    (uuid,) = harness.conductor.create_servers(CTX, request=request()).instance_uuids
    harness.conductor.worker.renew()
    run(harness, other, since_the_last_renewal + 8.0)
    harness.conductor.worker.renew()
    run(harness, other, 8.0)
    assert owner(harness, uuid) == harness.conductor.worker.id


def test_the_only_conductor_goes_on_at_once_when_it_is_started_again(harness: ConductorHarness) -> None:
    (uuid,) = harness.conductor.create_servers(CTX, request=request()).instance_uuids
    harness.kill("one")
    again = harness.start("one")
    harness.settle()
    assert owner(harness, uuid) == again.worker.id
    assert [build.instance.uuid for build in harness.hosts["a"].builds] == [uuid]


def test_after_an_outage_others_may_renew_their_leases_before_their_tasks_are_taken(harness: ConductorHarness) -> None:
    """All leases run out while the database is away: then the first that came back took the tasks of all others."""
    ticks = [100.0]
    worker = TaskWorker(harness.db, host="h", lease=9.0, threads=1, ticks=lambda: ticks[0])
    worker.register()
    assert worker.may_take_over()
    ticks[0] += 30.0
    worker.renew()
    assert not worker.may_take_over()
    ticks[0] += GRACE
    worker.renew()
    assert worker.may_take_over()
    worker.stop()
    assert not worker.may_take_over()


def test_a_worker_that_has_left_never_renews_its_lease_again(harness: ConductorHarness) -> None:
    (uuid,) = harness.conductor.create_servers(CTX, request=request()).instance_uuids
    harness.conductor.worker.leave()
    harness.conductor.worker.renew()
    other = harness.start("other")
    assert owner(harness, uuid) == other.worker.id
