"""The clean-up of a host that came back removed the disks of a guest that ran on another host, on storage both share."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from minova import errors
from minova.cmd.compute import make_manager as make_compute_manager
from minova.compute.images.sweep import GRACE, sweep, time_in
from minova.compute.manager import ComputeManager
from minova.objects.catalogue.flavor import Flavor
from minova.objects.catalogue.image import Image
from minova.objects.servers.build import BuildMessage
from minova.objects.servers.instance import Instance
from minova.objects.servers.states import PowerState, VmState
from minova.virt.driver.domains import NO_DATA, NO_ROW, GuestData, RowHost
from minova.virt.libvirt.storage import disk_owner
from minova.virt.libvirt.storage.disk_images import BaseImage
from minova.virt.libvirt.storage.disks import Disks
from tests.fakes.computes import CTX, FakeImages, configured
from tests.fakes.conductor import FakeConductor
from tests.fakes.hypervisor import Hypervisor

UUID = "5d3a1f9e-2a0b-4f8e-9d5c-0c7a8b1f2e11"
FLAVOR = Flavor(flavorid="1", name="m1", vcpus=1, memory_mb=128, root_gb=1)
RUNNING = PowerState.RUNNING


class HostOnStorage(Hypervisor):
    """A hypervisor in memory whose guests have real disks, by the code of the libvirt driver."""

    def __init__(self, host: str, folder: Path) -> None:
        super().__init__(host)
        self.host = host
        self.disks = Disks(folder)
        self.base = folder.parent / "base"
        self.wants_image = True
        self.frozen: Callable[[], None] = lambda: None

    def init_host(self, host: str) -> None:
        super().init_host(host)
        self.disks.check()
        disk_owner.register_host(self.disks.path, host)

    def prepare(
        self,
        instance: Instance,
        node: str,
        attempt: int,
        image_path: Path | None,
        data: GuestData = NO_DATA,
        *,
        with_disks: bool = True,
        copies_image: bool = False,
    ) -> None:
        self.frozen()
        super().prepare(instance, node, attempt, image_path, data, with_disks=with_disks, copies_image=copies_image)
        if with_disks:
            base = BaseImage(path=self.base, disk_format="raw", virtual_size=1 << 20)
            self.disks.make(instance, base, self.host, attempt)

    def take_over(self, instance_uuid: str, attempt: int, old_attempt: int = 0) -> bool:
        return self.disks.take_over(instance_uuid, self.host, attempt, old_attempt)

    def destroy(self, instance_uuid: str, row: RowHost = NO_ROW) -> None:
        super().destroy(instance_uuid, row)
        self.disks.remove(instance_uuid, self.host, row)

    def shares_disks(self) -> bool:
        return bool(disk_owner.other_hosts(self.disks.path, self.host))

    def own_disks(self, instance_uuids: object) -> None:
        for uuid in instance_uuids:  # type: ignore[attr-defined]
            self.disks.own(uuid, self.host)


class Cloud:
    """Hosts a and b over one conductor; each keeps its disks in `folders[host]`."""

    def __init__(self, tmp_path: Path, *, shared: bool = True) -> None:
        self.conductor = FakeConductor()
        (tmp_path / "base").write_bytes(b"\0" * (1 << 20))
        self.folders = {host: tmp_path / ("instances" if shared else f"instances-{host}") for host in "ab"}
        self.machines = {host: HostOnStorage(host, self.folders[host]) for host in "ab"}
        self.queue: list[Callable[[], None]] = []
        self.images = FakeImages()
        self.images.path = tmp_path / "base"
        self.computes = {host: self.start(host) for host in "ab"}

    def start(self, host: str) -> ComputeManager:
        manager = make_compute_manager(
            configured(),
            self.machines[host],
            self.conductor,  # type: ignore[arg-type]  # the API's part is not there
            host=host,
            images=self.images,
            spawn=self.queue.append,
        )
        manager.init_host()
        manager.pre_start_hook()
        return manager

    def run(self) -> None:
        while self.queue:
            self.queue.pop(0)()

    def commit(self, host: str) -> BuildMessage:
        image = Image(id="i", status="active", disk_format="raw")
        return self.conductor.commit_build(UUID, host, host, FLAVOR, image=image)

    def boot(self, host: str) -> None:
        self.computes[host].build_and_run_instance(CTX, self.commit(host))
        self.run()
        assert self.conductor.instances[UUID].vm_state is VmState.ACTIVE

    def guest_runs_on(self, host: str) -> bool:
        domains = {domain.uuid: domain.power_state for domain in self.machines[host].domains()}
        return domains == {UUID: RUNNING} and (self.folders[host] / UUID / "disk").exists()


def away_while_rebuilt_on_b(cloud: Cloud) -> None:
    """Host a is away; its instance is given up there and built on b."""
    cloud.boot("a")
    row = cloud.conductor.instances[UUID]
    cloud.conductor.change(UUID, vm_state=VmState.BUILDING, host=None, node=None)
    assert row.attempt == 1
    cloud.boot("b")


def return_host(cloud: Cloud, host: str) -> None:
    cloud.computes[host] = cloud.start(host)
    cloud.run()
    cloud.computes[host].update_available_resource()
    cloud.run()


def test_a_host_that_comes_back_leaves_the_disks_of_a_guest_that_was_rebuilt_elsewhere(tmp_path: Path) -> None:
    cloud = Cloud(tmp_path)
    away_while_rebuilt_on_b(cloud)
    return_host(cloud, "a")
    assert cloud.machines["a"].domains() == ()
    assert cloud.guest_runs_on("b")


def test_a_host_that_comes_back_leaves_disks_that_an_evacuation_took_over_as_they_were(tmp_path: Path) -> None:
    cloud = Cloud(tmp_path)
    cloud.boot("a")
    cloud.conductor.change(UUID, host="b", node="b")
    cloud.machines["b"].add_domain(UUID, "b", 128, attempt=1)
    return_host(cloud, "a")
    assert cloud.machines["a"].domains() == ()
    assert cloud.guest_runs_on("b")


def test_on_storage_of_its_own_a_host_that_comes_back_removes_its_disks(tmp_path: Path) -> None:
    cloud = Cloud(tmp_path, shared=False)
    away_while_rebuilt_on_b(cloud)
    return_host(cloud, "a")
    assert not (cloud.folders["a"] / UUID).exists()
    assert cloud.guest_runs_on("b")


def test_a_build_that_fails_late_leaves_the_disks_of_the_next_attempt(tmp_path: Path) -> None:
    """Host a stands still in its build; the attempt is given up and succeeds on b; then a goes on."""
    cloud = Cloud(tmp_path)
    cloud.machines["a"].frozen = lambda: away_from_a(cloud)
    cloud.computes["a"].build_and_run_instance(CTX, cloud.commit("a"))
    cloud.run()
    assert cloud.machines["a"].domains() == ()
    assert cloud.guest_runs_on("b")
    assert cloud.conductor.failures == []


def away_from_a(cloud: Cloud) -> None:
    cloud.machines["a"].frozen = lambda: None
    cloud.conductor.give_up(UUID)
    cloud.conductor.change(UUID, vm_state=VmState.BUILDING)
    cloud.boot("b")


def test_disks_that_an_older_release_made_over_ours_are_not_ours(tmp_path: Path) -> None:
    cloud = Cloud(tmp_path)
    cloud.boot("a")
    folder = cloud.folders["a"] / UUID
    # An older host b writes no owner file and does not register.
    (folder / "disk.part").write_bytes(b"the guest of b")
    (folder / "disk.part").rename(folder / "disk")
    (cloud.folders["a"] / ".hosts" / "b").unlink()
    cloud.conductor.change(UUID, host="b", node="b")
    return_host(cloud, "a")
    assert (folder / "disk").read_bytes() == b"the guest of b"


def test_a_late_repetition_of_a_removal_leaves_the_disks_of_another_host(tmp_path: Path) -> None:
    cloud = Cloud(tmp_path)
    away_while_rebuilt_on_b(cloud)
    cloud.computes["a"].terminate_instance(CTX, UUID, "a")
    cloud.run()
    assert cloud.guest_runs_on("b")


def test_while_no_conductor_answers_only_disks_of_this_host_go(tmp_path: Path) -> None:
    disks = Disks(tmp_path)
    (tmp_path / UUID).mkdir()
    (tmp_path / UUID / "disk").touch()
    with pytest.raises(errors.HypervisorError, match="not known yet"):
        disks.remove(UUID, "a", RowHost(known=False))
    disks.own(UUID, "a")
    disks.remove(UUID, "b", RowHost(known=False))
    assert (tmp_path / UUID / "disk").exists()
    disks.remove(UUID, "a", RowHost(known=False))
    assert not (tmp_path / UUID).exists()


def test_a_compute_puts_its_name_to_disks_from_before_an_upgrade(tmp_path: Path) -> None:
    cloud = Cloud(tmp_path)
    cloud.boot("a")
    (cloud.folders["a"] / UUID / "owner.json").unlink()
    return_host(cloud, "a")
    with disk_owner.locked(cloud.folders["a"] / UUID) as owner:
        assert owner.is_of("a")


def test_a_base_image_under_a_guest_of_another_host_stays(tmp_path: Path) -> None:
    """The sweep of a looks at the disks of every host that shares the folder."""
    cloud = Cloud(tmp_path)
    folder = cloud.folders["b"] / "_base"
    folder.mkdir(parents=True)
    name = "ab" * 32
    cloud.machines["b"].base = folder / name
    for path in (folder / name, folder / ("cd" * 32)):
        path.write_bytes(b"\0" * (1 << 20))
        os.utime(path, (0, 0))
    cloud.boot("b")
    assert (
        name
        in subprocess.run(
            ["qemu-img", "info", cloud.folders["b"] / UUID / "disk"],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout
    )
    removed = sweep(folder, cloud.machines["a"].disks.bases_in_use(), GRACE, time_in(folder))
    assert removed == ("cd" * 32,)


@pytest.mark.parametrize(("digest", "copies"), [("of-the-row", False), ("of-the-shelving", True)])
def test_bug_unshelved_disk_was_based_on_an_image_that_moves_do_not_know(
    tmp_path: Path, digest: str, copies: bool
) -> None:
    """The image of a shelving is gone afterwards, and the row names another one."""
    cloud = Cloud(tmp_path)
    message = cloud.commit("a")
    cloud.conductor.change(UUID, image=Image(id="i", status="active", disk_format="raw", os_hash_value="of-the-row"))
    shelved = Image(id="s", status="active", disk_format="raw", os_hash_value=digest)
    message = msgspec.structs.replace(message, instance=msgspec.structs.replace(message.instance, image=shelved))
    cloud.computes["a"].build_and_run_instance(CTX, message)
    cloud.run()
    assert cloud.machines["a"].copied_images == {UUID: copies}
