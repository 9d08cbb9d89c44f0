"""However many conductors there were, all services together were held to the heartbeats and audits that one of them takes."""

from datetime import UTC, datetime

from sqlalchemy import insert

from minova.db import models
from tests.functional.conductor.desk import CTX, Desk
from tests.functional.scheduler.cloud import named


def asked(desk: Desk) -> tuple[float, float]:
    said = desk.conductor.heartbeat(CTX, host="a", binary="minova-compute")
    return said.heartbeat_interval, said.audit_interval


def test_heartbeats_and_audits_may_be_as_many_as_the_living_conductors_take(desk: Desk) -> None:
    alike = {"binary": "minova-compute", "topic": "compute", "created_at": datetime.fromtimestamp(desk.now, UTC)}
    rows = [{"uuid": named(f"service {n}"), "host": f"h{n}", **alike} for n in range(6000 - 4)]
    desk.db.run(lambda session: session.execute(insert(models.Service), rows))
    desk.tick(desk.conductor, 61)
    assert [round(interval) for interval in asked(desk)] == [20, 150]
    others = [desk.start(name) for name in ("two", "three")]
    for _ in range(11):
        desk.now += 6
        for conductor in (*others, desk.conductor):
            desk.tick(conductor)
    assert [round(interval) for interval in asked(desk)] == [10, 50]
    desk.tick(desk.conductor, 61)  # the others have died
    assert [round(interval) for interval in asked(desk)] == [20, 150]
