"""[conductor] build_timeout was the deadline of scheduling, too: below 60 s one lost message put an instance into ERROR."""

from pathlib import Path
from typing import Any

from minova import errors
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness, request
from tests.tables import make_tables


def opened(folder: Path, **options: Any) -> ConductorHarness:
    url = f"sqlite:///{folder}/minova.sqlite"
    make_tables(url)
    return ConductorHarness(url, **options)


def test_a_lost_message_is_no_error_whatever_the_build_timeout(tmp_path: Path) -> None:
    harness = opened(tmp_path, conductor__build_timeout=10)
    (uuid,) = harness.conductor.create_servers(CTX, request=request()).instance_uuids
    harness.kill("one")  # it was to ask the scheduler
    harness.now += 61.0
    again = harness.start("one")
    harness.tick(again)
    assert harness.state(uuid) == "building/scheduling on None"
    assert [build.instance.uuid for build in harness.hosts["a"].builds] == [uuid]
    harness.close()


def test_scheduling_ends_at_its_own_deadline(tmp_path: Path) -> None:
    harness = opened(tmp_path, conductor__build_timeout=10, conductor__schedule_timeout=120)
    harness.scheduler.mood = errors.ServiceUnavailable("No answer in time")
    (uuid,) = harness.create()
    for _ in range(11):
        harness.tick(harness.conductor, 10.0)
    assert harness.state(uuid) == "building/scheduling on None"
    assert len(harness.scheduler.asked) > 5
    harness.tick(harness.conductor, 11.0)
    assert harness.instance(uuid).vm_state == "error"
    assert "No scheduler has answered in time" in harness.fault(uuid)
    harness.close()
