"""The scheduler as a service: known, alive, and tidy."""

import threading

import pytest

from minova import errors
from minova.context import RequestContext
from minova.db.engine import Database
from minova.objects.hosts.service import Service, ServiceInstructions
from minova.scheduler.manager import SchedulerManager
from tests.functional.scheduler.cloud import conf_of


class Conductor:
    """Keeps a list of who is known; while `away` it does not answer."""

    def __init__(self) -> None:
        self.known: list[tuple[str, str]] = []
        self.beats = 0
        self.away = 0

    def register_service(self, ctx: RequestContext, service: Service) -> ServiceInstructions:
        if self.away:
            self.away -= 1
            raise errors.ServiceUnavailable("No answer")
        self.known.append((service.host, service.binary))
        return ServiceInstructions(service_uuid=service.uuid, heartbeat_interval=10)

    def heartbeat(
        self, ctx: RequestContext, host: str, binary: str, down_reason: str | None = None
    ) -> ServiceInstructions:
        if (host, binary) not in self.known:
            raise errors.NotFound("No such service")
        self.beats += 1
        return ServiceInstructions(service_uuid="u", heartbeat_interval=17)


@pytest.fixture
def conductor() -> Conductor:
    return Conductor()


@pytest.fixture
def manager(db: Database, conductor: Conductor) -> SchedulerManager:
    return SchedulerManager(conf_of(), db, conductor, host="s1")  # type: ignore[arg-type]


def test_it_is_known_before_it_listens(manager: SchedulerManager, conductor: Conductor) -> None:
    manager.init_host()
    manager.pre_start_hook()
    assert conductor.known == [("s1", "minova-scheduler")]
    manager.post_start_hook()
    manager.stop()


def test_it_waits_for_a_conductor(manager: SchedulerManager, conductor: Conductor) -> None:
    conductor.away = 1
    manager.pre_start_hook()
    assert conductor.known


def test_it_stops_waiting_when_it_is_told_to(db: Database, conductor: Conductor) -> None:
    stopping = threading.Event()
    stopping.set()
    conductor.away = 99
    manager = SchedulerManager(conf_of(), db, conductor, host="s1", stopping=stopping)  # type: ignore[arg-type]
    with pytest.raises(errors.ServiceUnavailable):
        manager.pre_start_hook()


def test_it_beats_as_often_as_it_is_told(manager: SchedulerManager, conductor: Conductor) -> None:
    manager.pre_start_hook()
    beat = next(task for task in manager.periodic_tasks() if task.name == "heartbeat")
    assert beat.interval == 10
    assert beat.work() == 17
    assert conductor.beats == 1


def test_forgotten_by_the_conductor_it_registers_again(manager: SchedulerManager, conductor: Conductor) -> None:
    beat = next(task for task in manager.periodic_tasks() if task.name == "heartbeat")
    assert beat.work() == 10
    assert conductor.known == [("s1", "minova-scheduler")]
