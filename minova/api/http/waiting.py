"""Requests that are answered only when work elsewhere has ended. Each holds a thread of the API, which other requests
need.
"""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from minova import errors

# The most waiting requests of one project.
MAX_PER_PROJECT = 2


class WaitingRequests:
    """At most `limit` requests wait in this process. Thread-safe."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._of_projects: Counter[str] = Counter()

    @contextmanager
    def place(self, project_id: str, per_project: int = MAX_PER_PROJECT) -> Iterator[None]:
        """Holds a place for one request while the block runs. Raises ServiceUnavailable if too many requests wait."""
        with self._lock:
            if self._of_projects.total() >= self._limit or self._of_projects[project_id] >= per_project:
                raise errors.ServiceUnavailable(
                    "Too many requests wait for the answer of a guest. Please try again later."
                )
            self._of_projects[project_id] += 1
        try:
            yield
        finally:
            with self._lock:
                self._of_projects[project_id] -= 1
