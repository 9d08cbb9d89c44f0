"""Times and results of node audits: gathered in memory, and written once a second for all nodes together."""

import logging
import threading
from collections.abc import Mapping
from datetime import datetime

from sqlalchemy.exc import IntegrityError

from minova.conductor.tasks.batches import together_or_alone
from minova.conductor.tasks.worker import TaskWorker
from minova.db.hosts import node_audits
from minova.objects.hosts.node_audit import NodeAudit
from minova.races import Race, repeat_lost

LOG = logging.getLogger(__name__)
# Another conductor inserts the first audit of a node at the same time, or deletes the node. The next try sees it.
NODE_CHANGED = Race(
    IntegrityError, lambda error: LOG.debug("Results of audits are written again: %s", error.orig), tries=5
)


class AuditResults:
    """Safe for threads. If a conductor dies, its unwritten results are lost, and the next audit of each node replaces
    them.
    """

    def __init__(self, worker: TaskWorker) -> None:
        self._worker = worker
        self._ended: dict[int, tuple[datetime, NodeAudit]] = {}
        self._lock = threading.Lock()

    def ended(self, node_id: int, audit: NodeAudit) -> None:
        with self._lock:
            self._ended[node_id] = (self._worker.at(), audit)

    def flush(self) -> None:
        with self._lock:
            ended, self._ended = self._ended, {}
        if not ended:
            return

        def write(some: Mapping[int, tuple[datetime, NodeAudit]]) -> None:
            repeat_lost(lambda: self._worker.run(lambda session: node_audits.write(session, some)), [NODE_CHANGED])

        try:
            failed = together_or_alone("Results of audits", ended, write)
        except BaseException:
            with self._lock:
                self._ended = {**ended, **self._ended}
            raise
        for node_id, error in failed.items():
            LOG.error(
                "The result of the audit of node %d is dropped, its next audit brings another: %s", node_id, error
            )
