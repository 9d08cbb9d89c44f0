"""The periodic audit of Placement, without repairs: findings are logged and counted, and operators decide about
them.
"""

import logging
from collections import Counter

from minova.conductor.tasks.worker import TaskWorker
from minova.metrics import PLACEMENT_FINDINGS
from minova.placement.audit import gather
from minova.placement.audit.judge import FindingKind

LOG = logging.getLogger(__name__)

# The most findings that are logged one by one; `minova-manage placement audit` shows all.
MAX_LOGGED = 20


class PlacementAudit:
    def __init__(self, worker: TaskWorker) -> None:
        self._worker = worker
        self.counts_by_kind: Counter[FindingKind] = Counter()

    def run(self) -> None:
        with self._worker.db.read() as session:
            findings = gather.findings(session)
        self.counts_by_kind = Counter(finding.kind for finding in findings)
        for kind in FindingKind:
            PLACEMENT_FINDINGS.labels(kind.value).set(self.counts_by_kind[kind])
        if not findings:
            LOG.info("The audit of Placement found nothing wrong")
            return
        counts = ", ".join(f"{count} x {kind.value}" for kind, count in sorted(self.counts_by_kind.items()))
        LOG.warning("The audit of Placement found %s. To put it right: minova-manage placement audit --fix", counts)
        for finding in findings[:MAX_LOGGED]:
            whose = finding.consumer_uuid or finding.provider_uuid
            LOG.warning("%s %s: %s", finding.kind.value.capitalize(), whose, finding.detail)
