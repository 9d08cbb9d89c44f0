"""`instance_build_timeout`: how long a build as a whole may take, whatever hosts are left to try."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from minova import errors
from minova.db import models
from tests.functional.conductor.desk import CTX, Desk, request
from tests.tables import make_tables

Open = Callable[[int], Desk]


@pytest.fixture
def open_desk(tmp_path: Path) -> Iterator[Open]:
    made: list[Desk] = []

    def work(seconds: int) -> Desk:
        url = f"sqlite:///{tmp_path}/minova.sqlite"
        make_tables(url)
        made.append(Desk(url, instance_build_timeout=seconds))
        return made[0]

    yield work
    for desk in made:
        desk.close()


def wait(desk: Desk, seconds: int) -> None:
    """Time passes in beats, so that no host seems dead."""
    for _ in range(seconds // 10):
        desk.now += 10
        desk.beat()


@pytest.mark.parametrize(
    ("timeout", "seconds", "state"),
    [
        (300, 290, "building/block_device_mapping on a"),
        (300, 300, "error/None on None"),
        (0, 600, "building/block_device_mapping on a"),
    ],
)
def test_a_build_on_a_host_ends_in_error_though_alternates_are_left(
    open_desk: Open, timeout: int, seconds: int, state: str
) -> None:
    desk = open_desk(timeout)
    (uuid,) = desk.create()
    desk.claim("a", uuid)
    wait(desk, seconds)
    assert desk.state(uuid) == state
    if state.startswith("error"):
        assert (desk.allocated(), desk.task(uuid)) == ({}, None)
        assert "not built within instance_build_timeout, 300 s" in fault_of(desk, uuid)
        with pytest.raises(errors.StaleAttempt):
            desk.succeed("a", uuid)


def test_the_second_attempt_gets_no_more_time_than_is_left(open_desk: Open) -> None:
    desk = open_desk(300)
    (uuid,) = desk.create()
    wait(desk, 200)
    desk.fail("a", uuid)
    assert desk.allocated() == {uuid: "b"}
    wait(desk, 100)
    assert desk.state(uuid) == "error/None on None"


def test_an_instance_that_no_scheduler_answers_for(open_desk: Open) -> None:
    desk = open_desk(60)
    desk.scheduler.mood = errors.ServiceUnavailable("No answer in time")
    (uuid,) = desk.conductor.create_servers(CTX, request=request(1)).instance_uuids
    desk.settle()
    wait(desk, 50)
    assert desk.state(uuid) == "building/scheduling on None"
    wait(desk, 20)
    assert desk.state(uuid) == "error/None on None"
    assert "not built within instance_build_timeout, 60 s" in fault_of(desk, uuid)


def test_what_is_built_or_deleted_is_left_alone(open_desk: Open) -> None:
    desk = open_desk(60)
    built, deleted = desk.active(), desk.active()
    desk.delete(deleted)
    wait(desk, 120)
    assert desk.state(built) == "active/None on a"
    assert desk.state(deleted) == "active/deleting on a"


def fault_of(desk: Desk, uuid: str) -> str:
    with desk.db.read() as session:
        fault = session.query(models.InstanceFault).filter_by(instance_uuid=uuid).one()
        return f"{fault.message} {fault.details}"
