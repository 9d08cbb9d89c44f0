"""Gives freed memory back to the system from time to time (`minova.malloc`)."""

import threading

from minova.malloc import return_freed_memory
from minova.service import PeriodicTask, start_periodic

INTERVAL = 600.0


class FreedMemory:
    binary = "freed memory"

    def __init__(self, stopping: threading.Event) -> None:
        self._stopping = stopping

    def start(self) -> None:
        task = PeriodicTask(name="return_freed_memory", interval=INTERVAL, work=return_freed_memory)
        start_periodic(task, self._stopping)

    def stop(self) -> None:
        """Does nothing: the thread ends with `stopping`."""
