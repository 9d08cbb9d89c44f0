"""A conductor with threads of its own, beside those of a ConductorHarness whose work waits for `settle`."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from minova.cmd.conductor import make_manager
from minova.contracts.compute import ComputeApi
from tests.fakes.running_conductor import RunningConductor, running
from tests.functional.conductor.conductor_harness import ConductorHarness


@contextmanager
def threaded(
    harness: ConductorHarness,
    *,
    host: str = "threaded",
    scheduler: Any = None,
    compute: Callable[[str], ComputeApi] | None = None,
) -> Iterator[RunningConductor]:
    """It has started, and is stopped at the end; its periodic tasks run only when the test calls them."""
    manager = running(
        make_manager(
            harness.conf(),
            harness.db,
            scheduler or harness.scheduler,
            compute or (lambda name: harness.hosts[name]),
            host=host,
            clock=lambda: harness.now,
        )
    )
    manager.init_host()
    manager.post_start_hook()
    try:
        yield manager
    finally:
        manager.stop()
