"""Work that waits for a free thread was found due, and queued, again at each look."""

from collections.abc import Callable

import pytest

from minova import errors
from tests.functional.conductor.desk import CTX, Desk, request


def look(desk: Desk, seconds: float) -> int:
    """A look at what is due while every thread is busy; answers how much waits then."""
    desk.now += seconds
    for task in desk.conductor.periodic_tasks():
        task.work()
    return len(desk.waiting)


def to_be_scheduled(desk: Desk) -> None:
    desk.scheduler.mood = errors.ServiceUnavailable("No answer in time")
    desk.create(3)


def building_too_long(desk: Desk) -> None:
    desk.create(2)


def deleting(desk: Desk) -> None:
    desk.delete(desk.active())


@pytest.mark.parametrize(("prepare", "works"), [(to_be_scheduled, 1), (building_too_long, 2), (deleting, 1)])
def test_what_waits_already_is_not_queued_again(desk: Desk, prepare: Callable[[Desk], None], works: int) -> None:
    prepare(desk)
    desk.now += 1800
    for host in desk.hosts:
        desk.conductor.heartbeat(CTX, host=host, binary="minova-compute")
    assert [look(desk, seconds) for seconds in (5, 5, 5)] == [works] * 3


def test_a_request_that_waits_for_its_first_turn_is_not_queued_a_second_time(desk: Desk) -> None:
    (uuid,) = desk.conductor.create_servers(CTX, request=request()).instance_uuids
    assert [look(desk, seconds) for seconds in (61, 61)] == [1, 1]
    desk.settle()
    assert [number for _, number, _ in desk.scheduler.asked] == [1]
    assert desk.allocated() == {uuid: "a"}


def test_what_has_ended_may_be_queued_again(desk: Desk) -> None:
    desk.scheduler.mood = errors.ServiceUnavailable("No answer in time")
    desk.create()
    assert look(desk, 5) == 1
    desk.settle()
    assert look(desk, 5) == 1


def test_registering_again_when_no_answer_came_is_harmless(desk: Desk) -> None:
    desk.conductor.worker.register()
    (uuid,) = desk.create()
    task = desk.task(uuid)
    assert task is not None
    assert task.worker_id == desk.conductor.worker.id
