"""[conductor] build_timeout was the deadline of scheduling, too: below 60 s one lost message put an instance into ERROR."""

from pathlib import Path
from typing import Any

from minova import errors
from tests.functional.conductor.desk import CTX, Desk, request
from tests.tables import make_tables


def opened(folder: Path, **options: Any) -> Desk:
    url = f"sqlite:///{folder}/minova.sqlite"
    make_tables(url)
    return Desk(url, **options)


def test_a_lost_message_is_no_error_whatever_the_build_timeout(tmp_path: Path) -> None:
    desk = opened(tmp_path, conductor__build_timeout=10)
    (uuid,) = desk.conductor.create_servers(CTX, request=request()).instance_uuids
    desk.kill("one")  # it was to ask the scheduler
    desk.now += 61.0
    again = desk.start("one")
    desk.tick(again)
    assert desk.state(uuid) == "building/scheduling on None"
    assert [build.instance.uuid for build in desk.hosts["a"].builds] == [uuid]
    desk.close()


def test_scheduling_ends_at_its_own_deadline(tmp_path: Path) -> None:
    desk = opened(tmp_path, conductor__build_timeout=10, conductor__schedule_timeout=120)
    desk.scheduler.mood = errors.ServiceUnavailable("No answer in time")
    (uuid,) = desk.create()
    for _ in range(11):
        desk.tick(desk.conductor, 10.0)
    assert desk.state(uuid) == "building/scheduling on None"
    assert len(desk.scheduler.asked) > 5
    desk.tick(desk.conductor, 11.0)
    assert desk.instance(uuid).vm_state == "error"
    assert "No scheduler has answered in time" in desk.fault(uuid)
    desk.close()
