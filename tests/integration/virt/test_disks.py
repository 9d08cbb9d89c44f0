"""Disks made by the real programs, and a disk that is really full."""

import json
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from minova.compute.images.cache import ImageCache
from minova.errors import DiskFull, HardwareNotOffered, HypervisorUnavailable, ImageUnacceptable
from minova.objects.flavor import Flavor
from minova.objects.image import Image
from minova.objects.instance import Instance
from minova.virt import image_format
from minova.virt.driver import RowHost
from minova.virt.libvirt.disks import Base, Disks
from tests.functional.compute.images.test_cache import conf, image
from tests.functional.virt.image_server import ImageServer

MB, GB = 1 << 20, 1 << 30


def qemu_img(*words: object) -> str:
    command = ["qemu-img", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout


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
    disks.make(one, Base.of(one, path), "hv1", 1)
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
    one = instance(ephemeral_gb=2, swap=64)
    made(disks, one, base)
    assert names(disks, one) == ["console.log", "disk", "disk.eph0", "disk.swap", "owner.json"]
    assert [Path(disk.path).name for disk in disks.plan(one)] == ["disk", "disk.eph0", "disk.swap"]
    ephemeral, swap = disks.folder(one.uuid) / "disk.eph0", disks.folder(one.uuid) / "disk.swap"
    assert (ephemeral.stat().st_size, swap.stat().st_size) == (2 * GB, 64 * MB)
    assert b"ephemeral0" in head(ephemeral)
    assert b"SWAPSPACE2" in head(swap)
    assert ephemeral.stat().st_blocks * 512 < 100 * MB
    assert 2.8 * GB < disks.growth() < 3.1 * GB


def test_making_them_again_makes_them_anew(disks: Disks, base: Path) -> None:
    one = instance()
    made(disks, one, base)
    assert made(disks, one, base)["virtual-size"] == GB
    assert names(disks, one) == ["console.log", "disk", "owner.json"]


def test_what_was_removed_is_gone_and_may_be_removed_again(disks: Disks, base: Path) -> None:
    one = instance()
    made(disks, one, base)
    disks.remove(one.uuid, "hv1", RowHost())
    disks.remove(one.uuid, "hv1", RowHost())
    assert list(disks.path.iterdir()) == []
    assert disks.growth() == 0


@pytest.mark.parametrize("name", ["../base", "/etc", "", "."])
def test_nothing_but_a_uuid_names_a_folder(disks: Disks, base: Path, name: str) -> None:
    with pytest.raises(ValueError, match="UUID"):
        disks.remove(name, "hv1", RowHost())
    assert base.exists()


def test_an_image_over_the_flavors_disk_is_refused_before_a_disk_is_made(disks: Disks, tmp_path: Path) -> None:
    qemu_img("create", "-q", "-f", "qcow2", tmp_path / "large", "2G")
    one = instance(root_gb=1)
    with pytest.raises(ImageUnacceptable, match="virtual size 2147483648 bytes > root disk 1 GB"):
        Base.of(one, tmp_path / "large")
    assert Base.of(instance(root_gb=0), tmp_path / "large").virtual_size == 2 * GB


def test_an_image_that_claims_to_be_larger_than_the_whole_disk(disks: Disks, base: Path) -> None:
    huge = Base(path=base, disk_format="qcow2", virtual_size=1 << 60)
    one = instance(root_gb=0)
    with pytest.raises(HardwareNotOffered, match="larger than the host's disk, and flavor m sets no other size"):
        disks.make(one, huge, "hv1", 1)
    assert not (disks.path / one.uuid).exists()
    disks.make(instance(root_gb=1), huge, "hv1", 1)


def test_a_failed_program_is_told_in_its_words_and_leaves_nothing(disks: Disks, tmp_path: Path) -> None:
    one = instance()
    base = tmp_path / "base"
    base.touch()
    with pytest.raises(HypervisorUnavailable, match=r"qemu-img: .*nonsense"):
        disks.make(one, Base(path=base, disk_format="nonsense", virtual_size=GB), "hv1", 1)
    with pytest.raises(HypervisorUnavailable, match=r"Base image .*gone is missing"):
        disks.make(one, Base(path=tmp_path / "gone", disk_format="qcow2", virtual_size=GB), "hv1", 1)
    assert names(disks, one) == ["console.log", "owner.json"]


def test_disks_on_a_full_disk(small_disk: Path, base: Path) -> None:
    disks, one = Disks(small_disk), instance(swap=64, ephemeral_gb=1)
    filler = small_disk / "filler"
    filler.write_bytes(b"x" * (small_disk_free(small_disk) - 300 * 1024))
    with pytest.raises(DiskFull, match="No space left on device"):
        disks.make(one, Base.of(one, base), "hv1", 1)
    assert all(not name.endswith(".part") for name in names(disks, one))
    disks.remove(one.uuid, "hv1", RowHost())
    assert list(small_disk.iterdir()) == [filler]


def small_disk_free(folder: Path) -> int:
    return Disks(folder).usage()[2]


def test_an_image_on_a_full_disk(small_disk: Path) -> None:
    data = b"data" * MB
    with ImageServer(data) as server:
        images = ImageCache(conf(small_disk, server.url))
        # Without its size nobody can tell in advance.
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
        image_format.inspect(path, "qcow2")


@pytest.mark.parametrize(
    "how", [(), ("-c",), ("-o", "compat=0.10"), ("-o", "cluster_size=512"), ("-o", "compression_type=zstd", "-c")]
)
def test_what_qemu_makes_is_accepted_and_cut_in_half_refused(tmp_path: Path, how: tuple[str, ...]) -> None:
    raw, path = tmp_path / "raw", tmp_path / "image"
    raw.write_bytes(bytes(range(256)) * 4096 * 3)
    qemu_img("convert", "-f", "raw", "-O", "qcow2", *how, raw, path)
    assert image_format.inspect(path, "qcow2").virtual_size == 3 * MB
    if "-c" not in how:
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        with pytest.raises(ImageUnacceptable, match="truncated"):
            image_format.inspect(path, "qcow2")


def test_the_guest_image_is_accepted(guest_image: Path) -> None:
    assert image_format.inspect(guest_image, "qcow2").virtual_size > 0
