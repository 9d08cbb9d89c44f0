"""`instance_build_timeout`: how long a build as a whole may take, whatever hosts are left to try."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from minova import errors
from minova.db import models
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness, request
from tests.tables import make_tables

Open = Callable[[int], ConductorHarness]


@pytest.fixture
def open_harness(tmp_path: Path) -> Iterator[Open]:
    harnesses: list[ConductorHarness] = []

    def work(seconds: int) -> ConductorHarness:
        url = f"sqlite:///{tmp_path}/minova.sqlite"
        make_tables(url)
        harnesses.append(ConductorHarness(url, instance_build_timeout=seconds))
        return harnesses[0]

    yield work
    for harness in harnesses:
        harness.close()


def wait(harness: ConductorHarness, seconds: int) -> None:
    """Time passes in beats, so that no host seems dead."""
    for _ in range(seconds // 10):
        harness.now += 10
        harness.beat()


@pytest.mark.parametrize(
    ("timeout", "seconds", "state"),
    [
        (300, 290, "building/block_device_mapping on a"),
        (300, 300, "error/None on None"),
        (0, 600, "building/block_device_mapping on a"),
    ],
)
def test_a_build_on_a_host_ends_in_error_though_alternates_are_left(
    open_harness: Open, timeout: int, seconds: int, state: str
) -> None:
    harness = open_harness(timeout)
    (uuid,) = harness.create()
    harness.claim("a", uuid)
    wait(harness, seconds)
    assert harness.state(uuid) == state
    if state.startswith("error"):
        assert (harness.allocated(), harness.task(uuid)) == ({}, None)
        assert "not built within instance_build_timeout, 300 s" in fault_of(harness, uuid)
        with pytest.raises(errors.StaleAttempt):
            harness.succeed("a", uuid)


def test_the_second_attempt_gets_no_more_time_than_is_left(open_harness: Open) -> None:
    harness = open_harness(300)
    (uuid,) = harness.create()
    wait(harness, 200)
    harness.fail("a", uuid)
    assert harness.allocated() == {uuid: "b"}
    wait(harness, 100)
    assert harness.state(uuid) == "error/None on None"


def test_an_instance_that_no_scheduler_answers_for(open_harness: Open) -> None:
    harness = open_harness(60)
    harness.scheduler.mood = errors.ServiceUnavailable("No answer in time")
    (uuid,) = harness.conductor.create_servers(CTX, request=request(1)).instance_uuids
    harness.settle()
    wait(harness, 50)
    assert harness.state(uuid) == "building/scheduling on None"
    wait(harness, 20)
    assert harness.state(uuid) == "error/None on None"
    assert "not built within instance_build_timeout, 60 s" in fault_of(harness, uuid)


def test_what_is_built_or_deleted_is_left_alone(open_harness: Open) -> None:
    harness = open_harness(60)
    built, deleted = harness.active(), harness.active()
    harness.delete(deleted)
    wait(harness, 120)
    assert harness.state(built) == "active/None on a"
    assert harness.state(deleted) == "active/deleting on a"


def fault_of(harness: ConductorHarness, uuid: str) -> str:
    with harness.db.read() as session:
        fault = session.query(models.InstanceFault).filter_by(instance_uuid=uuid).one()
        return f"{fault.message} {fault.details}"
