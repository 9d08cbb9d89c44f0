"""Builds of servers that exist already: after an offload, or on another host after an evacuation."""

from typing import Any

from oslo_config import cfg
from sqlalchemy.orm import Session

from minova.conductor.servers.build import SCHEDULE_WAIT
from minova.conductor.tasks.worker import TaskWorker
from minova.db.models import TaskStep
from minova.db.servers import migrations, tasks
from minova.db.servers.instances import LockedInstance
from minova.placement.allocations import claims

FIRST_CLAIM, EPOCH = 1, 1


def last_attempt_of(session: Session, locked: LockedInstance) -> int:
    """Returns the last number of an attempt on any host, or of a move, so that the next attempt differs from them."""
    return max(locked.attempt, migrations.last_attempt(session, locked.uuid))


def insert_task(
    session: Session,
    worker: TaskWorker,
    conf: cfg.ConfigOpts,
    locked: LockedInstance,
    last_attempt: int,
    *,
    reservation_id: str,
    action_id: int,
    request_id: str,
) -> None:
    """Inserts the task of a build, for the only server of its reservation. Releases the allocations that the server has.

    `last_attempt`: from `last_attempt_of`.
    """
    now = worker.now()
    row: dict[str, Any] = {
        "kind": "build",
        "instance_uuid": locked.uuid,
        "reservation_id": reservation_id,
        "action_id": action_id,
        "worker_id": worker.id,
        "epoch": EPOCH,
        "step": TaskStep.SCHEDULE.value,
        "attempt": last_attempt,
        "claim_number": claims.release(session, [locked.uuid], now).get(locked.uuid, FIRST_CLAIM),
        "payload": {},
        "request_id": request_id,
        "wake_at": SCHEDULE_WAIT,
        "deadline": float(conf.conductor.schedule_timeout),
        "created_at": worker.at(),
    }
    tasks.insert_rows(session, [row], now)
