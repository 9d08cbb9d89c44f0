"""The driver that keeps books."""

import uuid
from pathlib import Path
from typing import Any

import pytest

from minova import conf as configuration
from minova import virt
from minova.errors import Conflict, ConsoleTypeUnavailable, HypervisorUnavailable, InvalidConfiguration, NotFound
from minova.objects.catalogue.flavor import Flavor
from minova.objects.guests.console import ConsoleType
from minova.objects.servers.instance import Instance
from minova.objects.servers.states import PowerState
from minova.virt.fake import FakeDriver

FLAVOR = Flavor(flavorid="1", name="m1", vcpus=2, memory_mb=512, root_gb=10, ephemeral_gb=1, swap=100)


def driver(folder: Path, **options: Any) -> FakeDriver:
    conf = configuration.load([], "test", files=[])
    for name, value in {"state_path": str(folder), "host": "hv1", "compute_driver": "fake", **options}.items():
        group, _, option = name.rpartition("__")
        conf.set_override(option, value, group=group or None)
    loaded = virt.load(conf)
    assert isinstance(loaded, FakeDriver)
    return loaded


def instance() -> Instance:
    return Instance(uuid=str(uuid.uuid4()), display_name="x", hostname="web", flavor=FLAVOR)


def test_a_guest_from_nothing_to_nothing(tmp_path: Path) -> None:
    fake, new_instance = driver(tmp_path, fake_vcpus=8, fake_memory_mb=4096, fake_local_gb=100), instance()
    fake.prepare(new_instance, "hv1", 1, None)
    assert fake.power_state(new_instance.uuid) is PowerState.SHUTDOWN
    assert fake.power_on(new_instance) is PowerState.RUNNING
    assert fake.power_on(new_instance) is PowerState.RUNNING
    view = fake.host_view("hv1")
    assert (view.vcpus, view.memory_mb, view.memory_mb_used) == (8, 4096, 512)
    assert (view.local_gb, view.local_gb_used, view.disk_available_least) == (100, 12, 88)
    assert [(domain.uuid, domain.attempt, domain.ours) for domain in view.domains] == [(new_instance.uuid, 1, True)]
    assert "web" in fake.console_output(new_instance.uuid, None)
    fake.destroy(new_instance.uuid)
    fake.destroy(new_instance.uuid)
    assert fake.power_state(new_instance.uuid) is None
    assert fake.domains() == ()
    assert fake.host_view("hv1").memory_mb_used == 0


def test_preparing_again_is_harmless_and_another_attempt_begins_anew(tmp_path: Path) -> None:
    fake, new_instance = driver(tmp_path), instance()
    fake.prepare(new_instance, "hv1", 1, None)
    fake.power_on(new_instance)
    fake.prepare(new_instance, "hv1", 1, None)
    assert fake.power_state(new_instance.uuid) is PowerState.RUNNING
    fake.prepare(new_instance, "hv1", 2, None)
    assert fake.power_state(new_instance.uuid) is PowerState.SHUTDOWN
    assert [domain.attempt for domain in fake.domains()] == [2]


def test_domains_outlive_the_process(tmp_path: Path) -> None:
    fake, new_instance, gone = driver(tmp_path), instance(), instance()
    for each in (new_instance, gone):
        fake.prepare(each, "hv1", 1, None)
        fake.power_on(each)
    fake.destroy(gone.uuid)
    again = driver(tmp_path)
    assert [(domain.uuid, domain.power_state) for domain in again.domains()] == [
        (new_instance.uuid, PowerState.RUNNING)
    ]
    assert again.console_output(new_instance.uuid, None) == fake.console_output(new_instance.uuid, None)
    assert driver(tmp_path, fake_persistent=False).domains() == ()


def test_bug_domains_that_cannot_be_read_ended_a_compute_with_a_traceback(tmp_path: Path) -> None:
    """They are files of root where services have become services of another user."""
    (tmp_path / "instances/fake-domains.json").mkdir(parents=True)  # root can read every file
    with pytest.raises(InvalidConfiguration, match=r"fake-domains\.json cannot be read: Is a directory"):
        driver(tmp_path)


def test_failures_come_as_planned_and_then_no_more(tmp_path: Path) -> None:
    fake, new_instance = driver(tmp_path), instance()
    fake.fail("prepare", [HypervisorUnavailable("down")] * 2)
    for _ in range(2):
        with pytest.raises(HypervisorUnavailable):
            fake.prepare(new_instance, "hv1", 1, None)
    assert fake.domains() == ()
    fake.prepare(new_instance, "hv1", 1, None)
    assert len(fake.domains()) == 1


def test_each_node_has_its_own_domains(tmp_path: Path) -> None:
    fake, new_instance = driver(tmp_path, fake_nodes=["n1", "n2"]), instance()
    assert fake.available_nodes() == ("n1", "n2")
    fake.prepare(new_instance, "n2", 1, None)
    assert fake.host_view("n1").domains == ()
    assert [domain.uuid for domain in fake.host_view("n2").domains] == [new_instance.uuid]
    with pytest.raises(NotFound, match="n3"):
        fake.host_view("n3")


def test_a_guest_that_ends_by_itself_is_told(tmp_path: Path) -> None:
    fake, new_instance = driver(tmp_path), instance()
    events: list[tuple[str, PowerState]] = []
    fake.watch(lambda *news: events.append(news))
    fake.prepare(new_instance, "hv1", 1, None)
    fake.power_on(new_instance)
    fake.turn(new_instance.uuid, PowerState.CRASHED)
    assert events == [(new_instance.uuid, PowerState.CRASHED)]
    assert fake.power_state(new_instance.uuid) is PowerState.CRASHED


@pytest.mark.parametrize(("tail", "lines"), [(None, 24), (0, 0), (1, 1), (99, 24)])
def test_the_last_lines_of_a_console(tmp_path: Path, tail: int | None, lines: int) -> None:
    fake, new_instance = driver(tmp_path), instance()
    fake.prepare(new_instance, "hv1", 1, None)
    fake.power_on(new_instance)
    fake.turn(new_instance.uuid, PowerState.SHUTDOWN)
    fake.power_on(new_instance)
    assert len(fake.console_output(new_instance.uuid, tail).splitlines()) == lines
    assert tail in (None, 0) or len(fake.console_output(new_instance.uuid, tail).split("\n")) == lines


def test_consoles_of_enabled_types_have_an_address_while_the_guest_runs(tmp_path: Path) -> None:
    fake, new_instance = driver(tmp_path, vnc__enabled=True), instance()
    fake.prepare(new_instance, "hv1", 1, None)
    with pytest.raises(Conflict, match=new_instance.uuid):
        fake.console(new_instance.uuid, ConsoleType.NOVNC)
    fake.power_on(new_instance)
    assert fake.console(new_instance.uuid, ConsoleType.NOVNC).host == "127.0.0.1"
    with pytest.raises(ConsoleTypeUnavailable, match=r"\[serial_console\] enabled = true on the host"):
        fake.console(new_instance.uuid, ConsoleType.SERIAL)


def test_what_is_not_there_is_not_found(tmp_path: Path) -> None:
    fake, new_instance = driver(tmp_path), instance()
    for ask in (lambda: fake.power_on(new_instance), lambda: fake.console_output(new_instance.uuid, None)):
        with pytest.raises(NotFound, match=new_instance.uuid):
            ask()


def test_cpu_times_grow_with_what_runs(tmp_path: Path) -> None:
    new_driver, guest = driver(tmp_path), instance()
    idle = new_driver.cpu_times("hv1")
    new_driver.prepare(guest, "hv1", 1, None)
    new_driver.power_on(guest)
    new_driver.cpu_times("hv1")
    busy = new_driver.cpu_times("hv1")
    assert (idle.used, idle.total > 0) == (0, True)
    assert busy.total > idle.total
    assert busy.user > 0


def test_a_domain_that_is_powered_off_keeps_its_place(tmp_path: Path) -> None:
    new_driver, guest = driver(tmp_path), instance()
    new_driver.prepare(guest, "hv1", 1, None)
    new_driver.power_on(guest)
    new_driver.power_off(guest.uuid)
    new_driver.power_off("nobody")
    assert [(domain.uuid, domain.power_state) for domain in new_driver.domains()] == [(guest.uuid, PowerState.SHUTDOWN)]


def test_cpus_set_apart_are_offered_to_pinned_guests(tmp_path: Path) -> None:
    options = {"compute__cpu_shared_set": "4-7", "compute__cpu_dedicated_set": "0-3"}
    view = driver(tmp_path, fake_vcpus=8, fake_memory_mb=4096, **options).host_view("hv1")
    assert (view.vcpus, view.pcpus) == (4, 4)
    assert view.numa_topology is not None
    (cell,) = view.numa_topology.cells
    assert (sorted(cell.cpuset), sorted(cell.pcpuset), cell.memory) == ([4, 5, 6, 7], [0, 1, 2, 3], 4096)


def test_a_host_whose_cpus_are_not_divided_has_no_cell(tmp_path: Path) -> None:
    view = driver(tmp_path, fake_vcpus=8).host_view("hv1")
    assert (view.vcpus, view.pcpus, view.numa_topology) == (8, 0, None)
