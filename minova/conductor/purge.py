"""Removes expired rows, in small batches with pauses, from one conductor at a time.

docs/operators/growth.md lists every table that grows, with its retention.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from oslo_config import cfg
from sqlalchemy import ColumnElement, select
from sqlalchemy.orm import Session

from minova import errors
from minova.conductor.tasks.unknown_times import begin_unknown
from minova.conductor.tasks.worker import TaskWorker
from minova.db import purge
from minova.db.networks import ports
from minova.db.quotas import give
from minova.db.recovery import cloud
from minova.db.servers import request_specs, tasks, unknown_times
from minova.placement import changes
from minova.placement.allocations import claims

LOG = logging.getLogger(__name__)

PURGE_INTERVAL = 600.0
TRIM_INTERVAL = 60.0
# Each round scans whole tables, so it is rare.
HISTORY_INTERVAL = 3600.0

# No broker delivers a message again after so many seconds.
LATEST = 3600.0

# (session, batch size) -> number of removed rows, or of removed things that have many rows each.
Batch = Callable[[Session, int], int]


class PurgeRule(NamedTuple):
    """`retention` in seconds; 0 keeps the rows for ever."""

    name: str
    retention: float
    batch: Batch


class Purge:
    """`stopping` ends the pauses."""

    def __init__(self, conf: cfg.ConfigOpts, worker: TaskWorker, stopping: threading.Event) -> None:
        self._conf = conf.conductor
        self._worker = worker
        self._stopping = stopping

    def purge(self) -> None:
        """Remove rows that are older than their retention."""
        self._begin_unknown_times()
        self._apply(self._rules())

    def trim_host_changes(self) -> None:
        """Trim the change feed of the schedulers, which has many short-lived rows."""
        retention = float(self._conf.host_change_retention)

        def batch(session: Session, limit: int) -> int:
            return changes.trim(session, self._worker.db.wall() - retention, limit)

        self._apply([PurgeRule("host_changes", retention, batch)])
        if self._is_first() and self._worker.run(changes.renumber):
            LOG.info("The numbers of host_changes were used up and begin at 1 again; each scheduler reads every host")

    def forget_secrets(self) -> None:
        """Remove passwords and files of servers whose builds have ended."""
        if self._is_first():
            self._worker.run(request_specs.forget_secrets)

    def purge_history(self) -> None:
        """Remove ended migrations, actions and faults of instances that exist or were deleted recently."""
        self._begin_unknown_times()
        seconds = float(self._conf.history_retention)
        before = self._earlier(seconds)

        def migrations(session: Session, limit: int) -> int:
            purged = purge.migrations(session, self._now() - seconds, limit)
            claims.forget(session, purged)
            return len(purged)

        self._apply(
            [
                PurgeRule("migrations", seconds, migrations),
                PurgeRule("instance_actions", seconds, lambda session, limit: purge.actions(session, before, limit)),
                PurgeRule("instance_faults", seconds, lambda session, limit: purge.faults(session, before, limit)),
            ]
        )

    def _rules(self) -> Sequence[PurgeRule]:
        at = self._worker.at()
        purged = float(self._conf.purged_retention)
        deleted, diagnoses = float(self._conf.deleted_retention), float(self._conf.diagnosis_retention)
        diagnosed_before, purged_before = self._earlier(diagnoses), self._earlier(purged)

        def deleted_instances(session: Session, limit: int) -> int:
            gone = purge.deleted_instances(session, self._now() - deleted, limit, at)
            claims.forget(session, gone.consumers)
            return gone.instances

        def old_diagnoses(session: Session, limit: int) -> int:
            return purge.diagnoses(session, diagnosed_before, limit)

        def old_purged(session: Session, limit: int) -> int:
            return purge.purged_instances(session, purged_before, limit)

        def old_messages(session: Session, limit: int) -> int:
            return purge.executed_messages(session, self._now() - LATEST, limit)

        def orphaned_ports(session: Session, limit: int) -> int:
            """Ports that a conductor of release 0.1.0 leaves when it deletes a server, because it does not know
            ports.
            """
            servers = ports.deleted_servers(session, limit)
            for project_id, gone_ports in sorted(ports.release(session, servers).items()):
                give(session, project_id, {"ports": gone_ports})
            return len(servers)

        def workers(session: Session, limit: int) -> int:
            tasks.forget_workers(session, self._now() - 3600.0)
            cloud.forget_counters(session, self._now())
            return 0

        return [
            PurgeRule("ports of deleted servers", 1.0, orphaned_ports),
            PurgeRule("instances", deleted, deleted_instances),
            PurgeRule("purged_instances", purged, old_purged),
            PurgeRule("executed_messages", LATEST, old_messages),
            PurgeRule("diagnoses", diagnoses, old_diagnoses),
            PurgeRule("workers", 3600.0, workers),
        ]

    def _apply(self, rules: Sequence[PurgeRule]) -> None:
        """Apply each rule, even if another one fails."""
        for rule in rules:
            try:
                if rule.retention and not self._remove(rule):
                    return
            except errors.ServiceUnavailable:
                raise
            except Exception:
                LOG.exception("Rows of %s cannot be purged", rule.name)

    def _remove(self, rule: PurgeRule) -> bool:
        """Returns whether this conductor is still the one that purges, and should continue."""
        total, limit = 0, int(self._conf.purge_batch_size)
        while self._is_first():
            removed = self._worker.run(lambda session: rule.batch(session, limit))
            total += removed
            # A batch that is not full is the last one. Rows that expire meanwhile wait for the next round.
            if removed < limit:
                LOG.log(logging.INFO if total else logging.DEBUG, "Purged %d of %s", total, rule.name)
                return True
            if self._stopping.wait(self._conf.purge_pause):
                return False
        return False

    def _is_first(self) -> bool:
        """Returns whether this conductor purges: the one with a valid lease and the lowest id does. Two at once do no harm."""
        with self._worker.db.read() as session:
            return tasks.first_worker(session, self._now()) == self._worker.id

    def _begin_unknown_times(self) -> None:
        if self._is_first():
            begin_unknown(self._worker, unknown_times.OF_RECORDS)

    def _earlier(self, seconds: float) -> datetime:
        """Returns the time of people so many seconds ago, by whichever clock is behind: this conductor's or the database's. For
        records for people alone: a clock that runs ahead removes none of them early.
        """
        with self._worker.db.read() as session:
            wall = float(session.scalar(select(self._worker.db.wall())) or 0.0)
        return min(self._worker.at(), datetime.fromtimestamp(wall, UTC).replace(tzinfo=None)) - timedelta(
            seconds=seconds
        )

    def _now(self) -> ColumnElement[float]:
        return self._worker.now()
