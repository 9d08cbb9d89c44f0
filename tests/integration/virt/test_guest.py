"""A real guest by the libvirt driver on real QEMU, and what happens when libvirtd dies or hangs."""

import os
import signal
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from minova import conf as configuration
from minova.errors import HypervisorUnavailable, ImageUnacceptable
from minova.objects.catalogue.flavor import Flavor
from minova.objects.catalogue.image import Image
from minova.objects.servers.instance import Instance
from minova.objects.servers.states import PowerState
from minova.virt.driver import ComputeDriver
from minova.virt.libvirt.driver import LibvirtDriver
from minova.virt.libvirt.host import Host
from minova.virt.namespaces.host_routes import PROC_NET
from tests.servers.libvirtd import Libvirtd
from tests.waiting import wait_for

NANO = Flavor(flavorid="1", name="nano", vcpus=1, memory_mb=128, root_gb=1, swap=16)
HOSTILE = "</name>&\x00\u202e" + "x" * 300


def load(folder: Path, uri: str, host: str = "hv1", *, proc_net: Path = PROC_NET, **options: Any) -> ComputeDriver:
    """`proc_net`: of a libvirtd with a network namespace of its own. The networks of this machine do not matter then.

    `options`: of [libvirt], or of the group before `__`; nothing stands for [DEFAULT].
    """
    conf = configuration.load([], "test", files=[])
    conf.set_override("state_path", str(folder))
    conf.set_override("host", host)
    for name, value in {"virt_type": "qemu", "connection_uri": uri, **options}.items():
        group, separator, option = name.rpartition("__")
        conf.set_override(option, value, group=group or (None if separator else "libvirt"))
    driver = LibvirtDriver(conf, proc_net=proc_net)
    driver.init_host(host)
    return driver


@pytest.fixture
def mortal() -> Iterator[Libvirtd]:
    """A libvirtd that the test may kill."""
    with Libvirtd() as server:
        yield server


@pytest.fixture
def driver(tmp_path: Path, libvirt_uri: str) -> Iterator[ComputeDriver]:
    driver = load(tmp_path, libvirt_uri)
    yield driver
    remove_all(driver)
    driver.close()


def remove_all(driver: ComputeDriver) -> None:
    for domain in driver.domains():
        if domain.ours:
            driver.destroy(domain.uuid)


def instance(**more: Any) -> Instance:
    image = Image(id="i", disk_format="qcow2")
    fields: dict[str, Any] = {"uuid": str(uuid.uuid4()), "display_name": HOSTILE, "flavor": NANO, "image": image}
    return Instance(**fields | more)


def prepared(driver: ComputeDriver, image: Path, attempt: int = 1) -> Instance:
    new_instance = instance()
    driver.prepare(new_instance, driver.available_nodes()[0], attempt, image)
    return new_instance


@pytest.mark.nightly("test_cloud does so with all services")
def test_a_guest_boots_to_ready_and_leaves_nothing(driver: ComputeDriver, guest_image: Path, tmp_path: Path) -> None:
    events: list[PowerState] = []
    driver.watch(lambda _, state: events.append(state))
    (node,) = driver.available_nodes()
    before = driver.host_view(node)
    guest = prepared(driver, guest_image)
    assert driver.power_state(guest.uuid) is PowerState.SHUTDOWN
    assert driver.power_on(guest) is PowerState.RUNNING
    wait_for("READY", lambda: "MINOVA-GUEST READY" in driver.console_output(guest.uuid, None))
    assert len(driver.console_output(guest.uuid, 2).splitlines()) == 2
    view = driver.host_view(node)
    assert [(domain.uuid, domain.attempt, domain.memory_mb) for domain in view.domains if domain.ours] == [
        (guest.uuid, 1, 128)
    ]
    # The memory of a virtual machine may grow meanwhile.
    assert (view.hypervisor_type, view.vcpus) == ("QEMU", before.vcpus)
    assert 0 < view.memory_mb_used < view.memory_mb
    assert ("x86_64", "qemu", "hvm") in view.supported_instances
    driver.destroy(guest.uuid)
    driver.destroy(guest.uuid)
    assert driver.power_state(guest.uuid) is None
    assert [path.name for path in (tmp_path / "instances").iterdir()] == [".hosts"]
    wait_for("the news", lambda: events[-1:] == [PowerState.SHUTDOWN])
    assert PowerState.RUNNING in events


def test_a_later_attempt_replaces_what_an_earlier_one_left(driver: ComputeDriver, guest_image: Path) -> None:
    guest = prepared(driver, guest_image)
    driver.power_on(guest)
    (node,) = driver.available_nodes()
    driver.prepare(guest, node, 1, guest_image)
    assert driver.power_state(guest.uuid) is PowerState.RUNNING
    driver.prepare(guest, node, 2, guest_image)
    assert driver.power_state(guest.uuid) is PowerState.SHUTDOWN
    assert [domain.attempt for domain in driver.domains() if domain.uuid == guest.uuid] == [2]


def test_an_image_that_does_not_fit_leaves_no_domain(driver: ComputeDriver, tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"")
    os.truncate(tmp_path / "large", (1 << 30) + 512)
    new_instance = instance(image=Image(id="i", disk_format="raw"))
    with pytest.raises(ImageUnacceptable, match="> root disk 1 GB"):
        driver.prepare(new_instance, driver.available_nodes()[0], 1, tmp_path / "large")
    assert driver.power_state(new_instance.uuid) is None


def test_a_half_prepared_domain_tells_of_itself(
    driver: ComputeDriver, guest_image: Path, libvirt_uri: str, tmp_path: Path
) -> None:
    """A crash between the domain and its disks: a list of domains shows it, and all of it can be removed."""
    guest = prepared(driver, guest_image)
    (tmp_path / "instances" / guest.uuid / "disk").rename(tmp_path / "instances" / guest.uuid / "disk.part")
    again = load(tmp_path, libvirt_uri)
    assert [domain.attempt for domain in again.domains() if domain.uuid == guest.uuid] == [1]
    again.destroy(guest.uuid)
    assert [path.name for path in (tmp_path / "instances").iterdir()] == [".hosts"]
    again.close()


@pytest.mark.nightly("test_cloud has a hypervisor that dies under builds")
def test_libvirtd_dies_and_comes_back(mortal: Libvirtd, guest_image: Path, tmp_path: Path) -> None:
    driver = load(tmp_path, mortal.uri)
    events: list[tuple[str, PowerState]] = []
    driver.watch(lambda *news: events.append(news))
    guest = prepared(driver, guest_image)
    driver.power_on(guest)
    (node,) = driver.available_nodes()
    mortal.kill()
    begun = time.monotonic()
    for ask in (
        driver.available_nodes,
        driver.domains,
        lambda: driver.host_view(node),
        lambda: driver.power_state(guest.uuid),
        lambda: driver.console_output(guest.uuid, None),
        lambda: driver.power_on(guest),
        lambda: driver.destroy(guest.uuid),
    ):
        with pytest.raises(HypervisorUnavailable):
            ask()
    with pytest.raises(HypervisorUnavailable):
        driver.prepare(instance(), node, 1, guest_image)
    assert time.monotonic() - begun < 5
    mortal.start()
    events.clear()
    assert driver.power_state(guest.uuid) is PowerState.RUNNING
    wait_for("what happened meanwhile", lambda: (guest.uuid, PowerState.RUNNING) in events)
    wait_for("READY", lambda: "MINOVA-GUEST READY" in driver.console_output(guest.uuid, None))
    driver.destroy(guest.uuid)
    wait_for("news over the new connection", lambda: (guest.uuid, PowerState.SHUTDOWN) in events)
    driver.close()


def test_libvirtd_that_is_not_there_yet(tmp_path: Path) -> None:
    with Libvirtd() as server:
        server.stop()
        with pytest.raises(HypervisorUnavailable, match="Connecting to"):
            load(tmp_path, server.uri)
        server.start()
        assert load(tmp_path, server.uri).domains() == ()


def test_bug_threads_that_share_a_libvirtd_that_hangs_crash_or_wait_for_ever(mortal: Libvirtd) -> None:
    host = Host(mortal.uri, keepalive=1, open_within=1.0)
    with host.connection("Asking") as connection:
        connection.getHostname()
    asking, failed = threading.Barrier(5), []

    def ask() -> None:
        try:
            with host.connection("Asking") as connection:
                asking.wait(60)
                connection.getHostname()
        except HypervisorUnavailable as error:
            failed.append(str(error))

    threads = [threading.Thread(target=ask, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    wait_for("their connections", lambda: asking.n_waiting == 4)
    assert mortal.pid is not None
    os.kill(mortal.pid, signal.SIGSTOP)
    try:
        asking.wait(60)
        wait_for("all of them to end", lambda: len(failed) == 4, 60)
    finally:
        os.kill(mortal.pid, signal.SIGCONT)
    host.close()


def test_libvirtd_that_hangs_is_not_waited_for_without_end(mortal: Libvirtd) -> None:
    host = Host(mortal.uri, keepalive=1, open_within=1.0)
    with host.connection("Asking") as connection:
        connection.getHostname()
    assert mortal.pid is not None
    os.kill(mortal.pid, signal.SIGSTOP)
    try:
        begun = time.monotonic()
        with pytest.raises(HypervisorUnavailable, match="Asking"), host.connection("Asking") as connection:
            connection.getHostname()
        for _ in range(3):
            with pytest.raises(HypervisorUnavailable, match="within 1 s"), host.connection("Asking"):
                pass
        assert time.monotonic() - begun < 10
    finally:
        os.kill(mortal.pid, signal.SIGCONT)

    def answers() -> bool:
        try:
            with host.connection("Asking") as connection:
                return bool(connection.getHostname())
        except HypervisorUnavailable:
            return False

    wait_for("an answer", answers)
    host.close()
