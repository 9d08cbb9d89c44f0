"""Requests that are answered only when work elsewhere has ended. Each holds a thread of the API, which other requests
need.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from minova import errors
from minova.concurrency.fair_shares import NoPlace, SharedPlaces

# The most waiting requests of one project.
MAX_PER_PROJECT = 2


class WaitingRequests:
    """About `limit` requests wait in this process: see FairShares. Thread-safe."""

    def __init__(self, limit: int) -> None:
        self._places = SharedPlaces(limit)

    @contextmanager
    def place(self, project_id: str, per_project: int = MAX_PER_PROJECT) -> Iterator[None]:
        """Holds a place for one request while the block runs. Raises ServiceUnavailable if too many requests wait."""
        try:
            self._places.take(project_id, per_project)
        except NoPlace:
            raise errors.ServiceUnavailable(
                "Too many requests wait for the answer of a guest. Please try again later."
            ) from None
        try:
            yield
        finally:
            self._places.give(project_id)
