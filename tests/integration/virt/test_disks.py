"""Disks made by the real programs, and a disk that is really full."""

import json
import random
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import msgspec
import pytest

from minova.compute.images.cache import ImageCache
from minova.errors import DiskFull, HardwareNotOffered, HypervisorError, ImageUnacceptable
from minova.image_format import inspection
from minova.objects.catalogue.flavor import Flavor, LocalDisk
from minova.objects.catalogue.image import BootFile, Image
from minova.objects.guests.guest_secrets import SecretKind
from minova.objects.guests.local_disks import to_metadata
from minova.objects.servers.disk_export import DiskExport, TransferKey
from minova.objects.servers.instance import Instance
from minova.objects.servers.live_migration import LiveSource
from minova.virt.driver.domains import RowHost
from minova.virt.libvirt.guest_files import disk_formats
from minova.virt.libvirt.migration.file_bounds import FileBounds
from minova.virt.libvirt.migration.moving_disks import MovingDisks
from minova.virt.libvirt.storage import disk_owner
from minova.virt.libvirt.storage.disk_images import BaseImage
from minova.virt.libvirt.storage.disks import Disks, DiskSettings, WriteDrive
from tests.functional.compute.images.test_cache import conf, image
from tests.functional.virt.image_server import ImageServer

MB, GB = 1 << 20, 1 << 30
KEY = TransferKey(identity="i", secret="00")


def qemu_img(*words: object) -> str:
    command = ["qemu-img", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout


@pytest.fixture
def base(tmp_path: Path) -> Path:
    qemu_img("create", "-q", "-f", "qcow2", tmp_path / "base", "100M")
    return tmp_path / "base"


@pytest.fixture
def disks(tmp_path: Path) -> Disks:
    disks = Disks(tmp_path / "instances")
    disks.check()
    return disks


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte."""
    folder = tmp_path / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], check=True, timeout=120)
    yield folder
    subprocess.run(["umount", folder], check=True, timeout=120)


def instance(disk_format: str = "qcow2", **flavor: int) -> Instance:
    size: dict[str, Any] = {"flavorid": "1", "name": "m", "vcpus": 1, "memory_mb": 128, "root_gb": 1}
    picture = Image(id="i", disk_format=disk_format)
    return Instance(uuid=str(uuid.uuid4()), display_name="x", image=picture, flavor=Flavor(**size | flavor))


def made(disks: Disks, one: Instance, path: Path) -> dict[str, Any]:
    disks.make(one, BaseImage.of(one, path), "hv1", 1)
    shown: dict[str, Any] = json.loads(qemu_img("info", "--output=json", disks.folder(one.uuid) / "disk"))
    return shown


def head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(4096)


def names(disks: Disks, one: Instance) -> list[str]:
    return sorted(path.name for path in disks.folder(one.uuid).iterdir())


@pytest.mark.parametrize(("root_gb", "size"), [(1, GB), (3, 3 * GB), (0, 100 * MB)])
def test_an_overlay_as_large_as_the_flavor_or_the_image(disks: Disks, base: Path, root_gb: int, size: int) -> None:
    shown = made(disks, instance(root_gb=root_gb), base)
    assert (shown["format"], shown["virtual-size"]) == ("qcow2", size)
    assert (shown["backing-filename"], shown["backing-filename-format"]) == (str(base), "qcow2")


def test_a_raw_base_is_named_raw_whatever_a_guest_writes_into_it(disks: Disks, tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    raw.write_bytes(b"\0" * MB)
    assert made(disks, instance("raw"), raw)["backing-filename-format"] == "raw"


def test_ephemeral_and_swap_disks_are_formatted_and_thin(disks: Disks, base: Path) -> None:
    new_instance = instance(ephemeral_gb=2, swap=64)
    made(disks, new_instance, base)
    assert names(disks, new_instance) == ["console.log", "disk", "disk.eph0", "disk.swap", "owner.json"]
    assert [Path(disk.path).name for disk in disks.plan(new_instance)] == ["disk", "disk.eph0", "disk.swap"]
    ephemeral, swap = disks.folder(new_instance.uuid) / "disk.eph0", disks.folder(new_instance.uuid) / "disk.swap"
    assert (ephemeral.stat().st_size, swap.stat().st_size) == (2 * GB, 64 * MB)
    assert b"ephemeral0" in head(ephemeral)
    assert b"SWAPSPACE2" in head(swap)
    assert ephemeral.stat().st_blocks * 512 < 100 * MB
    assert 2.8 * GB < disks.growth() < 3.1 * GB


@pytest.mark.parametrize("is_cd", [True, False])
def test_a_config_drive_stays_what_it_was_made_as(disks: Disks, base: Path, is_cd: bool) -> None:
    guest = msgspec.structs.replace(instance(), config_drive=True)

    def write(path: Path) -> None:
        path.write_bytes(b"drive")

    drive = WriteDrive(write, is_cd)
    disks.make(guest, BaseImage.of(guest, base), "hv1", 1, drive)
    assert names(disks, guest) == ["console.log", "disk", "disk.config", "owner.json"]
    assert (disks.folder(guest.uuid) / "disk.config").read_bytes() == b"drive"
    assert [(Path(disk.path).name, disk.is_cd) for disk in disks.plan(guest)] == [
        ("disk", False),
        ("disk.config", is_cd),
    ]
    assert disks.plan(guest, drive_is_cd=not is_cd)[1].is_cd is not is_cd
    disks.make(guest, BaseImage.of(guest, base), "hv1", 1, drive)
    disks.remove(guest.uuid, "hv1", RowHost(host="hv1"))
    assert not disks.folder(guest.uuid).exists()


def test_making_them_again_makes_them_anew(disks: Disks, base: Path) -> None:
    new_instance = instance()
    made(disks, new_instance, base)
    assert made(disks, new_instance, base)["virtual-size"] == GB
    assert names(disks, new_instance) == ["console.log", "disk", "owner.json"]


@pytest.mark.parametrize("has_kernel", [True, False])
def test_bug_failed_rebuild_replaced_the_kernel(disks: Disks, base: Path, has_kernel: bool) -> None:
    """The former guest, whose disks stay, booted with the kernel of the image that it had not got, or with none."""
    kernels = [BootFile(id=name, size=1, os_hash_value=name * 64) for name in "ab"]
    for each in kernels:
        base.with_name(each.os_hash_value or "").write_text(each.id)
    new_instance = instance()
    old, new = (Image(id="i", disk_format="qcow2", kernel=each) for each in kernels)
    new = new if has_kernel else msgspec.structs.replace(new, kernel=None)
    made(disks, msgspec.structs.replace(new_instance, image=old), base)
    kernel = disks.folder(new_instance.uuid) / "kernel"

    def fail() -> None:
        assert kernel.read_text() == "a"
        raise HypervisorError("the TPM cannot be removed")

    rebuilt = msgspec.structs.replace(new_instance, image=new)
    with pytest.raises(HypervisorError, match="TPM"):
        disks.make(rebuilt, BaseImage.of(rebuilt, base), "hv1", 1, replaces=fail)
    assert kernel.read_text() == "a"
    assert names(disks, new_instance) == ["console.log", "disk", "kernel", "owner.json"]
    made(disks, rebuilt, base)
    assert (kernel.read_text() if kernel.exists() else None) == ("b" if has_kernel else None)


def test_what_was_removed_is_gone_and_may_be_removed_again(disks: Disks, base: Path) -> None:
    new_instance = instance()
    made(disks, new_instance, base)
    disks.remove(new_instance.uuid, "hv1", RowHost())
    disks.remove(new_instance.uuid, "hv1", RowHost())
    assert list(disks.path.iterdir()) == []
    assert disks.growth() == 0


@pytest.mark.parametrize("name", ["../base", "/etc", "", "."])
def test_nothing_but_a_uuid_names_a_folder(disks: Disks, base: Path, name: str) -> None:
    with pytest.raises(ValueError, match="UUID"):
        disks.remove(name, "hv1", RowHost())
    assert base.exists()


def test_an_image_over_the_flavors_disk_is_refused_before_a_disk_is_made(disks: Disks, tmp_path: Path) -> None:
    qemu_img("create", "-q", "-f", "qcow2", tmp_path / "large", "2G")
    new_instance = instance(root_gb=1)
    with pytest.raises(ImageUnacceptable, match="virtual size 2147483648 bytes > root disk 1 GB"):
        BaseImage.of(new_instance, tmp_path / "large")
    assert BaseImage.of(instance(root_gb=0), tmp_path / "large").virtual_size == 2 * GB


def test_an_image_that_claims_to_be_larger_than_the_whole_disk(disks: Disks, base: Path) -> None:
    huge = BaseImage(path=base, disk_format="qcow2", virtual_size=1 << 60)
    new_instance = instance(root_gb=0)
    with pytest.raises(HardwareNotOffered, match="larger than the host's disk, and flavor m sets no other size"):
        disks.make(new_instance, huge, "hv1", 1)
    assert not (disks.path / new_instance.uuid).exists()
    disks.make(instance(root_gb=1), huge, "hv1", 1)


def test_a_failed_program_is_told_in_its_words_and_leaves_nothing(disks: Disks, tmp_path: Path) -> None:
    new_instance = instance()
    base = tmp_path / "base"
    base.touch()
    with pytest.raises(HypervisorError, match=r"qemu-img: .*nonsense"):
        disks.make(new_instance, BaseImage(path=base, disk_format="nonsense", virtual_size=GB), "hv1", 1)
    with pytest.raises(HypervisorError, match=r"Base image .*gone is missing"):
        disks.make(new_instance, BaseImage(path=tmp_path / "gone", disk_format="qcow2", virtual_size=GB), "hv1", 1)
    assert names(disks, new_instance) == ["console.log", "owner.json"]


def test_disks_on_a_full_disk(small_disk: Path, base: Path) -> None:
    disks, new_instance = Disks(small_disk), instance(swap=64, ephemeral_gb=1)
    filler = small_disk / "filler"
    filler.write_bytes(b"x" * (small_disk_free(small_disk) - 300 * 1024))
    with pytest.raises(DiskFull, match="No space left on device"):
        disks.make(new_instance, BaseImage.of(new_instance, base), "hv1", 1)
    assert all(not name.endswith(".part") for name in names(disks, new_instance))
    disks.remove(new_instance.uuid, "hv1", RowHost())
    assert list(small_disk.iterdir()) == [filler]


def small_disk_free(folder: Path) -> int:
    return Disks(folder).usage()[2]


def test_an_image_on_a_full_disk(small_disk: Path) -> None:
    data = b"data" * MB
    with ImageServer(data) as server:
        images = ImageCache(conf(small_disk, server.url))
        # Without its size it cannot be known in advance.
        for size in (None, len(data)):
            with pytest.raises(DiskFull):
                images.fetch(image(data, size=size))
    assert [path.name for path in images.folder.iterdir()] == ["locks"]
    assert small_disk_free(small_disk) > 900 * 1024


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["-F", "qcow2", "-b", "base"], "backing file"),
        (["-o", "data_file=data.raw"], "data_file"),
    ],
)
def test_what_qemu_itself_makes_unsafe(tmp_path: Path, base: Path, options: list[str], why: str) -> None:
    path = tmp_path / "unsafe"
    words = ["qemu-img", "create", "-q", "-f", "qcow2", *options, str(path), "10M"]
    subprocess.run(words, cwd=tmp_path, check=True, timeout=120)
    with pytest.raises(ImageUnacceptable, match=why):
        inspection.inspect(path, "qcow2")


@pytest.mark.parametrize(
    "how", [(), ("-c",), ("-o", "compat=0.10"), ("-o", "cluster_size=512"), ("-o", "compression_type=zstd", "-c")]
)
def test_what_qemu_makes_is_accepted_and_cut_in_half_refused(tmp_path: Path, how: tuple[str, ...]) -> None:
    raw, path = tmp_path / "raw", tmp_path / "image"
    raw.write_bytes(bytes(range(256)) * 4096 * 3)
    qemu_img("convert", "-f", "raw", "-O", "qcow2", *how, raw, path)
    assert inspection.inspect(path, "qcow2").virtual_size == 3 * MB
    if "-c" not in how:
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        with pytest.raises(ImageUnacceptable, match="truncated"):
            inspection.inspect(path, "qcow2")


def test_the_guest_image_is_accepted(guest_image: Path) -> None:
    assert inspection.inspect(guest_image, "qcow2").virtual_size > 0


def extents(path: Path) -> int:
    """Bytes that the file takes on its file system."""
    return path.stat().st_blocks * 512


def test_several_ephemeral_disks_with_file_systems_of_their_own(disks: Disks, base: Path) -> None:
    division = (
        LocalDisk(size_mb=64, guest_format="ext2"),
        LocalDisk(size_mb=128, bus="scsi"),
        LocalDisk(size_mb=32, guest_format="swap"),
    )
    guest = msgspec.structs.replace(instance(ephemeral_gb=2, swap=64), system_metadata=to_metadata(division))
    made(disks, guest, base)
    assert [(Path(disk.path).name, disk.bus) for disk in disks.plan(guest)] == [
        ("disk", None),
        ("disk.eph0", None),
        ("disk.eph1", "scsi"),
        ("disk.swap", None),
    ]
    sizes = {name: (disks.folder(guest.uuid) / name).stat().st_size for name in ("disk.eph0", "disk.eph1", "disk.swap")}
    assert sizes == {"disk.eph0": 64 * MB, "disk.eph1": 128 * MB, "disk.swap": 32 * MB}
    for name, kind in (("disk.eph0", "ext2"), ("disk.eph1", "ext4"), ("disk.swap", "swap")):
        path = disks.folder(guest.uuid) / name
        shown = subprocess.run(
            ["blkid", "-p", "-o", "export", path], capture_output=True, text=True, check=True, timeout=60
        )
        assert f"TYPE={kind}" in shown.stdout
        assert kind == "swap" or f"LABEL=ephemeral{name[-1]}" in shown.stdout
    disks.remove(guest.uuid, "hv1", RowHost(host="hv1"))
    assert not disks.folder(guest.uuid).exists()


@pytest.mark.parametrize("disk_format", ["qcow2", "raw"])
def test_raw_root_disk_is_a_thin_copy_of_its_image(tmp_path: Path, disk_format: str) -> None:
    disks = Disks(tmp_path / "instances", DiskSettings(images_type="raw"))
    disks.check()
    content, base = tmp_path / "content", tmp_path / "base"
    with content.open("wb") as file:
        file.truncate(50 * MB)
        file.seek(20 * MB)
        file.write(b"here" * MB)
    qemu_img("convert", "-O", disk_format, content, base)
    new_instance = instance(disk_format)
    shown = made(disks, new_instance, base)
    root = disks.folder(new_instance.uuid) / "disk"
    assert (shown["format"], shown["virtual-size"]) == ("raw", GB)
    assert "backing-filename" not in shown
    with root.open("rb") as file:
        file.seek(20 * MB)
        assert file.read(4 * MB) == b"here" * MB
    assert extents(root) < 16 * MB
    assert disks.bases_in_use() == frozenset()
    assert names(disks, new_instance) == ["console.log", "disk", "owner.json"]
    # The settings of today are about new disks alone.
    assert Disks(tmp_path / "instances").plan(new_instance)[0].driver_format == "raw"


def test_preallocated_disks_take_their_space_at_once(tmp_path: Path, base: Path) -> None:
    disks = Disks(tmp_path / "instances", DiskSettings(preallocate=True))
    disks.check()
    new_instance = instance(root_gb=0, swap=64)
    shown = made(disks, new_instance, base)
    assert (shown["format"], shown["virtual-size"]) == ("qcow2", 100 * MB)
    assert extents(disks.folder(new_instance.uuid) / "disk") >= 100 * MB
    assert extents(disks.folder(new_instance.uuid) / "disk.swap") >= 64 * MB
    assert disks.growth() == 0


def test_preallocation_leaves_the_reserve_free_and_nothing_behind(tmp_path: Path, base: Path) -> None:
    free = shutil.disk_usage(tmp_path).free
    disks = Disks(tmp_path / "instances", DiskSettings(preallocate=True, reserve=free))
    new_instance = instance(root_gb=0)
    with pytest.raises(DiskFull, match="are reserved"):
        made(disks, new_instance, base)
    assert list(disks.folder(new_instance.uuid).glob("disk*")) == []


def test_raw_copy_onto_a_full_disk_leaves_nothing(small_disk: Path, tmp_path: Path) -> None:
    disks, base = Disks(small_disk / "instances", DiskSettings(images_type="raw")), tmp_path / "full"
    base.write_bytes(b"\1" * 4 * MB)
    new_instance = instance("raw")
    with pytest.raises(DiskFull):
        made(disks, new_instance, base)
    assert list(disks.folder(new_instance.uuid).glob("disk*")) == []


@pytest.mark.parametrize(("old", "new"), [("qcow2", "raw"), ("raw", "qcow2")])
@pytest.mark.parametrize("step", ["finish", "rename"])
def test_disk_that_no_new_one_replaces_keeps_its_format(
    tmp_path: Path, base: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str, step: str
) -> None:
    """In the other format the guest's disk would be destroyed, or its content would name files of the host."""
    new_instance = instance()
    before, after = (Disks(tmp_path / "instances", DiskSettings(images_type=kind)) for kind in (old, new))
    made(before, new_instance, base)
    root, halves = before.folder(new_instance.uuid) / "disk", []

    def fail(*words: object) -> NoReturn:
        halves.append(after.bases_in_use())
        raise DiskFull("none is left")

    rename = Path.rename

    def rename_no_disk(part: Path, path: Path) -> Path:
        return rename(part, path) if path.name == "owner.json" else fail()

    with monkeypatch.context() as patch:
        # Before and after the owner file says that the new disk is made.
        patch.setattr(Path, "rename", rename_no_disk) if step == "rename" else patch.setattr(Disks, "finish", fail)
        with pytest.raises(DiskFull):
            made(after, new_instance, base)
    # The half-made disk stands on its image too, in its own format.
    assert halves == [frozenset({"base"})]
    assert [disks.plan(new_instance)[0].driver_format for disks in (before, after)] == [old, old]
    assert json.loads(qemu_img("info", "--output=json", root))["format"] == old
    made(after, new_instance, base)
    assert after.plan(new_instance)[0].driver_format == new
    assert json.loads((root.parent / "owner.json").read_bytes())["former"] is None


@pytest.mark.parametrize("disk_format", ["raw", "qcow2"])
def test_a_disk_that_copies_its_image_needs_it_no_more(disks: Disks, tmp_path: Path, disk_format: str) -> None:
    """As the root disk of an unshelved server, whose row names another image than that of the shelving."""
    (tmp_path / "written").write_bytes(b"S" * 4096 + b"\0" * (MB - 4096))
    qemu_img("convert", "-f", "raw", "-O", disk_format, tmp_path / "written", tmp_path / "base")
    new_instance = instance(disk_format)
    disks.make(new_instance, BaseImage.of(new_instance, tmp_path / "base"), "hv1", 1, copies_image=True)
    (tmp_path / "base").unlink()
    disk = disks.folder(new_instance.uuid) / "disk"
    assert (disks.base_digest(new_instance.uuid), disks.lost_base(new_instance.uuid)) == (None, None)
    assert json.loads(qemu_img("info", "--output=json", disk))["virtual-size"] == GB
    qemu_img("convert", "-f", "qcow2", "-O", "raw", disk, tmp_path / "read")
    assert (tmp_path / "read").read_bytes()[: 2 * 4096] == b"S" * 4096 + b"\0" * 4096
    assert [path.name for path in disk.parent.iterdir() if "part" in path.name] == []


def test_bug_a_copy_of_an_image_was_not_encrypted(disks: Disks, tmp_path: Path) -> None:
    """The server's other disks were, and its guest did not start."""
    content = random.Random(0).randbytes(MB)
    (tmp_path / "written").write_bytes(content + b"\0" * MB)
    qemu_img("convert", "-f", "raw", "-O", "qcow2", tmp_path / "written", tmp_path / "base")
    guest, passphrase = instance(), "0" * 64
    flavor = msgspec.structs.replace(guest.flavor, extra_specs={"hw:ephemeral_encryption": "true"})
    guest = msgspec.structs.replace(guest, flavor=flavor)
    image = BaseImage.of(guest, tmp_path / "base")
    disks.make(guest, image, "hv1", 1, passphrases={SecretKind.DISKS: passphrase}, copies_image=True)
    disk = disks.folder(guest.uuid) / "disk"
    assert disk_formats.is_encrypted(disk)
    assert content[:4096] not in disk.read_bytes()
    assert json.loads(qemu_img("info", "--output=json", disk))["virtual-size"] == GB
    (tmp_path / "key").write_text(passphrase)
    opened = f"driver=qcow2,file.driver=file,file.filename={disk},encrypt.key-secret=key"
    secret = f"secret,id=key,file={tmp_path / 'key'}"
    qemu_img("convert", "--object", secret, "--image-opts", opened, "-O", "raw", tmp_path / "read")
    assert (tmp_path / "read").read_bytes()[: 2 * MB] == content + b"\0" * MB
    assert [path.name for path in disk.parent.iterdir() if "part" in path.name] == []


def test_bug_a_moved_disk_was_put_on_another_image(disks: Disks, base: Path, tmp_path: Path) -> None:
    """An earlier release based the disk of an unshelved server on the image of the shelving."""
    new_instance = instance()
    disks.make(new_instance, BaseImage.of(new_instance, base), "hv1", 1)
    export = DiskExport(host="hv1", attempt=1, base=disks.base_digest(new_instance.uuid))
    qemu_img("create", "-q", "-f", "qcow2", tmp_path / "other", "100M")
    other, there = BaseImage.of(new_instance, tmp_path / "other"), Disks(tmp_path / "there")
    moving, bounds = MovingDisks(there), FileBounds(new_instance, other)
    with pytest.raises(ImageUnacceptable, match="another image"):
        moving.fetch(new_instance, "hv2", 2, export, KEY, other, bounds, lambda: None)
    source = LiveSource(xml="", inactive_xml="", cpu_xml=None, sizes={}, export=export)
    with pytest.raises(ImageUnacceptable, match="another image"):
        moving.make_targets(new_instance, "hv2", 2, source, {}, KEY, other, lambda: None)
    assert not there.folder(new_instance.uuid).exists()


def test_bug_a_guest_was_shut_down_before_its_disk_was_refused(disks: Disks, tmp_path: Path) -> None:
    new_instance = instance()
    of_row, other = (msgspec.structs.replace(Image(id="i"), os_hash_value=name * 64) for name in "ab")
    qemu_img("create", "-q", "-f", "qcow2", tmp_path / ("a" * 64), "100M")
    disks.make(new_instance, BaseImage.of(new_instance, tmp_path / ("a" * 64)), "hv1", 1)
    disk_owner.register_host(disks.path, "hv1")
    moving = MovingDisks(disks)
    moving.require_movable(msgspec.structs.replace(new_instance, image=of_row), "hv1")
    moving.require_movable(new_instance, "hv1")  # the row does not say the digest
    with pytest.raises(ImageUnacceptable, match="another image"):
        moving.require_movable(msgspec.structs.replace(new_instance, image=other), "hv1")
    # A host that shares the disks copies none.
    disk_owner.register_host(disks.path, "hv2")
    moving.require_movable(msgspec.structs.replace(new_instance, image=other), "hv1")


def backing(disks: Disks, one: Instance) -> str | None:
    shown: dict[str, Any] = json.loads(qemu_img("info", "--output=json", disks.folder(one.uuid) / "disk"))
    return shown.get("backing-filename")


def test_bug_target_of_a_copied_disk_was_put_on_the_first_image(disks: Disks, base: Path, tmp_path: Path) -> None:
    """A copied disk has no cluster where it has zeros. QEMU copies clusters alone, so that an image below would show through."""
    new_instance, first = instance(), BaseImage.of(instance(), base)
    shapes = {}
    for number, copies_image in enumerate([True, False], 2):
        disks.make(new_instance, first, "hv1", 1, copies_image=copies_image)
        digest = disks.base_digest(new_instance.uuid)
        export = DiskExport(host="hv1", attempt=1, base=digest, based=digest is not None)
        source = LiveSource(xml="", inactive_xml="", cpu_xml=None, sizes={"disk": GB}, export=export)
        there = Disks(tmp_path / str(number))
        MovingDisks(there).make_targets(new_instance, "hv2", 2, source, {"disk": "qcow2"}, KEY, first, lambda: None)
        shapes[copies_image] = backing(there, new_instance)
    assert shapes == {True: None, False: str(base)}


def test_live_migration_from_a_host_that_does_not_say_what_is_below_a_disk(
    disks: Disks, base: Path, tmp_path: Path
) -> None:
    new_instance = instance()
    source = LiveSource(
        xml="", inactive_xml="", cpu_xml=None, sizes={"disk": GB}, export=DiskExport(host="hv1", attempt=1)
    )
    with pytest.raises(HypervisorError, match="does not say"):
        MovingDisks(disks).make_targets(
            new_instance, "hv2", 2, source, {"disk": "qcow2"}, KEY, BaseImage.of(new_instance, base), lambda: None
        )


def test_bug_copy_for_an_unshelved_disk_asked_for_no_room(
    disks: Disks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The image is copied, and the copy converted. A full file system stops each guest of the host."""
    (tmp_path / "written").write_bytes(b"S" * 4 * MB)
    qemu_img("convert", "-f", "raw", "-O", "qcow2", tmp_path / "written", tmp_path / "base")
    new_instance = instance()
    image = BaseImage.of(new_instance, tmp_path / "base")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(total=GB, used=GB - 6 * MB, free=6 * MB))
    with pytest.raises(DiskFull):
        disks.make(new_instance, image, "hv1", 1, copies_image=True)
    assert not disks.folder(new_instance.uuid).exists()
    disks.make(new_instance, image, "hv1", 1)


def test_a_rebuild_removes_writes_that_were_kept_of_the_former_disk(disks: Disks, base: Path) -> None:
    """Its owner has thrown the disk away, and the server could not move for them."""
    new_instance = instance()
    disks.make(new_instance, BaseImage.of(new_instance, base), "hv1", 1)
    kept = disks.folder(new_instance.uuid) / "snapshot.kept-1"
    kept.touch()
    disks.make(new_instance, BaseImage.of(new_instance, base), "hv1", 1)
    assert not kept.exists()


def test_bug_failed_rebuild_left_a_record_with_which_no_host_shares_the_disks(disks: Disks, base: Path) -> None:
    new_instance = instance()
    disks.make(new_instance, BaseImage.of(new_instance, base), "hv1", 1)
    record = disks.folder(new_instance.uuid) / "owner.json"
    before, moving = record.read_bytes(), MovingDisks(disks)
    image = BaseImage.of(new_instance, base)
    base.unlink()
    with pytest.raises(HypervisorError, match="is missing"):
        disks.make(new_instance, image, "hv1", 1, WriteDrive(lambda _: None, False))
    assert record.read_bytes() == before
    owner = moving.mark_shown(new_instance.uuid, "the migration")
    assert moving.shares(new_instance.uuid, DiskExport(host="hv1", attempt=1, shown=owner.shown))
