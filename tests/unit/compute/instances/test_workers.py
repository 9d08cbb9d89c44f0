"""Threads of a compute: how many builds at once, who waits for whom, and how it ends."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from minova.cmd.compute import make_manager as make_compute_manager
from minova.compute.instances.workers import GuestWorkers
from minova.compute.manager import ComputeManager
from minova.objects.requests.request_spec import HostLimits
from minova.objects.servers.states import PowerState, VmState
from tests.fakes.computes import CTX, FLAVOR, HOST, NODE, FakeImages, configured, wait_until
from tests.fakes.conductor import FakeConductor
from tests.fakes.hypervisor import Hypervisor


class CallGate:
    """A hypervisor's operation at which threads wait, and are counted."""

    def __init__(self) -> None:
        self.inside = 0
        self.most = 0
        self._open = threading.Event()
        self._lock = threading.Lock()

    def __call__(self, operation: str) -> None:
        if operation != "prepare":
            return
        with self._lock:
            self.inside += 1
            self.most = max(self.most, self.inside)
        self._open.wait(60)
        with self._lock:
            self.inside -= 1

    def open(self) -> None:
        self._open.set()


@contextmanager
def threaded(**options: object) -> Iterator[tuple[ComputeManager, FakeConductor, Hypervisor]]:
    conductor, hypervisor = FakeConductor(), Hypervisor(NODE)
    manager = make_compute_manager(
        configured(**options),
        hypervisor,
        conductor,  # type: ignore[arg-type]  # the API's part is not there
        host=HOST,
        images=FakeImages(),
    )
    manager.init_host()
    manager.pre_start_hook()
    yield manager, conductor, hypervisor
    manager.stop()


def boot(manager: ComputeManager, conductor: FakeConductor, *uuids: str) -> None:
    for uuid in uuids:
        manager.build_and_run_instance(CTX, conductor.commit_build(uuid, HOST, NODE, FLAVOR))


@pytest.mark.parametrize(("option", "at_once"), [(2, 2), (0, 6)])
def test_no_more_builds_at_once_than_configured(option: int, at_once: int) -> None:
    with threaded(max_concurrent_builds=option) as (manager, conductor, hypervisor):
        gate = hypervisor.on_call = CallGate()
        boot(manager, conductor, *"abcdef")
        wait_until(lambda: gate.inside == at_once)
        time.sleep(0.05)  # another build would begin meanwhile
        gate.open()
        wait_until(lambda: all(instance.vm_state is VmState.ACTIVE for instance in conductor.instances.values()))
        assert gate.most == at_once


def test_a_removal_waits_for_the_build_of_its_own_instance_but_for_no_other() -> None:
    with threaded(max_concurrent_builds=1) as (manager, conductor, hypervisor):
        boot(manager, conductor, "other")
        wait_until(lambda: conductor.instances["other"].vm_state is VmState.ACTIVE)
        gate = hypervisor.on_call = CallGate()
        boot(manager, conductor, "slow")
        wait_until(lambda: gate.inside == 1)
        for uuid in ("slow", "other"):
            conductor.begin_delete(uuid)
            manager.terminate_instance(CTX, uuid, NODE)
        wait_until(lambda: conductor.instances["other"].vm_state is VmState.DELETED)
        assert conductor.instances["slow"].vm_state is VmState.BUILDING
        gate.open()
        wait_until(lambda: conductor.instances["slow"].vm_state is VmState.DELETED)
        assert hypervisor.domains() == ()
        assert conductor.nodes[HOST, NODE].vcpus_used == 0


def test_stop_lets_a_running_build_end_and_begins_no_other() -> None:
    with threaded(max_concurrent_builds=1) as (manager, conductor, hypervisor):
        gate = hypervisor.on_call = CallGate()
        boot(manager, conductor, "running", "waiting")
        wait_until(lambda: gate.inside == 1)
        threading.Timer(0.1, gate.open).start()
        manager.stop()
        assert conductor.instances["running"].vm_state is VmState.ACTIVE
        assert conductor.instances["waiting"].host is None
        boot(manager, conductor, "late")
        assert conductor.instances["late"].host is None
        assert hypervisor.closed


def test_stop_does_not_wait_for_ever() -> None:
    workers = GuestWorkers(1, None)
    gate = threading.Event()

    def hang() -> None:
        gate.wait(10)

    workers.build("i", hang)
    begun = time.monotonic()
    assert workers.stop(0.1) == 1
    assert time.monotonic() - begun < 5
    gate.set()


def test_what_a_work_lets_through_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    workers = GuestWorkers(1, None)

    def fail() -> None:
        raise RuntimeError("unforeseen")

    workers.build("i", fail)
    workers.stop(5)
    wait_until(lambda: "unforeseen" in caplog.text)


def test_claims_from_many_threads_stay_within_the_room() -> None:
    with threaded(max_concurrent_builds=8) as (manager, conductor, hypervisor):
        limits = HostLimits(memory_mb=8704)  # room for 8 of 1024 beside the reserved 512
        for number in range(20):
            message = conductor.commit_build(f"i{number}", HOST, NODE, FLAVOR, limits=limits)
            manager.build_and_run_instance(CTX, message)
        wait_until(lambda: not conductor.open)
        manager.report_changes()
        states = [instance.vm_state for instance in conductor.instances.values()]
        assert states.count(VmState.ACTIVE) == 8
        assert len(conductor.failures) == 12
        assert conductor.nodes[HOST, NODE].memory_mb_used == 8704
        assert {domain.power_state for domain in hypervisor.domains()} == {PowerState.RUNNING}
