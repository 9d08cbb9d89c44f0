"""The tasks of a dead conductor waited 30 s for its lease to run out, and up to five more for the next look."""

import pytest

from minova.conductor.manager import ConductorManager
from minova.conductor.tasks.worker import GRACE, Worker
from tests.functional.conductor.desk import CTX, Desk, request


def run(desk: Desk, conductor: ConductorManager, seconds: float) -> None:
    """A living conductor for so long: its lease and its looks for orphans, each at its interval."""
    tasks = [task for task in conductor.periodic_tasks() if task.name in {"renew_lease", "take_over"}]
    assert max(task.interval for task in tasks) <= 0.5
    until = desk.now + seconds
    while desk.now < until:
        desk.now = min(desk.now + 0.5, until)
        for task in tasks:
            task.work()


def owner(desk: Desk, uuid: str) -> str:
    task = desk.task(uuid)
    assert task is not None
    return task.worker_id


def test_another_conductor_goes_on_within_ten_seconds(desk: Desk) -> None:
    other = desk.start("other")
    (uuid,) = desk.conductor.create_servers(CTX, request=request()).instance_uuids
    desk.conductor.worker.renew()
    desk.kill("one")
    run(desk, other, 9.75)
    desk.settle()
    assert owner(desk, uuid) == other.worker.id
    assert [build.instance.uuid for build in desk.hosts["a"].builds] == [uuid]


@pytest.mark.parametrize("since_the_last_renewal", [0.0, 0.25, 0.5])
def test_a_conductor_that_stands_still_for_eight_seconds_keeps_its_tasks(
    desk: Desk, since_the_last_renewal: float
) -> None:
    other = desk.start("other")
    (uuid,) = desk.conductor.create_servers(CTX, request=request()).instance_uuids
    desk.conductor.worker.renew()
    run(desk, other, since_the_last_renewal + 8.0)
    desk.conductor.worker.renew()
    run(desk, other, 8.0)
    assert owner(desk, uuid) == desk.conductor.worker.id


def test_the_only_conductor_goes_on_at_once_when_it_is_started_again(desk: Desk) -> None:
    (uuid,) = desk.conductor.create_servers(CTX, request=request()).instance_uuids
    desk.kill("one")
    again = desk.start("one")
    desk.settle()
    assert owner(desk, uuid) == again.worker.id
    assert [build.instance.uuid for build in desk.hosts["a"].builds] == [uuid]


def test_after_an_outage_others_may_renew_their_leases_before_their_tasks_are_taken(desk: Desk) -> None:
    """All leases run out while the database is away: then the first that came back took the tasks of all others."""
    ticks = [100.0]
    worker = Worker(desk.db, host="h", lease=9.0, threads=1, ticks=lambda: ticks[0])
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


def test_a_worker_that_has_left_never_renews_its_lease_again(desk: Desk) -> None:
    (uuid,) = desk.conductor.create_servers(CTX, request=request()).instance_uuids
    desk.conductor.worker.leave()
    desk.conductor.worker.renew()
    other = desk.start("other")
    assert owner(desk, uuid) == other.worker.id
