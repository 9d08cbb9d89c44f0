"""The take-over sent messages in the thread that renews the lease: with the broker away the lease ran out."""

import threading
from typing import Any

import pytest

from tests.functional.conductor.conductor_harness import CTX, ConductorHarness
from tests.functional.conductor.fakes import FakeHost
from tests.functional.conductor.threaded_conductor import threaded

pytestmark = pytest.mark.timeout(120)


class Stuck(FakeHost):
    """Messages to it wait until the broker is back."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.broker_is_back = threading.Event()
        self.waiting = threading.Event()

    def build_and_run_instance(self, *args: Any, **arguments: Any) -> None:
        self.waiting.set()
        self.broker_is_back.wait()
        super().build_and_run_instance(*args, **arguments)


def test_a_take_over_ends_and_the_lease_is_renewed_while_messages_wait_for_the_broker(
    harness: ConductorHarness,
) -> None:
    uuids = harness.create(3)
    harness.hosts["a"].builds.clear()
    host = Stuck("a")
    with threaded(harness, compute=lambda name: host) as other:
        harness.now += 10.0  # the first conductor is dead
        other.worker.renew()
        harness.now += 3.0  # its own lease was not renewed for as long, so it waits for the others to renew theirs
        other.worker.renew()
        took = threading.Thread(target=lambda: [task.work() for task in other.periodic_tasks()], daemon=True)
        took.start()
        took.join(30)
        try:
            assert not took.is_alive(), "a periodic task waits for the broker"
            assert host.waiting.wait(30)
            assert {harness.task(uuid).worker_id for uuid in uuids} == {other.worker.id}  # type: ignore[union-attr]
            harness.now += 8.0
            other.worker.renew()
            harness.now += 8.0
            assert harness.conductor.worker.may_take_over()
            harness.conductor.heartbeat(CTX, host="a", binary="minova-compute")
            harness.conductor.collaborators.reconcile.take_over()
            assert {harness.task(uuid).worker_id for uuid in uuids} == {other.worker.id}  # type: ignore[union-attr]
        finally:
            host.broker_is_back.set()


def test_one_thread_does_nothing_but_renew_the_lease(harness: ConductorHarness) -> None:
    tasks = {task.name: task for task in harness.conductor.periodic_tasks()}
    assert tasks["renew_lease"].work == harness.conductor.worker.renew
    assert tasks["renew_lease"].interval == pytest.approx(0.5)
