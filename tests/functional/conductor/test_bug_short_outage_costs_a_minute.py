"""A database that was away for a second cost builds 60 s: what a scheduler had answered was not written, nor asked for anew."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest
from sqlalchemy.orm import Session

from minova import errors
from minova.conductor.servers.build import SCHEDULE_WAIT
from minova.db.engine import Database
from tests.functional.conductor.desk import CTX, START, Desk, request
from tests.tables import make_tables

T = TypeVar("T")


class Flaky(Database):
    """Away for some transactions, before they begin or when they have been committed."""

    before = after = 0

    def run(self, work: Callable[[Session], T], session_class: type[Session] = Session) -> T:
        if self.before:
            self.before -= 1
            raise errors.ServiceUnavailable("The database does not answer")
        done = super().run(work, session_class)
        if self.after:
            self.after -= 1
            raise errors.ServiceUnavailable("The database does not answer: lost at the commit")
        return done


class Setting:
    """A desk whose conductor has a database that may be away."""

    def __init__(self, desk: Desk, url: str) -> None:
        self.desk = desk
        self.db = Flaky(url, clock=lambda: desk.now)
        desk.conductor.worker.db = self.db

    def away(self, when: str, times: int = 3) -> None:
        setattr(self.db, when, times)


@pytest.fixture
def setting(tmp_path: Path) -> Setting:
    url = f"sqlite:///{tmp_path}/minova.sqlite"
    make_tables(url)
    return Setting(Desk(url), url)


WHEN = pytest.mark.parametrize("when", ["before", "after"])


@WHEN
def test_what_the_scheduler_has_answered_is_written_when_the_database_is_back(setting: Setting, when: str) -> None:
    desk = setting.desk
    desk.scheduler.before_answer = lambda: setting.away(when)
    (uuid,) = desk.create()
    assert [build.instance.uuid for build in desk.hosts["a"].builds] == [uuid]
    assert desk.now == START
    desk.build("a", uuid)
    assert desk.state(uuid) == "active/None on a"


@WHEN
def test_a_no_is_written_when_the_database_is_back(setting: Setting, when: str) -> None:
    desk = setting.desk
    desk.scheduler.order = []
    desk.scheduler.before_claim = lambda: None
    (uuid,) = desk.conductor.create_servers(CTX, request=request()).instance_uuids
    setting.away(when)
    desk.settle()
    assert desk.instance(uuid).vm_state == "error"


@WHEN
def test_without_an_answer_the_scheduler_is_asked_again_within_two_seconds(setting: Setting, when: str) -> None:
    desk = setting.desk
    desk.scheduler.mood = errors.ServiceUnavailable("The database does not answer")
    (uuid,) = desk.conductor.create_servers(CTX, request=request()).instance_uuids
    setting.away(when)
    desk.settle()
    desk.scheduler.mood = None
    desk.tick(desk.conductor, 1.0)
    assert [build.instance.uuid for build in desk.hosts["a"].builds] == [uuid]
    assert desk.now - START < 2.0 < SCHEDULE_WAIT


@WHEN
def test_asking_again_survives_an_outage_too(setting: Setting, when: str) -> None:
    desk = setting.desk
    desk.scheduler.mood = errors.ServiceUnavailable("No answer in time")
    (uuid,) = desk.create()
    desk.scheduler.mood = None
    desk.now += 1.0
    look = next(task for task in desk.conductor.periodic_tasks() if task.name == "process_due_tasks")
    look.work()
    setting.away(when)
    desk.settle()
    assert [build.instance.uuid for build in desk.hosts["a"].builds] == [uuid]


def test_a_creation_whose_answer_was_lost_at_the_commit_goes_on(setting: Setting) -> None:
    desk = setting.desk
    setting.away("after", 1)
    with pytest.raises(errors.ServiceUnavailable):
        desk.conductor.create_servers(CTX, request=request())
    desk.settle()
    assert len(desk.hosts["a"].builds) == 1


def test_a_creation_that_was_not_written_leaves_nothing(setting: Setting) -> None:
    desk = setting.desk
    setting.away("before", 1)
    with pytest.raises(errors.ServiceUnavailable):
        desk.conductor.create_servers(CTX, request=request())
    desk.settle()
    assert desk.scheduler.asked == []


def test_the_next_attempt_is_sent_though_its_commit_was_not_confirmed(setting: Setting) -> None:
    """The host repeats its report: the first has moved the build to the next host already, which was not told."""
    desk = setting.desk
    (uuid,) = desk.create()
    desk.claim("a", uuid)
    setting.away("after", 1)
    with pytest.raises(errors.ServiceUnavailable):
        desk.fail("a", uuid)
    assert desk.hosts["b"].builds == []
    desk.fail("a", uuid)
    assert [(build.instance.uuid, build.attempt) for build in desk.hosts["b"].builds] == [(uuid, 2)]
    desk.build("b", uuid, attempt=2)
    desk.fail("a", uuid)
    assert desk.state(uuid) == "active/None on b"
    assert len(desk.hosts["b"].builds) == 1


def test_pauses_between_questions_grow(setting: Setting) -> None:
    """A cloud without a scheduler for long does not ask for each instance twice a second."""
    desk = setting.desk
    desk.scheduler.mood = errors.ServiceUnavailable("No answer in time")
    desk.create()
    for _ in range(120):
        desk.tick(desk.conductor, 0.5)
    assert 10 <= len(desk.scheduler.asked) <= 20
