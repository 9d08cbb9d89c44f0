"""Services register the release that they are of, and the lowest among the living ones is what others may send."""

from sqlalchemy import update

from minova.db.hosts import services
from minova.db.models import Service
from minova.objects.service import SERVICE_VERSION
from minova.objects.service import Service as ServiceObject
from minova.rpc_levels import CURRENT
from tests.functional.conductor.desk import CTX, Desk
from tests.functional.scheduler.cloud import named


def register(desk: Desk, host: str, version: int) -> None:
    service = ServiceObject(
        uuid=named(f"service {host}"), host=host, binary="minova-compute", topic="compute", version=version
    )
    desk.conductor.register_service(CTX, service=service)


def lowest(desk: Desk, topic: str) -> int:
    with desk.db.read() as session:
        return services.lowest_versions(session, 60.0)[topic]


def test_the_lowest_version_among_living_services_counts(desk: Desk) -> None:
    for host, version in {"a": 0, "b": SERVICE_VERSION, "c": SERVICE_VERSION}.items():
        register(desk, host, version)
    assert lowest(desk, "compute") == 0
    for _ in range(7):
        desk.now += 10
        desk.beat("b", "c")
    assert lowest(desk, "compute") == SERVICE_VERSION
    desk.beat("a")
    assert lowest(desk, "compute") == 0


def test_a_compute_that_registers_again_counts_as_what_it_is_now(desk: Desk) -> None:
    for host in ("a", "b", "c"):
        register(desk, host, 0)
    for host in ("a", "b", "c"):
        register(desk, host, SERVICE_VERSION)
    assert lowest(desk, "compute") == SERVICE_VERSION


def test_a_conductor_that_was_upgraded_counts_as_what_it_is_now(desk: Desk) -> None:
    assert lowest(desk, "conductor") == SERVICE_VERSION
    with desk.db.write() as session:
        session.execute(update(Service).where(Service.topic == "conductor").values(version=0))
    assert lowest(desk, "conductor") == 0
    desk.kill("one")
    desk.tick(desk.start("one"), seconds=10.0)
    assert lowest(desk, "conductor") == SERVICE_VERSION


def test_services_without_a_database_are_told_the_levels(desk: Desk) -> None:
    desk.conductor.collaborators.services._levels = lambda: dict(CURRENT)
    assert desk.conductor.heartbeat(CTX, host="a", binary="minova-compute").levels == CURRENT
