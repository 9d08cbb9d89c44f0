"""Work that waits for a free thread was found due, and queued, again at each look."""

from collections.abc import Callable

import pytest

from minova import errors
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness, request


def queued_tasks(harness: ConductorHarness, seconds: float) -> int:
    """A look at what is due while every thread is busy; answers how much waits then."""
    harness.now += seconds
    for task in harness.conductor.periodic_tasks():
        task.work()
    return len(harness.waiting)


def to_be_scheduled(harness: ConductorHarness) -> None:
    harness.scheduler.mood = errors.ServiceUnavailable("No answer in time")
    harness.create(3)


def building_too_long(harness: ConductorHarness) -> None:
    harness.create(2)


def deleting(harness: ConductorHarness) -> None:
    harness.delete(harness.active())


@pytest.mark.parametrize(("prepare", "works"), [(to_be_scheduled, 1), (building_too_long, 2), (deleting, 1)])
def test_what_waits_already_is_not_queued_again(
    harness: ConductorHarness, prepare: Callable[[ConductorHarness], None], works: int
) -> None:
    prepare(harness)
    harness.now += 1800
    for host in harness.hosts:
        harness.conductor.heartbeat(CTX, host=host, binary="minova-compute")
    assert [queued_tasks(harness, seconds) for seconds in (5, 5, 5)] == [works] * 3


def test_a_request_that_waits_for_its_first_turn_is_not_queued_a_second_time(harness: ConductorHarness) -> None:
    (uuid,) = harness.conductor.create_servers(CTX, request=request()).instance_uuids
    assert [queued_tasks(harness, seconds) for seconds in (61, 61)] == [1, 1]
    harness.settle()
    assert [number for _, number, _ in harness.scheduler.asked] == [1]
    assert harness.allocated() == {uuid: "a"}


def test_what_has_ended_may_be_queued_again(harness: ConductorHarness) -> None:
    harness.scheduler.mood = errors.ServiceUnavailable("No answer in time")
    harness.create()
    assert queued_tasks(harness, 5) == 1
    harness.settle()
    assert queued_tasks(harness, 5) == 1


def test_registering_again_when_no_answer_came_is_harmless(harness: ConductorHarness) -> None:
    harness.conductor.worker.register()
    (uuid,) = harness.create()
    task = harness.task(uuid)
    assert task is not None
    assert task.worker_id == harness.conductor.worker.id
