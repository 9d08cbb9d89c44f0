"""The libvirt driver on libvirt's own test hypervisor, which is in this process and needs no daemon."""

import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import libvirt
import pytest

from minova import conf as configuration
from minova import virt
from minova.errors import HypervisorUnavailable, InvalidConfiguration, NotFound
from minova.objects.flavor import Flavor
from minova.objects.instance import Instance
from minova.objects.states import PowerState
from minova.virt.driver import Driver

FLAVOR = Flavor(flavorid="1", name="m1", vcpus=2, memory_mb=256, root_gb=1, swap=64)


def load(folder: Path, host: str = "hv1", vcpu_pin_set: str | None = None, **libvirt: Any) -> Driver:
    conf = configuration.load([], "test", files=[])
    conf.set_override("vcpu_pin_set", vcpu_pin_set)
    conf.set_override("state_path", str(folder))
    conf.set_override("host", host)
    for name, value in {"virt_type": "test", **libvirt}.items():
        conf.set_override(name, value, group="libvirt")
    driver = virt.load(conf)
    driver.init_host(host)
    return driver


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    driver = load(tmp_path)
    yield driver
    for domain in driver.domains():
        if domain.ours:
            driver.destroy(domain.uuid)
    driver.close()


def instance(**more: Any) -> Instance:
    known: dict[str, Any] = {"uuid": str(uuid.uuid4()), "display_name": "x", "flavor": FLAVOR}
    return Instance(**known | more)


def own_domains(driver: Driver) -> dict[str, tuple[int, int | None]]:
    return {one.uuid: (one.power_state, one.attempt) for one in driver.domains() if one.ours}


def test_a_domain_from_nothing_to_nothing(driver: Driver, tmp_path: Path) -> None:
    one = instance()
    (node,) = driver.available_nodes()
    assert not driver.needs_image()
    driver.prepare(one, node, 1, None)
    assert driver.power_state(one.uuid) is PowerState.SHUTDOWN
    assert driver.power_on(one) is PowerState.RUNNING
    assert driver.power_on(one) is PowerState.RUNNING
    driver.prepare(one, node, 1, None)
    assert own_domains(driver) == {one.uuid: (PowerState.RUNNING, 1)}
    assert driver.console_output(one.uuid, None) == ""
    driver.prepare(one, node, 2, None)
    assert own_domains(driver) == {one.uuid: (PowerState.SHUTDOWN, 2)}
    driver.destroy(one.uuid)
    driver.destroy(one.uuid)
    assert own_domains(driver) == {}
    assert driver.power_state(one.uuid) is None
    assert list((tmp_path / "instances").iterdir()) == []


def test_the_view_of_the_host(driver: Driver) -> None:
    (node,) = driver.available_nodes()
    view = driver.host_view(node)
    assert (view.vcpus, view.memory_mb, view.hypervisor_type) == (16, 3072, "TEST")
    assert ("i686", "test", "hvm") in view.supported_instances
    assert view.numa_topology is not None
    assert len(view.numa_topology.cells) == 2
    assert view.local_gb > 0
    assert [domain.name for domain in view.domains if not domain.ours] == ["test"]
    with pytest.raises(NotFound, match="elsewhere"):
        driver.host_view("elsewhere")


def test_the_cells_have_only_the_cpus_set_apart_for_guests(tmp_path: Path) -> None:
    driver = load(tmp_path, vcpu_pin_set="0-1,8")
    view = driver.host_view(driver.available_nodes()[0])
    assert view.numa_topology is not None
    assert [sorted(cell.pcpuset) for cell in view.numa_topology.cells] == [[0, 1], [8]]
    assert [cell.cpuset for cell in view.numa_topology.cells] == [{0, 1}, {8}]
    driver.close()


def test_domains_of_another_compute_at_the_same_libvirt_are_left_alone(driver: Driver, tmp_path: Path) -> None:
    one = instance()
    (node,) = driver.available_nodes()
    driver.prepare(one, node, 1, None)
    other = load(tmp_path, host="hv2")
    assert own_domains(other) == {}
    other.destroy(one.uuid)
    with pytest.raises(HypervisorUnavailable, match="is not ours"):
        other.prepare(one, node, 2, None)
    assert own_domains(driver) == {one.uuid: (PowerState.SHUTDOWN, 1)}
    other.close()


@pytest.mark.parametrize("name", ["x" * 300, "a\x00\x07b", "</name><&>", "\ud83d"])
def test_libvirt_takes_any_name(driver: Driver, name: str) -> None:
    one = instance(display_name=name, metadata={name: name})
    driver.prepare(one, driver.available_nodes()[0], 1, None)
    assert driver.power_on(one) is PowerState.RUNNING


def test_changes_are_told_as_they_come(driver: Driver) -> None:
    heard: list[tuple[str, PowerState]] = []
    off = threading.Event()

    def changed(instance_uuid: str, state: PowerState) -> None:
        heard.append((instance_uuid, state))
        if state is PowerState.SHUTDOWN:
            off.set()

    driver.watch(changed)
    one = instance()
    driver.prepare(one, driver.available_nodes()[0], 1, None)
    driver.power_on(one)
    driver.destroy(one.uuid)
    assert off.wait(10)
    assert heard == [(one.uuid, PowerState.RUNNING), (one.uuid, PowerState.SHUTDOWN)]


def test_what_is_not_there(driver: Driver) -> None:
    one = instance()
    for ask in (lambda: driver.power_on(one), lambda: driver.console_output(one.uuid, 10)):
        with pytest.raises(NotFound, match=one.uuid):
            ask()


def test_what_libvirt_refuses_names_operation_and_domain(driver: Driver) -> None:
    one = instance(flavor=Flavor(flavorid="1", name="m", vcpus=0, memory_mb=64, root_gb=1))
    with pytest.raises(HypervisorUnavailable, match=f"Preparing of domain instance-{one.uuid}"):
        driver.prepare(one, driver.available_nodes()[0], 1, None)


def test_an_error_about_one_domain_of_many_names_it(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(domain: libvirt.virDomain) -> None:
        raise libvirt.libvirtError("out of order")

    monkeypatch.setattr(libvirt.virDomain, "info", broken)
    with pytest.raises(HypervisorUnavailable, match="Reading of domain test: out of order"):
        driver.domains()


def test_an_uri_where_nobody_is(tmp_path: Path) -> None:
    with pytest.raises(HypervisorUnavailable, match="Connecting to libvirt failed"):
        load(tmp_path, virt_type="qemu", connection_uri="qemu+unix:///system?socket=/nowhere")


def test_a_hypervisor_of_another_kind_than_configured(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfiguration, match=r"\[libvirt\] virt_type = kvm.* has test"):
        load(tmp_path, virt_type="kvm", connection_uri="test:///default")


def test_a_closed_driver_says_so(tmp_path: Path) -> None:
    driver = load(tmp_path)
    driver.close()
    with pytest.raises(HypervisorUnavailable, match="closed"):
        driver.available_nodes()


def test_what_the_cpus_did(driver: Driver) -> None:
    (node,) = driver.available_nodes()
    times = driver.cpu_times(node)
    assert times is not None
    assert (times.user > 0, times.idle > 0, times.frequency > 0) == (True, True, True)


def test_a_domain_that_is_powered_off_is_still_there(driver: Driver) -> None:
    guest = instance()
    driver.prepare(guest, "n", 1, None)
    driver.power_on(guest)
    for _ in range(2):
        driver.power_off(guest.uuid)
    driver.power_off(str(uuid.uuid4()))
    assert driver.power_state(guest.uuid) is PowerState.SHUTDOWN
    driver.destroy(guest.uuid)


def test_bug_domains_marked_with_an_earlier_name_of_the_host_are_ours(driver: Driver, tmp_path: Path) -> None:
    one = instance()
    (node,) = driver.available_nodes()
    driver.prepare(one, node, 1, None)
    renamed = load(tmp_path, host="hv2")
    try:
        assert own_domains(renamed) == {}
        renamed.recognise(("hv1",))
        assert own_domains(renamed) == {one.uuid: (PowerState.SHUTDOWN, 1)}
        renamed.destroy(one.uuid)
    finally:
        renamed.close()
    assert own_domains(driver) == {}
