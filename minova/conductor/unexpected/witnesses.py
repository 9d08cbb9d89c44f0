"""Notes when hosts and image stores have reported what they hold: safe mode ends after all of them have."""

import time
from collections.abc import Callable

from minova.conductor.tasks.worker import Worker
from minova.db import cloud

# Seconds between two notes of one host outside of safe mode, where they only tell which hosts there are.
NOTE_INTERVAL = 600.0


class ReportNotes:
    """`kind`: `cloud.HOST` or `cloud.STORE`. Safe for threads: at worst, a report is noted twice."""

    def __init__(self, worker: Worker, kind: str, ticks: Callable[[], float] = time.monotonic) -> None:
        self._ticks = ticks
        self._worker = worker
        self._kind = kind
        self._noted_at: dict[str, float] = {}

    def note(self, name: str) -> None:
        ticks = self._ticks()
        if self._worker.safe_mode.reason is None and ticks - self._noted_at.get(name, -NOTE_INTERVAL) < NOTE_INTERVAL:
            return
        self._worker.record(lambda session: cloud.note_report(session, self._kind, name, self._worker.now()))
        self._noted_at[name] = ticks
