"""When nodes were audited and what that found: gathered in memory, and written once a second for all of them."""

import threading
from datetime import datetime

from sqlalchemy.orm import Session

from minova.conductor.worker import Worker
from minova.db import node_audits
from minova.objects.node_audit import NodeAudit


class Audits:
    """Safe for threads. What a conductor that dies has not written yet, the node's next audit brings again."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._ended: dict[int, tuple[datetime, NodeAudit]] = {}
        self._lock = threading.Lock()

    def ended(self, node_id: int, found: NodeAudit) -> None:
        with self._lock:
            self._ended[node_id] = (self._worker.at(), found)

    def flush(self) -> None:
        with self._lock:
            ended, self._ended = self._ended, {}
        if not ended:
            return

        def work(session: Session) -> None:
            node_audits.write(session, ended)

        try:
            self._worker.run(work)
        except BaseException:
            with self._lock:
                self._ended = {**ended, **self._ended}
            raise
