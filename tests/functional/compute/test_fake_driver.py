"""A compute with threads of its own on the fake driver, whose domains outlive it."""

from pathlib import Path

import pytest

from minova.cmd.compute import make_manager as make_compute_manager
from minova.objects.catalogue.flavor import Flavor
from minova.objects.requests.request_spec import HostLimits
from minova.objects.servers.states import PowerState, VmState
from minova.virt.fake import FakeDriver
from tests.fakes.computes import CTX, FakeImages, configured, wait_until
from tests.fakes.conductor import FakeConductor

FLAVOR = Flavor(flavorid="1", name="m1", vcpus=1, memory_mb=512, root_gb=1)


class Host:
    """`again` starts another process, so to say, on the same folder."""

    def __init__(self, folder: Path, conductor: FakeConductor) -> None:
        self.conductor = conductor
        conf = configured(
            host="h",
            state_path=str(folder),
            fake_vcpus=40,
            fake_memory_mb=20 * 512 + 512,
            fake_local_gb=100,
            fake_persistent=True,
        )
        self.driver = FakeDriver(conf)
        self.manager = make_compute_manager(
            conf,
            self.driver,
            conductor,  # type: ignore[arg-type]  # the API's part is not there
            host="h",
            images=FakeImages(),
        )
        self.manager.init_host()
        self.manager.pre_start_hook()

    def boot(self, *uuids: str) -> None:
        for uuid in uuids:
            limits = HostLimits(memory_mb=20 * 512 + 512)
            self.manager.build_and_run_instance(CTX, self.conductor.commit_build(uuid, "h", "h", FLAVOR, limits=limits))

    def states(self) -> list[VmState]:
        return [instance.vm_state for instance in self.conductor.instances.values()]


@pytest.fixture
def conductor() -> FakeConductor:
    return FakeConductor()


def test_a_host_fills_to_the_brim_and_empties(tmp_path: Path, conductor: FakeConductor) -> None:
    host = Host(tmp_path, conductor)
    host.boot(*(f"i{number}" for number in range(30)))
    wait_until(lambda: not conductor.open)
    assert host.states().count(VmState.ACTIVE) == 20
    assert {failure.retriable for failure in conductor.failures} == {True}
    host.manager.report_changes()
    assert conductor.nodes["h", "h"].free_ram_mb == 0
    for uuid in [instance.uuid for instance in conductor.instances.values() if instance.vm_state is VmState.ACTIVE]:
        conductor.begin_delete(uuid)
        host.manager.terminate_instance(CTX, uuid, "h")
    wait_until(lambda: host.states().count(VmState.DELETED) == 20)
    host.manager.stop()
    assert host.driver.domains() == ()
    assert conductor.nodes["h", "h"].memory_mb_used == 512


def test_a_compute_that_starts_again_knows_its_instances_and_they_still_run(
    tmp_path: Path, conductor: FakeConductor
) -> None:
    host = Host(tmp_path, conductor)
    host.boot("i", "j")
    wait_until(lambda: not conductor.open)
    host.manager.stop()
    again = Host(tmp_path, conductor)
    assert {domain.uuid: domain.power_state for domain in again.driver.domains()} == {
        "i": PowerState.RUNNING,
        "j": PowerState.RUNNING,
    }
    assert conductor.nodes["h", "h"].running_vms == 2
    again.manager.stop()
