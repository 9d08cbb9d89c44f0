"""Ephemeral disks and swap, as flavors give them and as requests divide them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minova.errors import BadRequest
from minova.objects.catalogue.flavor import Flavor, LocalDisk, flavor_disks
from minova.objects.guests.local_disks import (
    local_disks,
    requested_disks,
    requested_root_tag,
    root_tag_of,
    to_metadata,
)
from minova.objects.servers.instance import Instance

FLAVOR = Flavor(flavorid="f", name="f", vcpus=1, memory_mb=1, root_gb=1, ephemeral_gb=3, swap=512)
ROOT = {"source_type": "image", "destination_type": "local", "boot_index": 0, "uuid": "image"}


def blank(**more: Any) -> dict[str, Any]:
    return {"source_type": "blank", "destination_type": "local", "boot_index": -1, **more}


def requested(*mappings: dict[str, Any], most: int = -1, flavor: Flavor = FLAVOR) -> tuple[LocalDisk, ...] | None:
    return requested_disks(mappings, "image", flavor, most)


EPHEMERAL, SWAP = LocalDisk(size_mb=3072), LocalDisk(size_mb=512, guest_format="swap")


def test_flavor_gives_one_ephemeral_disk_and_swap() -> None:
    assert flavor_disks(FLAVOR) == (EPHEMERAL, SWAP)
    assert flavor_disks(Flavor(flavorid="f", name="f", vcpus=1, memory_mb=1, root_gb=1)) == ()


@pytest.mark.parametrize(
    ("mappings", "disks"),
    [
        ([ROOT], None),
        ([blank()], (EPHEMERAL, SWAP)),
        (
            [ROOT, blank(volume_size=1), blank(volume_size="2", guest_format="ext3")],
            (LocalDisk(size_mb=1024), LocalDisk(size_mb=2048, guest_format="ext3"), SWAP),
        ),
        ([blank(guest_format="swap", volume_size=100)], (EPHEMERAL, LocalDisk(size_mb=100, guest_format="swap"))),
        ([blank(guest_format="swap")], (EPHEMERAL, SWAP)),
        ([{**ROOT, "tag": "system"}], None),
        # Clients say the size of the root disk though it is the flavor's.
        ([{**ROOT, "volume_size": 5, "device_name": "/dev/vda"}], None),
        ([blank(volume_size=1, tag="x")], (LocalDisk(size_mb=1024, tag="x"), SWAP)),
        ([blank(volume_size=1, disk_bus="scsi", boot_index=None)], (LocalDisk(size_mb=1024, bus="scsi"), SWAP)),
        (
            [blank(volume_size=1, boot_index=1, device_name="/dev/vdz", device_type="disk")],
            (LocalDisk(size_mb=1024), SWAP),
        ),
    ],
)
def test_division(mappings: list[dict[str, Any]], disks: tuple[LocalDisk, ...] | None) -> None:
    assert requested(*mappings) == disks


@pytest.mark.parametrize(
    ("mappings", "words"),
    [
        ([blank(volume_size=2), blank(volume_size=2)], "Ephemeral disks requested are larger"),
        ([blank(), blank()], "Ephemeral disks requested are larger"),
        ([blank(guest_format="swap", volume_size=513)], "Swap drive requested is larger"),
        ([blank(guest_format="swap", volume_size=1), blank(guest_format="swap", volume_size=1)], "More than one swap"),
        ([ROOT, ROOT], "Boot sequence"),
        ([blank(boot_index=0)], "Boot sequence"),
        ([blank(boot_index=2)], "Boot sequence"),
        ([blank(boot_index="first")], r"block_device_mapping_v2.boot_index. Value: first"),
        ([blank(guest_format="xfs")], r"block_device_mapping_v2.guest_format. Value: xfs"),
        ([blank(volume_size=-1)], r"block_device_mapping_v2.volume_size. Value: -1"),
        ([blank(volume_size="9" * 5000)], r"block_device_mapping_v2.volume_size"),
        ([blank(disk_bus="lxc")], r"block_device_mapping_v2.disk_bus. Value: lxc"),
        ([blank(disk_bus=["scsi"])], r"block_device_mapping_v2.disk_bus"),
        ([blank(device_type="cdrom")], r"block_device_mapping_v2.device_type. Value: cdrom"),
        ([blank(delete_on_termination=False)], r"block_device_mapping_v2.delete_on_termination"),
        ([blank(uuid="x")], r"block_device_mapping_v2.uuid"),
        ([blank(tag="a/b")], "block_device_mapping_v2.tag. Value: a/b"),
        ([{**ROOT, "tag": "t" * 61}], "1 to 60 characters"),
        ([blank(serial="x")], "'serial' is not served"),
        ([{"source_type": "volume", "destination_type": "volume", "uuid": "v"}], "There is no volume service"),
        ([{"source_type": "blank", "destination_type": "volume"}], "There is no volume service"),
        ([{**ROOT, "volume_size": "large"}], r"block_device_mapping_v2.volume_size. Value: large"),
        ([{**ROOT, "boot_index": -1}], "There is no volume service"),
        (
            [{"source_type": "image", "destination_type": "local", "uuid": "other", "boot_index": 1}],
            "no volume service",
        ),
    ],
)
def test_what_is_refused(mappings: list[dict[str, Any]], words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        requested(*mappings)


def test_no_more_local_disks_than_the_limit_with_the_root_disk() -> None:
    two = (blank(volume_size=1), blank(volume_size=1))
    with pytest.raises(BadRequest, match=r"4 > 3 \(max_local_block_devices\)"):
        requested(*two, most=3)
    assert len(requested(*two, most=4) or ()) == 3


def test_flavor_without_the_disk_has_nothing_to_divide() -> None:
    bare = Flavor(flavorid="f", name="bare", vcpus=1, memory_mb=1, root_gb=1)
    for mapping in (blank(), blank(guest_format="swap")):
        with pytest.raises(BadRequest, match="the flavor bare has no"):
            requested(mapping, flavor=bare)


def test_server_keeps_its_division() -> None:
    disks = (LocalDisk(size_mb=1024, guest_format="ext2"), LocalDisk(size_mb=1024, bus="scsi"), SWAP)
    plain = Instance(uuid="u", display_name="x", flavor=FLAVOR)
    assert local_disks(plain) == (EPHEMERAL, SWAP)
    assert local_disks(Instance(uuid="u", display_name="x", flavor=FLAVOR, system_metadata=to_metadata(disks))) == disks


def test_tag_of_the_root_disk_is_kept_with_and_without_a_division() -> None:
    root = {**ROOT, "tag": "system"}
    assert requested_root_tag([blank(tag="x"), root], "image") == "system"
    assert requested_root_tag([blank(tag="x"), ROOT], "image") is None
    for disks in ((), (EPHEMERAL,)):
        kept = Instance(uuid="u", display_name="x", flavor=FLAVOR, system_metadata=to_metadata(disks, "system"))
        assert root_tag_of(kept) == "system"
        assert local_disks(kept) == (disks or (EPHEMERAL, SWAP))


VALUES = st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=6), st.lists(st.integers(), max_size=1))
KEYS = st.sampled_from(
    ["source_type", "volume_size", "guest_format", "boot_index", "disk_bus", "device_type", "uuid", "tag"]
)


@given(st.lists(st.dictionaries(KEYS, VALUES), max_size=3))
def test_any_mapping_is_divided_within_the_flavor_or_refused(mappings: list[dict[str, Any]]) -> None:
    try:
        disks = requested(*(blank(**mapping) for mapping in mappings))
    except BadRequest:
        return
    for is_swap, most in ((False, 3072), (True, 512)):
        assert sum(disk.size_mb for disk in disks or () if disk.is_swap is is_swap) <= most


@pytest.mark.parametrize(("kind", "named"), [({}, "ephemeral disk"), ({"guest_format": "swap"}, "swap")])
def test_a_flavor_without_the_disk_is_named(kind: dict[str, str], named: str) -> None:
    bare = Flavor(flavorid="f", name="bare", vcpus=1, memory_mb=1, root_gb=1)
    with pytest.raises(BadRequest, match=f"the flavor bare has no {named}"):
        requested(blank(**kind), flavor=bare)


def test_no_limit_is_minus_one_and_none_is_nought() -> None:
    assert requested(blank(volume_size=1), most=-1) == (LocalDisk(size_mb=1024), SWAP)
    for most in (0, 1, 2):
        with pytest.raises(BadRequest, match=rf"3 > {most} \(max_local_block_devices\)"):
            requested(blank(volume_size=1), most=most)
    bare = Flavor(flavorid="f", name="bare", vcpus=1, memory_mb=1, root_gb=1)
    assert requested(ROOT, most=1, flavor=bare) is None
    with pytest.raises(BadRequest, match=r"1 > 0 \(max_local_block_devices\)"):
        requested(ROOT, most=0, flavor=bare)


@pytest.mark.parametrize(
    ("mapping", "field", "shown"),
    [
        ({"volume_size": "x" * 99}, "volume_size", "x" * 64),
        ({"tag": "/" * 99}, "tag", "/" * 64),
        ({"guest_format": "y" * 99}, "guest_format", "y" * 64),
    ],
)
def test_a_refusal_repeats_the_beginning_of_a_value(mapping: dict[str, Any], field: str, shown: str) -> None:
    with pytest.raises(BadRequest, match=rf"block_device_mapping_v2.{field}. Value: {shown}\."):
        requested(blank(**mapping))
    if field != "guest_format":
        with pytest.raises(BadRequest, match=rf"block_device_mapping_v2.{field}. Value: {shown}\."):
            requested({**ROOT, **mapping})


LARGE = Flavor(flavorid="f", name="f", vcpus=1, memory_mb=1, root_gb=1, ephemeral_gb=2**32, swap=2**32)


@pytest.mark.parametrize(
    ("size", "fine"),
    [
        *((2147483647, True), ("2147483647", True), (2147483648, False), ("00002147483647", False)),
        *(("\u0663", False), (True, False), (1.5, False), ("", True), (None, True), (0, True)),
    ],
)
def test_a_size_is_a_whole_number_of_31_bits(size: Any, fine: bool) -> None:
    if fine:
        assert requested(blank(volume_size=size), flavor=LARGE) is not None
        assert requested({**ROOT, "volume_size": size}, flavor=LARGE) is None
        return
    for mapping in (blank(volume_size=size), {**ROOT, "volume_size": size}):
        with pytest.raises(BadRequest, match=r"block_device_mapping_v2\.volume_size"):
            requested(mapping, flavor=LARGE)


@pytest.mark.parametrize(
    ("indices", "fine"),
    [
        *(([1, 2], True), ([2, 1], True), (["1", -1, None, "none", ""], True), ([1, 1], False), ([1, 3], False)),
        *(([True], False), (["1x"], False), (["\u0663"], False), (["9" * 11], False), ([-(10**9)], True)),
    ],
)
def test_boot_devices_are_in_order(indices: list[Any], fine: bool) -> None:
    mappings = [blank(boot_index=index, volume_size=1) for index in indices]
    wide = Flavor(flavorid="f", name="f", vcpus=1, memory_mb=1, root_gb=1, ephemeral_gb=99)
    if fine:
        assert len(requested(*mappings, flavor=wide) or ()) == len(indices)
        return
    with pytest.raises(BadRequest, match=r"Boot sequence|boot_index"):
        requested(*mappings, flavor=wide)


@pytest.mark.parametrize("value", [True, "true", " On ", "1", "YES", 1])
def test_what_is_true(value: Any) -> None:
    assert requested(blank(delete_on_termination=value)) is not None
    assert requested({**ROOT, "delete_on_termination": value}) is None
    with pytest.raises(BadRequest, match="no_device"):
        requested(blank(no_device=value))


def test_what_a_disk_may_lack() -> None:
    """The fields that have a default."""
    assert requested({"source_type": "blank"}) == (EPHEMERAL, SWAP)
    assert requested(blank(no_device=False, uuid="", guest_format="")) == (EPHEMERAL, SWAP)
    assert requested(blank(guest_format="ext2", tag="t" * 60)) == (
        LocalDisk(size_mb=3072, guest_format="ext2", tag="t" * 60),
        SWAP,
    )
    assert requested(blank(volume_size=3), blank(guest_format="swap", volume_size=512)) == (EPHEMERAL, SWAP)
