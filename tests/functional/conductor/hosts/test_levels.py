"""Services register the release that they are of, and the lowest among the living ones is what others may send."""

import pytest
from sqlalchemy import select, update

from minova import errors
from minova.db.hosts import services
from minova.db.models import Service
from minova.messaging.rpc_levels import CURRENT, RELEASED, Levels
from minova.objects.hosts.service import SERVICE_VERSION
from minova.objects.hosts.service import Service as ServiceObject
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness
from tests.functional.scheduler.cloud import named


def register(harness: ConductorHarness, host: str, version: int) -> None:
    service = ServiceObject(
        uuid=named(f"service {host}"), host=host, binary="minova-compute", topic="compute", version=version
    )
    harness.conductor.register_service(CTX, service=service)


def add_old(harness: ConductorHarness) -> None:
    """A host that has registered before the others were upgraded."""
    register(harness, "old", SERVICE_VERSION)
    with harness.db.write() as session:
        session.execute(update(Service).where(Service.host == "old").values(version=0))
    harness.beat("old")


def lowest(harness: ConductorHarness, topic: str) -> int:
    with harness.db.read() as session:
        return services.lowest_versions(session, 60.0)[topic]


def test_the_lowest_version_among_living_services_counts(harness: ConductorHarness) -> None:
    add_old(harness)
    assert lowest(harness, "compute") == 0
    for _ in range(7):
        harness.now += 10
        harness.beat("a", "b", "c")
    assert lowest(harness, "compute") == SERVICE_VERSION
    harness.beat("old")
    assert lowest(harness, "compute") == 0


def test_bug_a_compute_that_says_it_is_older_takes_nothing_from_others(harness: ConductorHarness) -> None:
    """A stolen host made every new server action of the cloud answer 503."""
    register(harness, "a", 0)
    assert lowest(harness, "compute") == SERVICE_VERSION


def test_bug_a_new_compute_that_says_it_is_older_takes_nothing_from_others(harness: ConductorHarness) -> None:
    """A stolen host whose service an operator had deleted registered anew."""
    with harness.db.read() as session:
        (service_uuid,) = session.scalars(select(Service.uuid).where(Service.host == "a"))
    harness.conductor.delete_service(CTX, service_uuid=service_uuid)
    register(harness, "a", 0)
    assert lowest(harness, "compute") == SERVICE_VERSION
    # While others are older, too, nothing is lost: a rolling upgrade goes on.
    with harness.db.write() as session:
        session.execute(update(Service).where(Service.host == "b").values(version=0))
    register(harness, "new", 0)
    assert lowest(harness, "compute") == 0


@pytest.mark.parametrize("binary", ["minova-compute", "minova-api", "x"])
@pytest.mark.parametrize("topic", ["conductor", "scheduler", "conductor_api", ""])
def test_bug_a_service_registers_with_its_own_topic_alone(harness: ConductorHarness, binary: str, topic: str) -> None:
    service = ServiceObject(uuid=named("forged"), host="a", binary=binary, topic=topic, version=0)
    with pytest.raises(errors.BadRequest):
        harness.conductor.register_service(CTX, service=service)
    assert lowest(harness, "conductor") == SERVICE_VERSION


@pytest.mark.parametrize("version", [-5, 10**6, 2**62])
def test_bug_version_that_no_release_has_is_refused(harness: ConductorHarness, version: int) -> None:
    """-5 raised IndexError at the start of each conductor, API and scheduler."""
    with pytest.raises(errors.BadRequest):
        register(harness, "a", version)


def test_bug_rows_of_an_attack_before_the_upgrade_stop_no_service(harness: ConductorHarness) -> None:
    with harness.db.write() as session:
        session.execute(update(Service).where(Service.host == "a").values(version=-5))
        session.execute(update(Service).where(Service.host == "b").values(topic="conductor", version=-5))
    with harness.db.read() as session:
        lowest_versions = services.lowest_versions(session, 60.0)
    assert lowest_versions["conductor"] == SERVICE_VERSION
    levels = Levels(harness.conf())
    levels.follow(lambda: lowest_versions)
    assert levels.of("compute") == RELEASED[0]["compute"]


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
