"""After 30 s of a graceful stop the driver was closed under builds that went on; they failed, and reported it."""

import threading

import pytest

from minova.objects.catalogue.image import Image
from minova.objects.servers.states import VmState
from tests.fakes.computes import CTX, FLAVOR, HOST, NODE, Compute, wait_until
from tests.unit.compute.instances.test_workers import threaded

IMAGE = Image(id="an-image", status="active", disk_format="raw")


@pytest.mark.parametrize("operation", ["prepare", "power_on"])
@pytest.mark.parametrize("fails", [False, True])
def test_a_build_that_does_not_end_in_time_is_left_and_resumed_by_the_next_start(operation: str, fails: bool) -> None:
    going_on = threading.Event()
    with threaded(graceful_shutdown_timeout=1) as (manager, conductor, hypervisor):

        def hold(name: str) -> None:
            if name == operation:
                going_on.wait(30)
                if fails:
                    raise RuntimeError("the connection is closed")

        hypervisor.on_call = hold
        manager.build_and_run_instance(CTX, conductor.commit_build("i", HOST, NODE, FLAVOR))
        wait_until(lambda: operation in hypervisor.calls)
        manager.stop()
        assert not hypervisor.closed
        before = list(conductor.calls)
        going_on.set()
        wait_until(lambda: not any(thread.name == "builds" for thread in threading.enumerate()))
        assert conductor.calls == before  # no report, and nothing is undone
        assert "destroy" not in hypervisor.calls
        hypervisor.on_call = lambda name: None
    again = Compute(conductor, hypervisor).start()
    again.run()
    assert conductor.instances["i"].vm_state is VmState.ACTIVE
    assert conductor.failures == []


def test_a_build_that_waits_for_its_image_is_left_too() -> None:
    with threaded(graceful_shutdown_timeout=1) as (manager, conductor, hypervisor):
        hypervisor.wants_image = True
        waits = threading.Event()

        def wait(check: object) -> None:
            waits.set()
            while True:
                check()  # type: ignore[operator]

        manager.collaborators.builder._images.on_fetch = wait  # type: ignore[attr-defined]
        manager.build_and_run_instance(CTX, conductor.commit_build("i", HOST, NODE, FLAVOR, image=IMAGE))
        assert waits.wait(60)
        manager.stop()
        wait_until(lambda: not any(thread.name == "builds" for thread in threading.enumerate()))
        assert conductor.failures == []
        assert conductor.instances["i"].vm_state is VmState.BUILDING


def test_while_builds_end_the_host_goes_on_to_beat() -> None:
    """Else it would be down before the end of the time that its builds have, and the conductor would give them up."""
    with threaded(graceful_shutdown_timeout=0, report_interval=1) as (manager, conductor, hypervisor):
        beats: list[int] = []

        def hold(name: str) -> None:
            if name == "prepare":
                wait_until(lambda: conductor.calls.count("heartbeat") >= 2, 20)
                beats.append(conductor.calls.count("heartbeat"))

        hypervisor.on_call = hold
        manager.build_and_run_instance(CTX, conductor.commit_build("i", HOST, NODE, FLAVOR))
        wait_until(lambda: "prepare" in hypervisor.calls)
        manager.stop()
        assert beats
        assert conductor.instances["i"].vm_state is VmState.ACTIVE
        assert hypervisor.closed
