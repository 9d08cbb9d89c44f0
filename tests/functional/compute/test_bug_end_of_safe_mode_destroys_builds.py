"""Bug: at the end of safe mode a living compute adopted its domains as a starting one does. It destroyed the guests of builds
that were still in progress, also those whose success was accepted meanwhile, and its heartbeats waited for their locks.
"""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from minova.context import RequestContext
from minova.objects.hosts.cloud import LOST, CloudState, CounterMark
from minova.objects.servers.instance import Instance
from minova.objects.servers.states import PowerState, VmState
from tests.fakes.computes import wait_until
from tests.fakes.conductor import FakeConductor
from tests.functional.compute.test_fake_driver import Host

STATE = CloudState(uuid="own", history="first", marks=(CounterMark("a", 1, 1.0),))
SAFE = msgspec.structs.replace(STATE, safe_mode=LOST)
# Seconds, for slow machines.
LONG = 60.0


class Stopped:
    """A build that waits before or after its guest was started, until `go` is set."""

    def __init__(self, host: Host, *, runs: bool) -> None:
        self.go = threading.Event()
        self._reached = threading.Event()
        power_on: Callable[..., PowerState] = host.driver.power_on

        def slow(instance: Instance, *, paused: bool = False) -> PowerState:
            state = power_on(instance, paused=paused) if runs else PowerState.NOSTATE
            self._reached.set()
            assert self.go.wait(LONG)
            return state if runs else power_on(instance, paused=paused)

        host.driver.power_on = slow  # type: ignore[method-assign]
        host.boot("i")
        assert self._reached.wait(LONG)


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    conductor = FakeConductor()
    conductor.cloud = STATE
    host = Host(tmp_path, conductor)
    yield host
    host.manager.stop()


def beat(host: Host, state: CloudState) -> None:
    """The heartbeat must not wait for a build."""
    host.conductor.cloud = state
    thread = threading.Thread(target=host.manager.heartbeat, daemon=True)
    thread.start()
    thread.join(LONG / 2)
    assert not thread.is_alive()
    assert host.manager.safe_mode.reason == state.safe_mode


def end_safe_mode(host: Host) -> None:
    """Safe mode begins and ends while the compute lives."""
    beat(host, SAFE)
    beat(host, STATE)


@pytest.mark.parametrize("runs", [False, True])
def test_a_build_in_progress_goes_on(host: Host, runs: bool) -> None:
    build = Stopped(host, runs=runs)
    end_safe_mode(host)
    assert [domain.uuid for domain in host.driver.domains()] == ["i"]
    build.go.set()
    wait_until(lambda: not host.conductor.open, LONG)
    assert (host.states(), host.conductor.failures) == ([VmState.ACTIVE], [])
    assert [(domain.uuid, domain.power_state) for domain in host.driver.domains()] == [("i", PowerState.RUNNING)]


def test_a_guest_that_is_accepted_meanwhile_stays(host: Host) -> None:
    """The build ended between the decision to undo it and the removal."""
    build = Stopped(host, runs=False)
    ask = host.conductor.hosts_of_instances

    def ends_before_it(ctx: RequestContext, *, instance_uuids: tuple[str, ...]) -> dict[str, str | None]:
        build.go.set()
        wait_until(lambda: not host.conductor.open, LONG / 4)
        return ask(ctx, instance_uuids=instance_uuids)

    host.conductor.hosts_of_instances = ends_before_it  # type: ignore[method-assign]
    end_safe_mode(host)
    build.go.set()
    wait_until(lambda: not host.conductor.open, LONG)
    assert host.states() == [VmState.ACTIVE]
    assert [(domain.uuid, domain.power_state) for domain in host.driver.domains()] == [("i", PowerState.RUNNING)]


def test_the_file_of_an_image_in_progress_stays(host: Host) -> None:
    folder = host.manager.collaborators.snapshots._folder
    folder.mkdir(parents=True)
    (folder / "i").write_text("half written")
    end_safe_mode(host)
    assert (folder / "i").exists()
