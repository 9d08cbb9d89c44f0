"""However many conductors there were, all services together were held to the heartbeats and audits that one of them takes."""

from datetime import UTC, datetime

from sqlalchemy import insert

from minova.db import models
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness
from tests.functional.scheduler.cloud import named


def instructed_intervals(harness: ConductorHarness) -> tuple[float, float]:
    answer = harness.conductor.heartbeat(CTX, host="a", binary="minova-compute")
    return answer.heartbeat_interval, answer.audit_interval


def test_heartbeats_and_audits_may_be_as_many_as_the_living_conductors_take(harness: ConductorHarness) -> None:
    alike = {"binary": "minova-compute", "topic": "compute", "created_at": datetime.fromtimestamp(harness.now, UTC)}
    rows = [{"uuid": named(f"service {n}"), "host": f"h{n}", **alike} for n in range(6000 - 4)]
    harness.db.run(lambda session: session.execute(insert(models.Service), rows))
    harness.tick(harness.conductor, 61)
    assert [round(interval) for interval in instructed_intervals(harness)] == [20, 150]
    others = [harness.start(name) for name in ("two", "three")]
    for _ in range(11):
        harness.now += 6
        for conductor in (*others, harness.conductor):
            harness.tick(conductor)
    assert [round(interval) for interval in instructed_intervals(harness)] == [10, 50]
    harness.tick(harness.conductor, 61)  # the others have died
    assert [round(interval) for interval in instructed_intervals(harness)] == [20, 150]
