"""The libvirt driver on libvirt's own test hypervisor, which is in this process and needs no daemon."""

import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import libvirt
import msgspec
import pytest

from minova import conf as configuration
from minova import virt
from minova.compute.actions.action_run import ActionEnded
from minova.errors import HypervisorError, HypervisorUnavailable, InvalidConfiguration, NotFound
from minova.objects.catalogue.flavor import Flavor
from minova.objects.catalogue.image import Image
from minova.objects.servers.chosen_hardware import ChosenHardware
from minova.objects.servers.instance import Instance
from minova.objects.servers.states import PowerState
from minova.virt.driver import ComputeDriver
from minova.virt.driver.domains import RowHost
from minova.virt.libvirt.driver import LibvirtDriver, domains
from minova.virt.libvirt.guest_state.guest_clocks import GuestClocks
from minova.virt.libvirt.storage import disk_owner
from minova.virt.libvirt.storage.disk_snapshots import DiskSnapshots
from minova.virt.libvirt.storage.disks import Disks
from minova.virt.libvirt.xml.disk_xml import disk_formats_of
from tests.fakes.libvirt_errors import libvirt_error

FLAVOR = Flavor(flavorid="1", name="m1", vcpus=2, memory_mb=256, root_gb=1, swap=64)


def load(folder: Path, host: str = "hv1", vcpu_pin_set: str | None = None, **libvirt: Any) -> ComputeDriver:
    conf = configuration.load([], "test", files=[])
    conf.set_override("vcpu_pin_set", vcpu_pin_set)
    conf.set_override("state_path", str(folder))
    conf.set_override("host", host)
    for name, value in {"virt_type": "test", **libvirt}.items():
        conf.set_override(name, value, group="libvirt")
    driver = virt.load(conf)
    driver.init_host(host)
    return driver


def instance(**more: Any) -> Instance:
    fields: dict[str, Any] = {"uuid": str(uuid.uuid4()), "display_name": "x", "flavor": FLAVOR}
    return Instance(**fields | more)


def own_domains(driver: ComputeDriver) -> dict[str, tuple[int, int | None]]:
    return {domain.uuid: (domain.power_state, domain.attempt) for domain in driver.domains() if domain.ours}


def test_a_domain_from_nothing_to_nothing(driver: ComputeDriver, tmp_path: Path) -> None:
    new_instance = instance()
    (node,) = driver.available_nodes()
    assert not driver.needs_image()
    driver.prepare(new_instance, node, 1, None)
    assert driver.power_state(new_instance.uuid) is PowerState.SHUTDOWN
    assert driver.power_on(new_instance) is PowerState.RUNNING
    assert driver.power_on(new_instance) is PowerState.RUNNING
    driver.prepare(new_instance, node, 1, None)
    assert own_domains(driver) == {new_instance.uuid: (PowerState.RUNNING, 1)}
    assert driver.console_output(new_instance.uuid, None) == ""
    driver.prepare(new_instance, node, 2, None)
    assert own_domains(driver) == {new_instance.uuid: (PowerState.SHUTDOWN, 2)}
    driver.destroy(new_instance.uuid)
    driver.destroy(new_instance.uuid)
    assert own_domains(driver) == {}
    assert driver.power_state(new_instance.uuid) is None
    assert list((tmp_path / "instances").iterdir()) == []


def test_bug_a_deletion_needs_the_secret_driver_of_libvirt(
    driver: ComputeDriver, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """With modular daemons, libvirt has one of its own, which may not be installed."""

    def lookup(connection: libvirt.virConnect, uuid: str) -> None:
        raise libvirt_error("Failed to connect socket to virtsecretd-sock", libvirt.VIR_ERR_SYSTEM_ERROR)

    monkeypatch.setattr(libvirt.virConnect, "secretLookupByUUIDString", lookup)
    new_instance = instance()
    driver.prepare(new_instance, driver.available_nodes()[0], 1, None)
    driver.destroy(new_instance.uuid)
    assert new_instance.uuid not in own_domains(driver)
    assert f"libvirt may keep the tpm secret of instance {new_instance.uuid}" in caplog.text


def test_bug_host_with_a_new_name_did_not_know_its_copies(
    tmp_path: Path, driver: LibvirtDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    new_instance = instance()
    folder = tmp_path / "instances" / new_instance.uuid
    folder.mkdir(parents=True)
    (folder / "disk").touch()
    with disk_owner.locked(folder) as owner:
        owner.own("old", {"disk": "raw"})
    monkeypatch.setattr(driver, "_real", True)
    driver.recognise(("old",))
    driver.destroy(new_instance.uuid, RowHost(host="elsewhere"))
    assert not folder.exists()


def test_the_view_of_the_host(driver: ComputeDriver) -> None:
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


def test_domains_of_another_compute_at_the_same_libvirt_are_left_alone(driver: ComputeDriver, tmp_path: Path) -> None:
    new_instance = instance()
    (node,) = driver.available_nodes()
    driver.prepare(new_instance, node, 1, None)
    other = load(tmp_path, host="hv2")
    assert own_domains(other) == {}
    other.destroy(new_instance.uuid)
    with pytest.raises(HypervisorError, match="is not ours"):
        other.prepare(new_instance, node, 2, None)
    assert own_domains(driver) == {new_instance.uuid: (PowerState.SHUTDOWN, 1)}
    other.close()


@pytest.mark.parametrize("name", ["x" * 300, "a\x00\x07b", "</name><&>", "\ud83d"])
def test_libvirt_takes_any_name(driver: ComputeDriver, name: str) -> None:
    new_instance = instance(display_name=name, metadata={name: name})
    driver.prepare(new_instance, driver.available_nodes()[0], 1, None)
    assert driver.power_on(new_instance) is PowerState.RUNNING


def test_changes_are_told_as_they_come(driver: ComputeDriver) -> None:
    events: list[tuple[str, PowerState]] = []
    off = threading.Event()

    def changed(instance_uuid: str, state: PowerState) -> None:
        events.append((instance_uuid, state))
        if state is PowerState.SHUTDOWN:
            off.set()

    driver.watch(changed)
    new_instance = instance()
    driver.prepare(new_instance, driver.available_nodes()[0], 1, None)
    driver.power_on(new_instance)
    driver.destroy(new_instance.uuid)
    assert off.wait(60)
    assert events == [(new_instance.uuid, PowerState.RUNNING), (new_instance.uuid, PowerState.SHUTDOWN)]


def test_what_is_not_there(driver: ComputeDriver) -> None:
    new_instance = instance()
    for ask in (lambda: driver.power_on(new_instance), lambda: driver.console_output(new_instance.uuid, 10)):
        with pytest.raises(NotFound, match=new_instance.uuid):
            ask()


def test_what_libvirt_refuses_names_operation_and_domain(driver: ComputeDriver) -> None:
    new_instance = instance(flavor=Flavor(flavorid="1", name="m", vcpus=0, memory_mb=64, root_gb=1))
    with pytest.raises(HypervisorError, match=f"Preparing of domain instance-{new_instance.uuid}"):
        driver.prepare(new_instance, driver.available_nodes()[0], 1, None)


def test_an_error_about_one_domain_of_many_names_it(driver: ComputeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(domain: libvirt.virDomain) -> None:
        raise libvirt_error("out of order")

    monkeypatch.setattr(libvirt.virDomain, "info", broken)
    with pytest.raises(HypervisorError, match="Reading of domain test: out of order"):
        driver.domains()


def test_uri_without_a_server(tmp_path: Path) -> None:
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


def test_what_the_cpus_did(driver: ComputeDriver) -> None:
    (node,) = driver.available_nodes()
    times = driver.cpu_times(node)
    assert times is not None
    assert (times.user > 0, times.idle > 0, times.frequency > 0) == (True, True, True)


def test_a_domain_that_is_powered_off_is_still_there(driver: ComputeDriver) -> None:
    guest = instance()
    driver.prepare(guest, "n", 1, None)
    driver.power_on(guest)
    for _ in range(2):
        driver.power_off(guest.uuid)
    driver.power_off(str(uuid.uuid4()))
    assert driver.power_state(guest.uuid) is PowerState.SHUTDOWN
    driver.destroy(guest.uuid)


def test_bug_domains_marked_with_an_earlier_name_of_the_host_are_ours(driver: ComputeDriver, tmp_path: Path) -> None:
    new_instance = instance()
    (node,) = driver.available_nodes()
    driver.prepare(new_instance, node, 1, None)
    renamed = load(tmp_path, host="hv2")
    try:
        assert own_domains(renamed) == {}
        renamed.recognise(("hv1",))
        assert own_domains(renamed) == {new_instance.uuid: (PowerState.SHUTDOWN, 1)}
        renamed.destroy(new_instance.uuid)
    finally:
        renamed.close()
    assert own_domains(driver) == {}


# -- server actions ----------------------------------------------------------------------------------------------------


def test_pause_and_unpause_may_come_twice(driver: ComputeDriver, guest: Instance) -> None:
    for _ in range(2):
        assert driver.pause(guest.uuid) is PowerState.PAUSED
    for _ in range(2):
        assert driver.unpause(guest.uuid) is PowerState.RUNNING


def test_suspend_and_resume_may_come_twice(driver: ComputeDriver, guest: Instance) -> None:
    for _ in range(2):
        assert driver.suspend(guest.uuid) is PowerState.SHUTDOWN
    for _ in range(2):
        assert driver.resume(guest) is PowerState.RUNNING


def test_a_guest_that_is_off_cannot_be_suspended_or_paused(driver: ComputeDriver, guest: Instance) -> None:
    driver.power_off(guest.uuid)
    for act in (driver.suspend, driver.pause, driver.unpause):
        with pytest.raises(HypervisorError, match=r"not (running|paused)"):
            act(guest.uuid)
    assert driver.power_state(guest.uuid) is PowerState.SHUTDOWN


def test_bug_each_audit_read_the_definitions_of_guests_without_a_machine(
    driver: ComputeDriver, guest: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With 100 guests it took two thirds more CPU time."""
    seen: list[str] = []

    def chosen_of(xml: str) -> ChosenHardware | None:
        seen.append(xml)
        return ChosenHardware(machine_type="pc-q35-7.2") if len(seen) > 2 else None

    monkeypatch.setattr(domains, "chosen_of", chosen_of)
    for _ in range(3):
        assert driver.chosen_hardware([guest.uuid, str(uuid.uuid4())]) == {}
    assert len(seen) == 1
    driver.rebuild(guest, None)
    assert driver.chosen_hardware([guest.uuid]) == {}
    driver.hard_reboot(guest)
    for _ in range(2):
        assert driver.chosen_hardware([guest.uuid])[guest.uuid].machine_type == "pc-q35-7.2"


@pytest.mark.parametrize("before", ["running", "paused", "suspended", "off", "gone"])
def test_a_hard_reboot_runs_the_guest_whatever_it_was(driver: ComputeDriver, guest: Instance, before: str) -> None:
    bring_about: dict[str, Callable[[], Any]] = {
        "running": lambda: None,
        "paused": lambda: driver.pause(guest.uuid),
        "suspended": lambda: driver.suspend(guest.uuid),
        "off": lambda: driver.power_off(guest.uuid),
        "gone": lambda: driver.destroy(guest.uuid),
    }
    bring_about[before]()
    renamed = msgspec.structs.replace(guest, display_name="renamed")
    for _ in range(2):
        assert driver.hard_reboot(renamed) is PowerState.RUNNING
    assert own_domains(driver) == {guest.uuid: (PowerState.RUNNING, 3)}
    # Its saved memory is gone: a later start boots it.
    driver.power_off(guest.uuid)
    assert not domain_of(driver, guest.uuid).hasManagedSaveImage()
    assert "renamed" in domain_of(driver, guest.uuid).XMLDesc()


def test_bug_clock_was_not_set_after_a_rescue(
    driver: LibvirtDriver, guest: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    clocks_set: list[str] = []
    monkeypatch.setattr(driver._clocks, "set_when_booted", lambda domain: clocks_set.append(domain.UUIDString()))
    driver.prepare_rescue(guest, Image(id="rescuer"), None)
    driver.rescue(guest, Image(id="rescuer"))
    assert clocks_set == [guest.uuid]


def test_bug_a_rescue_failed_because_libvirt_was_away_after_it(
    driver: LibvirtDriver, guest: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    def be_away(clocks: GuestClocks, domain: Any) -> None:
        raise HypervisorUnavailable("restarts")

    monkeypatch.setattr(GuestClocks, "set_when_booted", be_away)
    driver.prepare_rescue(guest, Image(id="rescuer"), None)
    assert driver.rescue(guest, Image(id="rescuer")) is PowerState.RUNNING


def test_a_rescue_may_come_twice_and_a_hard_reboot_undoes_it(driver: ComputeDriver, guest: Instance) -> None:
    for _ in range(2):
        driver.prepare_rescue(guest, Image(id="rescuer"), None)
        assert driver.rescue(guest, Image(id="rescuer")) is PowerState.RUNNING
    assert driver.hard_reboot(guest) is PowerState.RUNNING
    assert own_domains(driver) == {guest.uuid: (PowerState.RUNNING, 3)}


@pytest.mark.parametrize("before", ["running", "suspended", "off", "gone"])
def test_a_rebuild_leaves_a_domain_that_is_off_and_as_its_instance_says(
    driver: ComputeDriver, guest: Instance, before: str
) -> None:
    bring_about: dict[str, Callable[[], Any]] = {
        "running": lambda: None,
        "suspended": lambda: driver.suspend(guest.uuid),
        "off": lambda: driver.power_off(guest.uuid),
        "gone": lambda: driver.destroy(guest.uuid),
    }
    bring_about[before]()
    renamed = msgspec.structs.replace(guest, display_name="renamed")
    for _ in range(2):
        driver.rebuild(renamed, None)
    assert own_domains(driver) == {guest.uuid: (PowerState.SHUTDOWN, 3)}
    assert not domain_of(driver, guest.uuid).hasManagedSaveImage()
    assert "renamed" in domain_of(driver, guest.uuid).XMLDesc()
    assert driver.power_on(renamed) is PowerState.RUNNING


def test_a_shutdown_that_is_waited_for(driver: ComputeDriver, guest: Instance) -> None:
    assert driver.shut_down(guest.uuid, 10.0, threading.Event())
    assert driver.power_state(guest.uuid) is PowerState.SHUTDOWN


def test_actions_on_domains_that_are_not_ours_or_not_there(
    driver: ComputeDriver, guest: Instance, tmp_path: Path
) -> None:
    other = load(tmp_path, host="hv2")
    try:
        for act in (other.pause, other.unpause, other.suspend):
            with pytest.raises(NotFound, match="is not ours"):
                act(guest.uuid)
            with pytest.raises(NotFound, match="has no domain"):
                act(str(uuid.uuid4()))
        with pytest.raises(NotFound, match="is not ours"):
            other.hard_reboot(guest)
    finally:
        other.close()
    assert own_domains(driver) == {guest.uuid: (PowerState.RUNNING, 3)}


def domain_of(driver: ComputeDriver, instance_uuid: str) -> Any:
    assert isinstance(driver, LibvirtDriver)
    with driver._host.connection("Looking") as connection:
        return connection.lookupByUUIDString(instance_uuid)


def test_rebuild_that_fails_leaves_the_domain_with_the_disk_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever `images_type` says by now: the old disk in the format of the new one would be destroyed at the next start."""
    new_instance = instance(image=Image(id="i", disk_format="raw"), flavor=msgspec.structs.replace(FLAVOR, swap=0))
    image = tmp_path / "image"
    image.write_bytes(bytes(1 << 20))
    before = load_real(tmp_path, "qcow2")
    try:
        before.prepare(new_instance, "hv1", 1, image)
        after = load_real(tmp_path, "raw")
        with monkeypatch.context() as patch:
            patch.setattr(Disks, "finish", refuse)
            with pytest.raises(HypervisorError, match="no new disk"):
                after.rebuild(new_instance, image)
        assert formats_of(after, new_instance) == ["qcow2"]
        after.rebuild(new_instance, image)
        assert formats_of(after, new_instance) == ["raw"]
    finally:
        before.destroy(new_instance.uuid)


def load_real(folder: Path, images_type: str) -> LibvirtDriver:
    """With disks, which libvirt's test hypervisor does not open."""
    driver = load(folder, images_type=images_type)
    assert isinstance(driver, LibvirtDriver)
    driver._real = True
    return driver


def refuse(*words: object) -> None:
    raise HypervisorError("no new disk")


def formats_of(driver: LibvirtDriver, one: Instance) -> list[str]:
    with driver._host.connection("Reading") as connection:
        xml = connection.lookupByUUIDString(one.uuid).XMLDesc(0)
    return list(disk_formats_of(xml, one.uuid).values())


class Aside:
    """In the place of the snapshots' work with QEMU: the overlay is a file, and the commit fails as often as it is told to."""

    def __init__(self, driver: LibvirtDriver, monkeypatch: pytest.MonkeyPatch, one: Instance) -> None:
        self.failures = 0
        self.copied: list[str] = []
        self.folder = driver._disks.folder(one.uuid)
        for name in ("set_aside", "copy", "settle", "require_room"):
            monkeypatch.setattr(DiskSnapshots, name, getattr(self, name))

    def require_room(self, *words: object) -> None:
        """There is."""

    def set_aside(self, domain: object, take: object = None) -> None:
        (self.folder / "snapshot.overlay").touch()

    def copy(self, instance_uuid: str, path: Path, check: Callable[[], None]) -> None:
        check()
        self.copied.append(instance_uuid)

    def settle(self, instance_uuid: str, domain: object, check: Callable[[], None] = lambda: None) -> None:
        if not (self.folder / "snapshot.overlay").exists():
            return
        check()
        if self.failures:
            self.failures -= 1
            raise HypervisorError("the commit takes too long")
        (self.folder / "snapshot.overlay").unlink()


@pytest.fixture
def running(tmp_path: Path) -> Iterator[tuple[LibvirtDriver, Instance]]:
    new_instance = instance(image=Image(id="i", disk_format="raw"), flavor=msgspec.structs.replace(FLAVOR, swap=0))
    image = tmp_path / "image"
    image.write_bytes(bytes(1 << 20))
    driver = load_real(tmp_path, "qcow2")
    driver.prepare(new_instance, driver.available_nodes()[0], 1, image)
    driver.power_on(new_instance)
    yield driver, new_instance
    driver.destroy(new_instance.uuid)
    driver.close()


def test_the_latest_attempt_of_a_domain_or_of_own_disks_counts(running: tuple[LibvirtDriver, Instance]) -> None:
    driver, guest = running
    assert driver.latest_attempt(guest.uuid) == 1
    owner = disk_owner.read(driver._disks.folder(guest.uuid))
    assert owner is not None
    for host, latest in (("hv1", 7), ("another host of the folder", 1)):
        with disk_owner.locked(driver._disks.folder(guest.uuid)) as file:
            file.write(msgspec.structs.replace(owner, host=host, attempt=7))
        assert driver.latest_attempt(guest.uuid) == latest
    with disk_owner.locked(driver._disks.folder(guest.uuid)) as file:
        file.write(owner)
    assert driver.latest_attempt(str(uuid.uuid4())) is None


def test_commit_that_fails_loses_no_image_and_is_done_later(
    running: tuple[LibvirtDriver, Instance], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver, guest = running
    aside = Aside(driver, monkeypatch, guest)
    aside.failures = 2
    driver.snapshot(guest, tmp_path / "copy", lambda: None)
    assert (aside.copied, driver.open_snapshots()) == ([guest.uuid], (guest.uuid,))
    driver.end_snapshot(guest.uuid)
    assert driver.open_snapshots() == (guest.uuid,)
    driver.end_snapshot(guest.uuid)
    assert driver.open_snapshots() == ()


def test_snapshot_that_fails_once_the_guest_writes_aside_is_ended(
    running: tuple[LibvirtDriver, Instance], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """libvirt may have done it although it did not answer."""
    driver, guest = running
    aside = Aside(driver, monkeypatch, guest)

    def set_aside(domain: object) -> None:
        Aside.set_aside(aside, domain)
        raise HypervisorError("no answer")

    monkeypatch.setattr(DiskSnapshots, "set_aside", lambda _, domain, take: set_aside(domain))
    with pytest.raises(HypervisorError, match="no answer"):
        driver.snapshot(guest, tmp_path / "copy", lambda: None)
    assert (aside.copied, driver.open_snapshots()) == ([], ())


def test_action_goes_on_while_a_commit_does(
    running: tuple[LibvirtDriver, Instance], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it would end in the middle of a long one. One that has ended waits for it no longer."""
    driver, guest = running
    aside, check_count = Aside(driver, monkeypatch, guest), 0

    def check() -> None:
        nonlocal check_count
        check_count += 1
        if aside.copied:
            raise ActionEnded

    with pytest.raises(ActionEnded):
        driver.snapshot(guest, tmp_path / "copy", check)
    assert (check_count, driver.open_snapshots()) == (2, (guest.uuid,))


def test_diagnostics_are_what_libvirt_counts(driver: ComputeDriver) -> None:
    """Its test hypervisor counts no memory beside the domain's, and other counts of its own."""
    new_instance = instance()
    driver.prepare(new_instance, driver.available_nodes()[0], 1, None)
    driver.power_on(new_instance)
    counted = driver.diagnostics(new_instance.uuid)
    assert (counted.driver, counted.memory_kb) == ("libvirt", new_instance.flavor.memory_mb << 10)
    assert [cpu.id for cpu in counted.cpus] == list(range(new_instance.flavor.vcpus))
    with pytest.raises(NotFound):
        driver.diagnostics(str(uuid.uuid4()))


def test_disks_that_cannot_be_read_keep_no_other_instance_from_its_owner(
    running: tuple[LibvirtDriver, Instance], caplog: pytest.LogCaptureFixture
) -> None:
    driver, guest = running
    broken = str(uuid.uuid4())
    (driver._disks.folder(broken) / "owner.json").mkdir(parents=True)
    owner = driver._disks.folder(guest.uuid) / "owner.json"
    owner.unlink()
    driver.own_disks([broken, guest.uuid])
    assert owner.exists()
    assert broken in caplog.text
