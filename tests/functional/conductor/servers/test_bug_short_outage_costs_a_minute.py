"""A database that was away for a second cost builds 60 s: what a scheduler had answered was not written, nor asked for anew."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest
from sqlalchemy.orm import Session

from minova import errors
from minova.conductor.servers.build import SCHEDULE_WAIT
from minova.db.engine import Database, WriteSession
from tests.functional.conductor.conductor_harness import CTX, START, ConductorHarness, request
from tests.tables import make_tables

T = TypeVar("T")


class Flaky(Database):
    """Away for some transactions, before they begin or when they have been committed."""

    before = after = 0

    def run(self, work: Callable[[Session], T], session_class: type[WriteSession] | None = None) -> T:
        if self.before:
            self.before -= 1
            raise errors.ServiceUnavailable("The database does not answer")
        done = super().run(work, session_class)
        if self.after:
            self.after -= 1
            raise errors.ServiceUnavailable("The database does not answer: lost at the commit")
        return done


class Setting:
    """A harness whose conductor has a database that may be away."""

    def __init__(self, harness: ConductorHarness, url: str) -> None:
        self.harness = harness
        self.db = Flaky(url, clock=lambda: harness.now)
        harness.conductor.worker.db = self.db

    def away(self, when: str, times: int = 3) -> None:
        setattr(self.db, when, times)


@pytest.fixture
def setting(tmp_path: Path) -> Setting:
    url = f"sqlite:///{tmp_path}/minova.sqlite"
    make_tables(url)
    return Setting(ConductorHarness(url), url)


WHEN = pytest.mark.parametrize("when", ["before", "after"])


@WHEN
def test_what_the_scheduler_has_answered_is_written_when_the_database_is_back(setting: Setting, when: str) -> None:
    harness = setting.harness
    harness.scheduler.before_answer = lambda: setting.away(when)
    (uuid,) = harness.create()
    assert [build.instance.uuid for build in harness.hosts["a"].builds] == [uuid]
    assert harness.now == START
    harness.build("a", uuid)
    assert harness.state(uuid) == "active/None on a"


@WHEN
def test_a_no_is_written_when_the_database_is_back(setting: Setting, when: str) -> None:
    harness = setting.harness
    harness.scheduler.order = []
    harness.scheduler.before_claim = lambda: None
    (uuid,) = harness.conductor.create_servers(CTX, request=request()).instance_uuids
    setting.away(when)
    harness.settle()
    assert harness.instance(uuid).vm_state == "error"


@WHEN
def test_without_an_answer_the_scheduler_is_asked_again_within_two_seconds(setting: Setting, when: str) -> None:
    harness = setting.harness
    harness.scheduler.mood = errors.ServiceUnavailable("The database does not answer")
    (uuid,) = harness.conductor.create_servers(CTX, request=request()).instance_uuids
    setting.away(when)
    harness.settle()
    harness.scheduler.mood = None
    harness.tick(harness.conductor, 1.0)
    assert [build.instance.uuid for build in harness.hosts["a"].builds] == [uuid]
    assert harness.now - START < 2.0 < SCHEDULE_WAIT


@WHEN
def test_asking_again_survives_an_outage_too(setting: Setting, when: str) -> None:
    harness = setting.harness
    harness.scheduler.mood = errors.ServiceUnavailable("No answer in time")
    (uuid,) = harness.create()
    harness.scheduler.mood = None
    harness.now += 1.0
    look = next(task for task in harness.conductor.periodic_tasks() if task.name == "process_due_tasks")
    look.work()
    setting.away(when)
    harness.settle()
    assert [build.instance.uuid for build in harness.hosts["a"].builds] == [uuid]


def test_a_creation_whose_answer_was_lost_at_the_commit_goes_on(setting: Setting) -> None:
    harness = setting.harness
    # The first creation of a project counts its usage in a transaction of its own.
    harness.create()
    assert len(harness.hosts["a"].builds) == 1
    setting.away("after", 1)
    with pytest.raises(errors.ServiceUnavailable):
        harness.conductor.create_servers(CTX, request=request())
    harness.settle()
    assert len(harness.hosts["a"].builds) == 2


def test_a_creation_that_was_not_written_leaves_nothing(setting: Setting) -> None:
    harness = setting.harness
    setting.away("before", 1)
    with pytest.raises(errors.ServiceUnavailable):
        harness.conductor.create_servers(CTX, request=request())
    harness.settle()
    assert harness.scheduler.asked == []


def test_the_next_attempt_is_sent_though_its_commit_was_not_confirmed(setting: Setting) -> None:
    """The host repeats its report: the first has moved the build to the next host already, which was not told."""
    harness = setting.harness
    (uuid,) = harness.create()
    harness.claim("a", uuid)
    setting.away("after", 1)
    with pytest.raises(errors.ServiceUnavailable):
        harness.fail("a", uuid)
    assert harness.hosts["b"].builds == []
    harness.fail("a", uuid)
    assert [(build.instance.uuid, build.attempt) for build in harness.hosts["b"].builds] == [(uuid, 2)]
    harness.build("b", uuid, attempt=2)
    harness.fail("a", uuid)
    assert harness.state(uuid) == "active/None on b"
    assert len(harness.hosts["b"].builds) == 1


def test_pauses_between_questions_grow(setting: Setting) -> None:
    """A cloud without a scheduler for long does not ask for each instance twice a second."""
    harness = setting.harness
    harness.scheduler.mood = errors.ServiceUnavailable("No answer in time")
    harness.create()
    for _ in range(60):
        harness.tick(harness.conductor, 1.0)
    assert 10 <= len(harness.scheduler.asked) <= 20
