"""Services register the release that they are of, and the lowest among the living ones is what others may send."""

from sqlalchemy import update

from minova.db.hosts import services
from minova.db.models import Service
from minova.messaging.rpc_levels import CURRENT
from minova.objects.hosts.service import SERVICE_VERSION
from minova.objects.hosts.service import Service as ServiceObject
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness
from tests.functional.scheduler.cloud import named


def register(harness: ConductorHarness, host: str, version: int) -> None:
    service = ServiceObject(
        uuid=named(f"service {host}"), host=host, binary="minova-compute", topic="compute", version=version
    )
    harness.conductor.register_service(CTX, service=service)


def lowest(harness: ConductorHarness, topic: str) -> int:
    with harness.db.read() as session:
        return services.lowest_versions(session, 60.0)[topic]


def test_the_lowest_version_among_living_services_counts(harness: ConductorHarness) -> None:
    for host, version in {"a": 0, "b": SERVICE_VERSION, "c": SERVICE_VERSION}.items():
        register(harness, host, version)
    assert lowest(harness, "compute") == 0
    for _ in range(7):
        harness.now += 10
        harness.beat("b", "c")
    assert lowest(harness, "compute") == SERVICE_VERSION
    harness.beat("a")
    assert lowest(harness, "compute") == 0


def test_a_compute_that_registers_again_counts_as_what_it_is_now(harness: ConductorHarness) -> None:
    for host in ("a", "b", "c"):
        register(harness, host, 0)
    for host in ("a", "b", "c"):
        register(harness, host, SERVICE_VERSION)
    assert lowest(harness, "compute") == SERVICE_VERSION


def test_a_conductor_that_was_upgraded_counts_as_what_it_is_now(harness: ConductorHarness) -> None:
    assert lowest(harness, "conductor") == SERVICE_VERSION
    with harness.db.write() as session:
        session.execute(update(Service).where(Service.topic == "conductor").values(version=0))
    assert lowest(harness, "conductor") == 0
    harness.kill("one")
    harness.tick(harness.start("one"), seconds=10.0)
    assert lowest(harness, "conductor") == SERVICE_VERSION


def test_services_without_a_database_are_told_the_levels(harness: ConductorHarness) -> None:
    harness.conductor.collaborators.services._levels = lambda: dict(CURRENT)
    assert harness.conductor.heartbeat(CTX, host="a", binary="minova-compute").levels == CURRENT
