"""Periodic recovery: tasks that are due or wait for a host that is lost, leases, take-over, messages to send again."""

import logging

from oslo_config import cfg

from minova import metrics
from minova.conductor.compute_messages import ComputeClient
from minova.conductor.hosts.liveness import Liveness
from minova.conductor.tasks.registry import HostLoss, TaskRegistry
from minova.conductor.tasks.worker import TaskWorker
from minova.db.servers import tasks
from minova.objects.servers.failures import Failure

LOG = logging.getLogger(__name__)

# The most tasks in one round; the next round is only seconds away.
LIMIT = 500
# Why a task expires, by how its host was lost.
FAILURES = {
    HostLoss.ABSENT: Failure(kind="HostDown", details="the host is down"),
    HostLoss.FENCED: Failure(kind="HostDown", details="the host was forced down"),
}


class Reconcile:
    def __init__(
        self,
        conf: cfg.ConfigOpts,
        worker: TaskWorker,
        registry: TaskRegistry,
        computes: ComputeClient,
        liveness: Liveness,
    ) -> None:
        self._worker = worker
        self._registry = registry
        self._computes = computes
        self._liveness = liveness
        self._all_unsent = False
        self._instance_build_timeout = conf.instance_build_timeout

    def process_due_tasks(self) -> None:
        """Resume tasks that are due, and expire tasks whose host is lost."""
        self._expire_late_builds()
        self._send_again()
        hosts = self._liveness.hosts()
        hosts_by_loss = {HostLoss.ABSENT: hosts.absent, HostLoss.FENCED: hosts.fenced}
        with self._worker.db.read() as session:
            counts = tasks.count_by_step(session, self._worker.id, self._worker.now())
            is_due = any(count.due for count in counts.values())
            due_tasks = list(tasks.due(session, self._worker.id, self._worker.now(), LIMIT)) if is_due else []
            on_lost_hosts = {
                loss: tasks.on_hosts(session, self._worker.id, hosts, self._registry.steps_ended_by(loss), LIMIT)
                for loss, hosts in hosts_by_loss.items()
            }
            waiting_actions = tasks.on_hosts(
                session,
                self._worker.id,
                hosts_by_loss[HostLoss.ABSENT] - hosts_by_loss[HostLoss.FENCED],
                self._registry.steps_ended_by(HostLoss.FENCED),
                LIMIT,
            )
        metrics.ACTIONS_WAITING.set(len(waiting_actions))
        for step in self._registry.steps:
            metrics.TASKS.labels(step.value).set(counts[step.value].all if step.value in counts else 0)
        due_ids = {task.id for task in due_tasks}
        self._registry.resume(due_tasks)
        for loss, some in on_lost_hosts.items():
            self._registry.expire([task for task in some if task.id not in due_ids], FAILURES[loss])

    def take_over_orphaned(self) -> None:
        """Same as `take_over`, if the last renewal of the own lease has seen such tasks. Looks at no database otherwise, so
        it may be called often.
        """
        if self._worker.has_seen_orphans:
            self.take_over()

    def take_over(self) -> None:
        """Take over tasks whose owner's lease has expired, and resume them from their rows: messages that the owner may
        not have sent are sent.
        """
        if not self._worker.may_take_over():
            return
        with self._worker.db.read() as session:
            if not tasks.any_orphaned(session, self._worker.id, self._worker.now()):
                return
        orphaned_tasks = self._worker.run(
            lambda session: tasks.take_over(session, self._worker.id, self._worker.now(), LIMIT)
        )
        LOG.info("Taking over %d tasks", len(orphaned_tasks))
        self._registry.start(orphaned_tasks)

    def broker_is_back(self) -> None:
        """A restarted broker has lost the messages that no host had read. The next round sends all of them again."""
        self._all_unsent = True

    def _expire_late_builds(self) -> None:
        """`instance_build_timeout` limits the whole build, even if further hosts could be tried."""
        if not self._instance_build_timeout:
            return
        before = self._worker.now() - float(self._instance_build_timeout)
        with self._worker.db.read() as session:
            late_builds = tasks.builds_since(session, self._worker.id, before, LIMIT)
        details = f"The instance was not built within instance_build_timeout, {self._instance_build_timeout} s."
        self._registry.expire(late_builds, Failure(kind="BuildTimeout", details=details), final=True)

    def _send_again(self) -> None:
        """Send messages again that could not be sent, or that the broker may have lost."""
        everything, self._all_unsent = self._all_unsent, False
        unsent = self._computes.unsent.due()
        if not (everything or unsent):
            return
        with self._worker.db.read() as session:
            unclaimed = list(tasks.unclaimed(session, self._worker.id, None if everything else unsent))
        if unclaimed:
            LOG.info("Sending the messages of %d tasks again", len(unclaimed))
        self._registry.start(unclaimed)
