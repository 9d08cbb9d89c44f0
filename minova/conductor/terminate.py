"""Deletion: the row says first that it is wanted, then the host is asked, again and again, until it has reported."""

import logging
from typing import Any, NamedTuple

from oslo_config import cfg
from sqlalchemy.orm import Session

from minova import errors
from minova.conductor.casts import Casts
from minova.conductor.endings import finish_delete
from minova.conductor.liveness import Liveness
from minova.conductor.worker import Worker
from minova.context import RequestContext
from minova.db import actions, instances, tasks
from minova.db.instances import Standing
from minova.db.models import Task
from minova.objects.states import TaskState

LOG = logging.getLogger(__name__)

# Seconds until a host that has not reported is asked again.
ASK_AGAIN = 15.0


class Ask(NamedTuple):
    """Which host is to be asked, and for which of its nodes."""

    host: str
    node: str | None


class Terminate:
    def __init__(self, conf: cfg.ConfigOpts, worker: Worker, casts: Casts, liveness: Liveness) -> None:
        self._worker = worker
        self._casts = casts
        self._liveness = liveness
        self._timeout = float(conf.conductor.build_timeout)

    def delete_server(self, ctx: RequestContext, instance_uuid: str) -> None:
        """NotFound: there is none. Without a host that could answer it is done at once; its domain is then a stray."""
        able = self._liveness.able_hosts()
        ask = self._worker.run(lambda session: self._begin(session, ctx, instance_uuid, able))
        if ask is not None:
            self._casts.terminate(ctx, ask.host, instance_uuid, ask.node)

    def instance_deleted(self, instance_uuid: str, host: str) -> None:
        """Said twice, or by a host that was not asked, it changes nothing."""

        def work(session: Session) -> None:
            standing = instances.lock(session, [instance_uuid]).get(instance_uuid)
            if standing is None or standing.deleted or not standing.deleting:
                return
            task = tasks.lock(session, [instance_uuid]).get(instance_uuid)
            if task is not None and task.host == host:
                self._finish(session, standing, task)

        self._worker.run(work)

    def go_on(self, ctx: RequestContext, instance_uuid: str, epoch: int) -> None:
        """Ask the host again; without one that could answer, the end."""
        able = self._liveness.able_hosts()

        def work(session: Session) -> Ask | None:
            standing = instances.lock(session, [instance_uuid]).get(instance_uuid)
            task = tasks.lock(session, [instance_uuid]).get(instance_uuid)
            if standing is None or task is None or (task.step, task.epoch) != ("delete", epoch):
                return None
            if task.host is None or task.host not in able:
                LOG.info("Instance %s is deleted without its host %s, which is down", instance_uuid, task.host)
                self._finish(session, standing, task)
                return None
            tasks.change(session, [(task, {"step": task.step})], ASK_AGAIN, self._worker.now())
            return Ask(task.host, task.node)

        ask = self._worker.run(work)
        if ask is not None:
            self._casts.terminate(ctx, ask.host, instance_uuid, ask.node)

    def _begin(self, session: Session, ctx: RequestContext, instance_uuid: str, able: frozenset[str]) -> Ask | None:
        standing = instances.lock(session, [instance_uuid]).get(instance_uuid)
        if standing is None or standing.deleted:
            raise errors.NotFound(f"Server {instance_uuid} could not be found.")
        task = tasks.lock(session, [instance_uuid]).get(instance_uuid)
        if standing.deleting and task is not None:
            return Ask(task.host, task.node) if task.host is not None else None
        at, now = self._worker.at(), self._worker.now()
        deleting = (standing.state[0], TaskState.DELETING)
        if not standing.deleting:
            # From here on every report of a build is stale.
            instances.move(session, [instance_uuid], [standing.state], deleting, updated_at=at)
        asked = {
            "instance_uuid": instance_uuid,
            "action": "delete",
            "request_id": ctx.request_id,
            "user_id": ctx.user_id,
            "project_id": ctx.project_id,
            "start_time": at,
        }
        action_id = actions.begin(session, [asked])[instance_uuid]
        if task is not None and task.action_id is not None:
            actions.end(session, [task.action_id], at, error="Deleted while it was built")
        host, node = standing.host, standing.node
        if host is None and task is not None:
            host, node = task.host, task.node
        if host is None or host not in able:
            finish_delete(session, standing, task.claim_no if task is not None else 0, action_id, at, now)
            return None
        turned: dict[str, Any] = {
            "kind": "delete",
            "step": "delete",
            "host": host,
            "node": node,
            "action_id": action_id,
            "request_id": ctx.request_id,
            "worker_id": self._worker.id,
            "payload": {},
        }
        if task is not None:
            tasks.change(session, [(task, turned | {"epoch": task.epoch + 1})], ASK_AGAIN, now)
        else:
            made = {"reservation_id": "", "instance_uuid": instance_uuid, "epoch": 1, "attempt": 0, "claim_no": 0}
            made |= {"wake_at": ASK_AGAIN, "deadline": self._timeout, "created_at": at}
            tasks.insert_rows(session, [turned | made], now)
        return Ask(host, node)

    def _finish(self, session: Session, standing: Standing, task: Task) -> None:
        at, now = self._worker.at(), self._worker.now()
        finish_delete(session, standing, task.claim_no, task.action_id, at, now)
