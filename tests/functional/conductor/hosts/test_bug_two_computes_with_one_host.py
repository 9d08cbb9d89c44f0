"""Only one process at a time serves a host; the next one takes over when the first is certainly gone."""

from pathlib import Path
from typing import Any

import pytest

from minova import errors
from minova.compute.host_identity import LocalIdentity
from minova.context import RequestContext
from minova.db.hosts import services
from minova.objects.hosts.service import Service, ServiceInstructions
from tests.fakes.identified import Machine
from tests.fakes.running_conductor import RunningConductor
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness
from tests.functional.conductor.hosts.test_bug_node_renamed import service
from tests.functional.scheduler.cloud import named


@pytest.fixture
def first(harness: ConductorHarness, tmp_path: Path) -> Machine:
    return Machine(tmp_path / "first", harness.conductor)


def copy_of(machine: Machine, folder: Path) -> Machine:
    """Another machine with the same identity, as from a copied disk."""
    folder.mkdir()
    (folder / "compute_id").write_text(machine.compute_id)
    return Machine(folder, machine.conductor)


def test_second_compute_is_refused_while_the_first_lives(
    harness: ConductorHarness, first: Machine, tmp_path: Path
) -> None:
    living = first.boot("hv")
    with pytest.raises(errors.ServiceUnavailable):  # it tried again until it was stopped
        copy_of(first, tmp_path / "second").boot("hv")
    living.manager.heartbeat()
    assert service(harness, "hv").process == living.identity.process


def test_refusal_says_where_the_first_one_is(harness: ConductorHarness, first: Machine, tmp_path: Path) -> None:
    living = first.boot("hv")
    row = service(harness, "hv")
    second = copy_of(first, tmp_path / "second")
    with pytest.raises(errors.HostInUse) as refused:
        register(harness, second, "hv")
    assert str(row.process_place) in str(refused.value)
    assert "another [DEFAULT] host" in str(refused.value)
    living.die()


def test_trying_again_does_not_keep_a_dead_one_alive(harness: ConductorHarness, first: Machine, tmp_path: Path) -> None:
    dead = first.boot("hv")
    harness.tick(harness.conductor)
    second = copy_of(first, tmp_path / "second")
    for _ in range(6):
        with pytest.raises(errors.HostInUse):
            register(harness, second, "hv")
        harness.now += 9.9
        harness.tick(harness.conductor)
    harness.now += 1.0
    taken = second.boot("hv")
    assert service(harness, "hv").process == taken.identity.process
    # The first one, stopped for a minute, goes on: nothing of it counts any more, and it ends.
    with pytest.raises(errors.Superseded):
        dead.manager._conductor.begin_audit(CTX, host="hv", view=harness.view("hv"))
    dead.manager.heartbeat()
    harness.tick(harness.conductor)
    dead.manager.heartbeat()
    assert dead.stopping.asked
    assert "hv is served by" in (dead.manager.failure or "")
    assert service(harness, "hv").process == taken.identity.process


def test_next_process_of_the_machine_takes_over_at_once_after_a_kill(harness: ConductorHarness, first: Machine) -> None:
    killed = first.boot("hv")
    epoch = service(harness, "hv").epoch
    killed.die()
    again = first.boot("hv")
    row = service(harness, "hv")
    assert (row.process, row.epoch) == (again.identity.process, epoch + 1)


def test_two_processes_in_one_state_folder_are_refused_by_its_lock(harness: ConductorHarness, first: Machine) -> None:
    first.boot("hv")
    with pytest.raises(errors.InvalidConfiguration, match="another minova-compute works there"):
        first.boot("hv")


def test_graceful_stop_lets_another_machine_in_at_once(
    harness: ConductorHarness, first: Machine, tmp_path: Path
) -> None:
    first.boot("hv").manager.stop()
    copy_of(first, tmp_path / "second").boot("hv").die()


def test_process_that_registers_again_is_the_same(harness: ConductorHarness, first: Machine) -> None:
    living = first.boot("hv")
    epoch = service(harness, "hv").epoch
    living.manager._register(CTX)
    assert service(harness, "hv").epoch == epoch


def test_compute_of_an_older_release_is_accepted_as_before(harness: ConductorHarness, first: Machine) -> None:
    first.boot("hv")
    harness.add_host("hv")
    harness.conductor.heartbeat(CTX, host="hv", binary="minova-compute")
    assert service(harness, "hv").process is None


def register(harness: ConductorHarness, machine: Machine, host: str) -> None:
    """What a compute of this machine says when it registers."""
    identity = LocalIdentity(machine.folder)
    identity.hold()
    try:
        service = Service(
            uuid=named(f"service {host}"),
            host=host,
            binary="minova-compute",
            topic="compute",
            identity=identity.described(()),
        )
        harness.conductor.register_service(CTX, service=service)
    finally:
        identity.release()


def test_process_that_an_older_conductor_registered_goes_on(harness: ConductorHarness, first: Machine) -> None:
    """It knows of no process, and leaves that of the process before in the row."""
    first.boot("hv").die()
    older = Machine(first.folder, OlderConductor(harness.conductor))
    running = older.boot("hv")
    running.manager.update_available_resource()
    running.manager.heartbeat()
    assert running.manager.failure is None
    harness.tick(harness.conductor)
    assert service(harness, "hv").process != running.identity.process


class OlderConductor:
    """As of a release that knows no identity: the rest is passed on."""

    def __init__(self, conductor: RunningConductor) -> None:
        self._conductor = conductor

    def __getattr__(self, name: str) -> Any:
        return getattr(self._conductor, name)

    def register_service(self, ctx: RequestContext, service: Service) -> ServiceInstructions:
        with self._conductor.worker.db.read() as session:
            row = services.find(session, service.host, service.binary)
        assert row is not None
        return ServiceInstructions(service_uuid=row.uuid, heartbeat_interval=10.0)
