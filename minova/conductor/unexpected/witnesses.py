"""Notes when hosts and image stores have reported what they hold: safe mode ends after all of them have."""

import time
from collections.abc import Callable

from minova.conductor.tasks.worker import TaskWorker
from minova.db.recovery import cloud

# Seconds between two notes of one host outside of safe mode, where they only tell which hosts there are.
NOTE_INTERVAL = 600.0


class ReportNotes:
    """`kind`: `cloud.HOST` or `cloud.STORE`. Safe for threads: at worst, a report is noted twice."""

    def __init__(self, worker: TaskWorker, kind: str, ticks: Callable[[], float] = time.monotonic) -> None:
        self._ticks = ticks
        self._worker = worker
        self._kind = kind
        self._noted_at: dict[tuple[str, str | None], float] = {}

    def note(self, name: str) -> None:
        ticks, row = self._ticks(), self._worker.history.row
        # A host that was away when safe mode ended is held until it has reported to the new history.
        key = (name, None if row is None else row.history)
        if self._worker.safe_mode.reason is None and ticks - self._noted_at.get(key, -NOTE_INTERVAL) < NOTE_INTERVAL:
            return
        self._worker.record(lambda session: cloud.note_report(session, self._kind, name, self._worker.now()))
        self._noted_at[key] = ticks
