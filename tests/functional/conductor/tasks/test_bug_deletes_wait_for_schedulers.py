"""All threads of a conductor waited for a scheduler that did not answer: with 96 creates waiting a delete took 173 s."""

import contextlib
import threading
import time
from typing import Any

import pytest

from minova import errors
from minova.cmd.startup.clients import SCHEDULE_TIMEOUT
from minova.context import RequestContext
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness, new_request, request
from tests.functional.conductor.threaded_conductor import threaded
from tests.waiting import wait_for

pytestmark = pytest.mark.timeout(120)
CREATES = 96


class Silent:
    """A scheduler that never answers, until it is told to fail."""

    def __init__(self) -> None:
        self.asked = 0
        self.ended = threading.Event()
        self._lock = threading.Lock()

    def _wait(self, *args: Any, **arguments: Any) -> Any:
        with self._lock:
            self.asked += 1
        self.ended.wait()
        raise errors.ServiceUnavailable("No answer in time")

    select_destinations = preview_destinations = capacity = _wait


def test_a_delete_does_not_wait_behind_creates(harness: ConductorHarness) -> None:
    uuid = harness.active()
    doomed = harness.active()
    scheduler = Silent()
    with threaded(harness, scheduler=scheduler) as conductor:
        try:
            for _ in range(CREATES):
                conductor.create_servers(CTX, request=request())
            wait_for("as many as may wait do", lambda: scheduler.asked == 16)
            begun = time.monotonic()
            conductor.delete_server(new_request(), instance_uuid=uuid)
            assert harness.hosts["a"].terminated[-1:] == [uuid]
            # The message was lost: the conductor asks again, in the background.
            harness.hosts["a"].terminated.clear()
            harness.now += 16.0
            conductor.worker.renew()
            next(task for task in conductor.periodic_tasks() if task.name == "process_due_tasks").work()
            wait_for("the host is asked again", lambda: uuid in harness.hosts["a"].terminated)
            conductor.instance_deleted(CTX, instance_uuid=uuid, host="a")
            assert time.monotonic() - begun < SCHEDULE_TIMEOUT, "less than one time-out of a scheduler"
            # So do reports of builds, which need no scheduler.
            conductor.delete_server(new_request(), instance_uuid=doomed)
        finally:
            scheduler.ended.set()


def test_a_stop_does_not_wait_for_a_scheduler(harness: ConductorHarness) -> None:
    scheduler = Silent()
    with threaded(harness, scheduler=scheduler) as conductor:
        (uuid,) = conductor.create_servers(CTX, request=request()).instance_uuids
        wait_for("it waits", lambda: scheduler.asked == 1)
        begun = time.monotonic()
        conductor.stop()
        assert time.monotonic() - begun < 30.0, "the scheduler never answers"
    try:
        # What it has left is another's at once.
        other = harness.start("other")
        task = harness.task(uuid)
        assert task is not None
        assert task.worker_id == other.worker.id
    finally:
        scheduler.ended.set()


def test_dry_runs_of_a_project_take_no_place_of_another_one(harness: ConductorHarness) -> None:
    """It took all of them, and all other projects were refused."""
    scheduler = Silent()
    other = RequestContext(request_id="req-other", user_id="u", project_id="other")
    with threaded(harness, scheduler=scheduler) as conductor:

        def ask(ctx: RequestContext) -> None:
            with contextlib.suppress(errors.ServiceUnavailable):
                conductor.preview_servers(ctx, request=request())

        threads = [threading.Thread(target=ask, args=(CTX,), daemon=True) for _ in range(8)]
        try:
            for thread in threads:
                thread.start()
            wait_for("it has all places", lambda: scheduler.asked == 4)
            threads.append(threading.Thread(target=ask, args=(other,), daemon=True))
            threads[-1].start()
            wait_for("the other one has its own", lambda: scheduler.asked == 5)
        finally:
            scheduler.ended.set()
        for thread in threads:
            thread.join(30)


def test_dry_runs_hold_few_threads_and_more_are_refused_at_once(harness: ConductorHarness) -> None:
    """Sixteen of them held all threads of a conductor for 30 s."""
    scheduler = Silent()
    refused: list[str] = []

    def ask(conductor: Any, number: int) -> None:
        try:
            if number % 2:
                conductor.capacity(CTX, request=request(), limit=3)
            else:
                conductor.preview_servers(CTX, request=request())
        except errors.ServiceUnavailable as error:
            refused.append(str(error))

    with threaded(harness, scheduler=scheduler) as conductor:
        threads = [threading.Thread(target=ask, args=(conductor, n), daemon=True) for n in range(16)]
        for thread in threads:
            thread.start()
        try:
            wait_for("the others are refused", lambda: len(refused) == 12)
            assert all("4 dry runs are under way" in text for text in refused)
            assert scheduler.asked == 4
        finally:
            scheduler.ended.set()
        for thread in threads:
            thread.join(30)
        assert len(refused) == 16
        assert refused[-1] == "No answer in time"
        scheduler.ended.set()
        with pytest.raises(errors.ServiceUnavailable, match="No answer in time"):
            conductor.capacity(CTX, request=request(), limit=3)
