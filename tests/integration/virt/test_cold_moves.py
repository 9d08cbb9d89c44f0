"""Guests that are off move between two real hypervisors: all that they have written goes along, and nothing else is left."""

import secrets
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from minova.errors import DisksOfAnotherHost, GuestIsNewer, GuestStateUnexpected, HypervisorError, SavedMemoryKept
from minova.objects.catalogue.flavor import Flavor
from minova.objects.catalogue.image import Image
from minova.objects.servers.disk_export import DiskExport, TransferKey
from minova.objects.servers.instance import Instance
from minova.objects.servers.states import PowerState
from minova.virt.driver import ComputeDriver
from minova.virt.driver.domains import RowHost
from minova.virt.libvirt.guest_files.disk_formats import virtual_size
from minova.virt.libvirt.storage.disk_owner import DiskOwner
from tests.integration.virt.guest_console import GuestConsole
from tests.integration.virt.test_guest import instance, load
from tests.servers.libvirtd import ACCOUNT, Libvirtd
from tests.waiting import wait_for

pytestmark = pytest.mark.timeout(600)
MOVE = "5f6bbd5a-1f8a-4b5f-8f57-6a1c3a3b9d01"


def key() -> TransferKey:
    return TransferKey(identity=MOVE, secret=secrets.token_hex(32))


def never() -> None:
    """Nothing ends the copy."""


class Side:
    """A host with a libvirtd of its own."""

    def __init__(self, name: str, folder: Path, image: Path, **options: Any) -> None:
        self.name, self.folder, self.image = name, folder, image
        self.libvirtd = Libvirtd(**options)
        self.libvirtd.open()
        self.driver: ComputeDriver = load(folder, self.libvirtd.uri, host=name)
        (self.node,) = self.driver.available_nodes()

    def disks(self, guest: Instance) -> Path:
        return self.folder / "instances" / guest.uuid

    def close(self) -> None:
        self.driver.close()
        self.libvirtd.close()


@contextmanager
def side(name: str, folder: Path, image: Path, **options: Any) -> Iterator[Side]:
    folder.mkdir(exist_ok=True)
    new_side = Side(name, folder, image, **options)
    try:
        yield new_side
    finally:
        new_side.close()


@pytest.fixture
def sides(tmp_path: Path, guest_image: Path) -> Iterator[tuple[Side, Side]]:
    """Each host has instances of its own."""
    with ExitStack() as stack:
        source, destination = (stack.enter_context(side(name, tmp_path / name, guest_image)) for name in ("hv1", "hv2"))
        yield source, destination


def move(guest: Instance, source: Side, dest: Side, attempt: int) -> DiskExport:
    secret = key()
    export = source.driver.export_disks(guest, MOVE, secret)
    dest.driver.import_disks(guest, attempt, export, secret, dest.image, never)
    source.driver.stop_export(MOVE)
    dest.driver.define_moved(guest, dest.node, attempt)
    return export


def console(side: Side, guest: Instance) -> GuestConsole:
    return GuestConsole(side.libvirtd.uri, guest.uuid, lambda: log(side, guest))


def log(side: Side, guest: Instance) -> str:
    return (side.disks(guest) / "console.log").read_text(errors="replace").replace("\r", "")


def boot(side: Side, guest: Instance, times: int) -> None:
    side.driver.power_on(guest)
    wait_for(f"boot {times}", lambda: f"MINOVA-GUEST BOOTS {times}" in log(side, guest), 120)
    wait_for("READY", lambda: log(side, guest).count("MINOVA-GUEST READY") == times, 120)


def test_a_guest_moves_and_returns_with_all_that_it_has_written(sides: tuple[Side, Side]) -> None:
    source, destination = sides
    guest = instance(config_drive=True)
    source.driver.prepare(guest, source.node, 1, source.image)
    boot(source, guest, 1)
    source.driver.power_off(guest.uuid)
    swap = (source.disks(guest) / "disk.swap").read_bytes()
    move(guest, source, destination, 2)
    assert (destination.disks(guest) / "disk.swap").read_bytes() == swap
    boot(destination, guest, 2)
    source.driver.destroy(guest.uuid, RowHost(host="hv2"))
    assert source.driver.domains() == ()
    assert not source.disks(guest).exists()
    destination.driver.power_off(guest.uuid)
    move(guest, destination, source, 3)
    boot(source, guest, 3)
    assert source.driver.domains()[0].attempt == 3


def test_a_source_serves_the_image_below_the_disk(sides: tuple[Side, Side], tmp_path: Path) -> None:
    source, destination = sides
    guest, secret, fetched = instance(), key(), tmp_path / "fetched"
    source.driver.prepare(guest, source.node, 1, source.image)
    assert source.driver.export_disks(guest, MOVE, secret).images == ()
    base = source.image.name
    source.driver.require_movable(guest, images=(base,))
    export = source.driver.export_disks(guest, MOVE, secret, images=(base,))
    (file,) = export.images
    files: set[str] = set()
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            files.update(path.name for path in tmp_path.iterdir())

    # All the time: a small image may be there before it is asked whether to go on.
    with ThreadPoolExecutor(1) as pool:
        looking = pool.submit(look)
        try:
            destination.driver.fetch_image(fetched, export, file, secret, lambda: None)
        finally:
            done.set()
        looking.result()
    assert fetched.read_bytes() == source.image.read_bytes()
    # The cache sweeps no part of a part.
    assert "fetched" in files
    assert not any(name.endswith(".part") for name in files)
    source.driver.stop_export(MOVE)


def small(side: Side, **more: Any) -> Instance:
    """A guest that has never run, so that its test is fast."""
    guest = instance(**more)
    side.driver.prepare(guest, side.node, 1, side.image)
    return guest


def write(side: Side, guest: Instance, byte: int) -> None:
    disk = side.disks(guest) / "disk"
    subprocess.run(["qemu-io", "-f", "qcow2", "-c", f"write -q -P {byte} 900M 4M", str(disk)], check=True)


def holds(side: Side, guest: Instance, byte: int) -> bool:
    disk = side.disks(guest) / "disk"
    command = ["qemu-io", "-r", "-U", "-f", "qcow2", "-c", f"read -P {byte} 900M 4M", str(disk)]
    return "verification failed" not in subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_a_copy_that_is_cut_leaves_the_source_whole_and_continues(sides: tuple[Side, Side]) -> None:
    source, destination = sides
    guest, secret = small(source), key()
    write(source, guest, 7)
    export = source.driver.export_disks(guest, MOVE, secret)
    assert source.driver.export_disks(guest, MOVE, secret) == export

    calls = []

    def cut() -> None:
        calls.append(1)
        if (destination.disks(guest) / "disk").exists():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        destination.driver.import_disks(guest, 2, export, secret, destination.image, cut)
    assert [path.name for path in destination.disks(guest).glob("*.part")] == []
    fetched = (destination.disks(guest) / "disk").stat().st_ino
    assert destination.driver.left_disks(()) != ()
    destination.driver.import_disks(guest, 2, export, secret, destination.image, never)
    assert (destination.disks(guest) / "disk").stat().st_ino == fetched
    assert holds(destination, guest, 7)
    # The host of the row decides; here it is still the source.
    destination.driver.destroy(guest.uuid, RowHost(host="hv1"))
    assert not destination.disks(guest).exists()
    assert holds(source, guest, 7)


def test_only_the_key_of_the_move_opens_the_disks_and_only_for_reading(sides: tuple[Side, Side]) -> None:
    source, destination = sides
    guest, secret = small(source), key()
    export = source.driver.export_disks(guest, MOVE, secret)
    with pytest.raises(HypervisorError, match="TLS handshake failed"):
        destination.driver.import_disks(guest, 2, export, key(), destination.image, never)
    plain = ["qemu-img", "info", f"nbd://127.0.0.1:{export.port}/disk"]
    refused = subprocess.run(plain, capture_output=True, text=True)
    assert "TLS negotiation required" in refused.stderr
    source.driver.stop_export(MOVE)
    with pytest.raises(HypervisorError, match="Connection refused"):
        destination.driver.import_disks(guest, 2, export, secret, destination.image, never)


def test_no_guest_starts_on_disks_that_are_being_fetched(sides: tuple[Side, Side]) -> None:
    source, _ = sides
    guest, secret = small(source), key()
    source.driver.export_disks(guest, MOVE, secret)
    with pytest.raises(HypervisorError, match="lock"):
        source.driver.power_on(guest)
    source.driver.stop_export(MOVE)
    assert source.driver.power_on(guest) is PowerState.RUNNING
    with pytest.raises(GuestStateUnexpected, match="not off"):
        source.driver.export_disks(guest, MOVE, secret)


def test_a_resize_grows_the_disks_and_its_revert_returns_to_the_disks_of_the_source(sides: tuple[Side, Side]) -> None:
    source, destination = sides
    guest, secret = small(source), key()
    write(source, guest, 7)
    large = msgspec.structs.replace(
        guest, flavor=Flavor(flavorid="2", name="large", vcpus=1, memory_mb=160, root_gb=2, swap=32, ephemeral_gb=1)
    )
    export = source.driver.export_disks(guest, MOVE, secret)
    destination.driver.import_disks(large, 2, export, secret, destination.image, never, before=guest.flavor)
    source.driver.stop_export(MOVE)
    destination.driver.define_moved(large, destination.node, 2)
    destination.driver.define_moved(large, destination.node, 2)
    folder = destination.disks(guest)
    assert virtual_size(folder / "disk", "qcow2") == 2 << 30
    assert (folder / "disk.swap").stat().st_size == 32 << 20
    assert (folder / "disk.eph0").stat().st_size == 1 << 30
    write(destination, guest, 9)
    destination.driver.destroy(guest.uuid, RowHost(host="hv1"))
    source.driver.define_moved(guest, source.node, 3)
    assert source.driver.domains()[0].attempt == 3
    assert holds(source, guest, 7)


def test_a_resize_on_the_same_host_keeps_the_disk(sides: tuple[Side, Side]) -> None:
    source, _ = sides
    guest = small(source)
    write(source, guest, 7)
    large = msgspec.structs.replace(
        guest, flavor=Flavor(flavorid="2", name="large", vcpus=1, memory_mb=160, root_gb=2, swap=0)
    )
    source.driver.define_moved(large, source.node, 2)
    assert virtual_size(source.disks(guest) / "disk", "qcow2") == 2 << 30
    with pytest.raises(GuestIsNewer):
        source.driver.define_moved(guest, source.node, 1)
    assert holds(source, guest, 7)


def test_shared_disks_are_handed_over_and_not_copied(tmp_path: Path, guest_image: Path) -> None:
    (tmp_path / "shared").mkdir()
    with ExitStack() as stack:
        source, destination = (
            stack.enter_context(side(name, tmp_path / "shared", guest_image)) for name in ("hv1", "hv2")
        )
        guest, secret = small(source), key()
        inode = (source.disks(guest) / "disk").stat().st_ino
        export = source.driver.export_disks(guest, MOVE, secret)
        destination.driver.import_disks(guest, 2, export, secret, destination.image, never)
        source.driver.stop_export(MOVE)
        destination.driver.define_moved(guest, destination.node, 2)
        assert (destination.disks(guest) / "disk").stat().st_ino == inode
        with pytest.raises(DisksOfAnotherHost, match="now of host hv2"):
            source.driver.power_on(guest)
        source.driver.destroy(guest.uuid, RowHost(host="hv2"))
        assert destination.driver.power_on(guest) is PowerState.RUNNING


@pytest.mark.parametrize("stayed_off", [False, True])
def test_bug_memory_was_restored_over_the_disks_on_which_the_guest_had_gone_on(
    tmp_path: Path, guest_image: Path, stayed_off: bool
) -> None:
    """On shared storage the source has its memory of before still, when the guest returns to it with newer disks."""
    (tmp_path / "shared").mkdir()
    with ExitStack() as stack:
        source, destination = (
            stack.enter_context(side(name, tmp_path / "shared", guest_image)) for name in ("hv1", "hv2")
        )
        guest, secret = small(source), key()
        source.driver.power_on(guest)
        source.driver.suspend(guest.uuid)
        export = source.driver.export_disks(guest, MOVE, secret)
        destination.driver.import_disks(guest, 2, export, secret, destination.image, never)
        source.driver.stop_export(MOVE)
        destination.driver.define_moved(guest, destination.node, 2)
        destination.driver.destroy(guest.uuid, RowHost(host="hv1"))
        source.driver.define_moved(guest, source.node, 3, stayed_off=stayed_off)
        assert source.driver.has_saved_memory(guest.uuid) is stayed_off


def test_bug_copy_of_a_folder_counted_as_shared_storage(sides: tuple[Side, Side]) -> None:
    """Its owner record is the same, and its disk is an old one."""
    source, destination = sides
    guest, secret = small(source), key()
    source.driver.export_disks(guest, "an earlier one", secret)
    source.driver.stop_export("an earlier one")
    shutil.copytree(source.disks(guest), destination.disks(guest))
    write(source, guest, 9)
    export = source.driver.export_disks(guest, MOVE, secret)
    with pytest.raises(HypervisorError, match="of host hv1"):
        destination.driver.import_disks(guest, 2, export, secret, destination.image, never)


def test_files_of_another_host_are_never_overwritten(sides: tuple[Side, Side]) -> None:
    """A folder with another owner record may be another instance's view of shared storage."""
    source, destination = sides
    guest, secret = small(source), key()
    export = source.driver.export_disks(guest, MOVE, secret)
    folder = destination.disks(guest)
    folder.mkdir()
    (folder / "disk").write_bytes(b"unknown")
    with pytest.raises(HypervisorError, match="no host is recorded"):
        destination.driver.import_disks(guest, 2, export, secret, destination.image, never)
    (folder / "owner.json").write_bytes(msgspec.json.encode(DiskOwner(host="hv3", attempt=1)))
    with pytest.raises(HypervisorError, match="of host hv3"):
        destination.driver.import_disks(guest, 2, export, secret, destination.image, never)
    assert (folder / "disk").read_bytes() == b"unknown"


def test_the_variables_of_uefi_firmware_move(sides: tuple[Side, Side]) -> None:
    source, destination = sides
    guest = small(source, image=Image(id="i", disk_format="qcow2", properties={"hw_firmware_type": "uefi"}))
    source.driver.power_on(guest)
    source.driver.power_off(guest.uuid)
    name = f"qemu/nvram/instance-{guest.uuid}_VARS.fd"
    variables = source.libvirtd.directory / "lib" / name
    with variables.open("r+b") as file:
        file.seek(400_000)
        file.write(b"a boot entry of the guest")
    move(guest, source, destination, 2)
    assert (destination.libvirtd.directory / "lib" / name).read_bytes() == variables.read_bytes()
    assert destination.driver.power_on(guest) is PowerState.RUNNING


@pytest.mark.nightly("fake guests move with their memory each day, and real ones with their disks")
def test_saved_memory_moves_and_the_guest_goes_on_from_it(sides: tuple[Side, Side]) -> None:
    source, destination = sides
    guest, secret = small(source), key()
    boot(source, guest, 1)
    source.driver.suspend(guest.uuid)
    large = msgspec.structs.replace(guest, flavor=msgspec.structs.replace(guest.flavor, memory_mb=256))
    export = source.driver.export_disks(guest, MOVE, secret)
    more_swap = msgspec.structs.replace(guest, flavor=msgspec.structs.replace(guest.flavor, swap=64))
    for changed in (large, more_swap):
        with pytest.raises(SavedMemoryKept):
            destination.driver.import_disks(changed, 2, export, secret, destination.image, never, before=guest.flavor)
        with pytest.raises(SavedMemoryKept):
            source.driver.define_moved(changed, source.node, 2)
    move(guest, source, destination, 2)
    destination.driver.define_moved(guest, destination.node, 2)
    assert destination.driver.has_saved_memory(guest.uuid)
    assert destination.driver.resume(guest) is PowerState.RUNNING
    # The copy of the log came along, and the guest does not boot again.
    assert console(destination, guest).ask("echo awake") == "awake"
    assert "MINOVA-GUEST BOOTS 2" not in log(destination, guest)
    assert [domain.attempt for domain in destination.driver.domains()] == [2]
    assert [path.name for path in destination.disks(guest).glob("*.save*")] == []
    # The source has its own still, for a return to it.
    destination.driver.destroy(guest.uuid, RowHost(host="hv1"))
    source.driver.define_moved(guest, source.node, 3)
    source.driver.resume(guest)
    assert [domain.attempt for domain in source.driver.domains()] == [3]
    assert console(source, guest).ask("echo awake") == "awake"


@pytest.mark.nightly("a move more")
def test_a_guest_moves_where_qemu_has_a_user_of_its_own(guest_image: Path) -> None:
    """libvirt gives the files to this user; the programs of the move run as neither this user nor root."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="minova-moves-")))
        folder.chmod(0o755)
        image = Path(shutil.copy(guest_image, folder))
        source, destination = (
            stack.enter_context(side(name, folder / name, image, qemu_user=ACCOUNT)) for name in ("hv1", "hv2")
        )
        for each_side in (source, destination):
            (each_side.folder / "instances").parent.chmod(0o755)
        guest = small(source)
        source.driver.power_on(guest)
        source.driver.power_off(guest.uuid)
        write(source, guest, 7)
        move(guest, source, destination, 2)
        assert destination.driver.power_on(guest) is PowerState.RUNNING
        destination.driver.power_off(guest.uuid)
        assert holds(destination, guest, 7)
