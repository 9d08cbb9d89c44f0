"""The fence of a host, read in the transaction of a decision, holds until that transaction ends, on PostgreSQL and MariaDB."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import select, text

from minova import errors
from minova.conductor.hosts.fences import is_fenced_now
from minova.db.hosts import services
from minova.db.models import Service
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness
from tests.waiting import wait_for

# How many transactions of this database wait for a lock.
WAITING = {
    "postgresql": "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()",
    "mariadb": "SELECT count(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'",
}


@pytest.fixture(params=WAITING)
def harness(request: pytest.FixtureRequest) -> Iterator[ConductorHarness]:
    harness = ConductorHarness(request.getfixturevalue(f"{request.param}_tables"), hosts=("a",))
    yield harness
    harness.close()


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as pool:
        yield pool


def service_of(harness: ConductorHarness) -> str:
    with harness.db.read() as session:
        return session.scalars(select(Service.uuid).where(Service.host == "a")).one()


def is_waiting(harness: ConductorHarness, work: Future[Any]) -> Callable[[], bool]:
    """Raises AssertionError if the work has ended."""
    query = text(WAITING["postgresql" if harness.db.engine.dialect.name == "postgresql" else "mariadb"])

    def look() -> bool:
        assert not work.done(), "it did not wait"
        with harness.db.engine.connect() as connection:
            return bool(connection.scalar(query))

    return look


def test_what_forces_a_host_down_waits_for_a_decision_that_has_read_its_fence(
    harness: ConductorHarness, threads: ThreadPoolExecutor
) -> None:
    uuid = service_of(harness)
    with harness.db.write() as deciding:
        assert not is_fenced_now(deciding, "a")
        with harness.db.write() as beside:
            assert not is_fenced_now(beside, "a"), "any number may read it so"
        forced = threads.submit(harness.conductor.update_service, CTX, service_uuid=uuid, forced_down=True)
        wait_for("the order to wait", is_waiting(harness, forced))
        assert not is_fenced_now(deciding, "a")
    assert forced.result(60).forced_down
    with harness.db.write() as session:
        assert is_fenced_now(session, "a")


def test_a_decision_waits_for_what_forces_the_host_down(harness: ConductorHarness, threads: ThreadPoolExecutor) -> None:
    uuid = service_of(harness)
    with harness.db.write() as forcing:
        row = services.by_uuid(forcing, uuid)
        assert row is not None
        row.forced_down = True
        forcing.flush()
        fenced = threads.submit(harness.db.run, lambda session: is_fenced_now(session, "a"))
        wait_for("the decision to wait", is_waiting(harness, fenced))
    assert fenced.result(60) is True


def test_a_host_that_is_forced_down_claims_no_build(harness: ConductorHarness) -> None:
    """The claim reads the fence in its own statement."""
    (uuid,) = harness.create()
    harness.conductor.update_service(CTX, service_uuid=service_of(harness), forced_down=True)
    with pytest.raises(errors.StaleAttempt):
        harness.claim("a", uuid)
    harness.conductor.update_service(CTX, service_uuid=service_of(harness), forced_down=False)
    harness.claim("a", uuid)
