"""What an image may be, and how each other one is refused."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from minova.errors import ImageUnacceptable
from minova.image_format import inspection
from minova.objects.catalogue.image_fitness import FORMATS
from tests.unit.image_format import qcow2


def test_a_sound_qcow2_tells_its_virtual_size(tmp_path: Path) -> None:
    facts = inspection.inspect(qcow2.write(tmp_path / "i", size=7 << 20), "qcow2")
    assert facts == inspection.ImageFacts(disk_format="qcow2", virtual_size=7 << 20)


def test_the_virtual_size_of_a_raw_image_is_its_length(tmp_path: Path) -> None:
    path = tmp_path / "i"
    path.write_bytes(b"\0" * 4096)
    assert inspection.inspect(path, "raw").virtual_size == 4096


def test_a_raw_disk_may_begin_with_a_partition_table(tmp_path: Path) -> None:
    path = tmp_path / "i"
    path.write_bytes(b"\0" * 446 + b"\x80" + b"\0" * 3 + b"\x83" + b"\0" * 59 + b"\x55\xaa" + b"\0" * 4096)
    assert inspection.inspect(path, "raw").disk_format == "raw"


@pytest.mark.parametrize(
    ("lies", "why"),
    [
        ({"backing_offset": 200, "backing_size": 11}, "backing file"),
        ({"incompatible": 1 << 2}, "data_file"),
        ({"incompatible": 1 << 5}, "[Uu]nknown"),
        ({"incompatible": 1 << 60}, "[Uu]nknown"),
        ({"incompatible": 1 << 1}, "marked as corrupt"),
        ({"version": 4}, "version"),
        ({"crypt_method": 2}, "encrypted"),
        ({"size": 0}, "virtual size is 0"),
        ({"cluster_bits": 8}, "clusters of 2\\^8"),
        ({"cluster_bits": 31}, "clusters of 2\\^31"),
        ({"size": 1 << 60}, "1 tables for"),
        ({"l1_size": 1 << 31}, "tables for"),
        ({"l1_offset": 1 << 40}, "truncated"),
        ({"refcount_offset": 1 << 40}, "truncated"),
        ({"l2_entry": 9 << 30}, "truncated"),
        ({"length": 4 * qcow2.CLUSTER}, "truncated"),
        ({"length": 2 * qcow2.CLUSTER + 4}, "truncated"),
        ({"length": 100}, "the file is raw or of no known format"),
        ({"length": 0}, "empty"),
    ],
    ids=str,
)
def test_an_unsafe_or_broken_qcow2_is_refused_and_says_why(tmp_path: Path, lies: dict[str, Any], why: str) -> None:
    with pytest.raises(ImageUnacceptable, match=why):
        inspection.inspect(qcow2.write(tmp_path / "i", **lies), "qcow2")


@pytest.mark.parametrize(
    ("head", "name"),
    [
        (b"QFI\xfb\0\0\0\3", "qcow2"),
        (b"KDMV\1\0\0\0", "vmdk"),
        (b"vhdxfile", "vhdx"),
        (b"conectix", "vhd"),
        (b"QED\0", "qed"),
        (b"LUKS\xba\xbe\0\1", "luks"),
    ],
)
def test_what_qemu_would_read_a_meaning_into_is_not_raw(tmp_path: Path, head: bytes, name: str) -> None:
    path = tmp_path / "i"
    path.write_bytes(head + b"\0" * (2 << 20))
    with pytest.raises(ImageUnacceptable, match=f"declared as raw, but the file is {name}"):
        inspection.inspect(path, "raw")


@pytest.mark.parametrize("declared", ["vmdk", "iso", "", None, "QCOW2", "../raw"])
def test_formats_that_cannot_be_booted_are_named(tmp_path: Path, declared: str | None) -> None:
    with pytest.raises(ImageUnacceptable, match="qcow2, raw"):
        inspection.inspect(qcow2.write(tmp_path / "i"), declared)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=300, deadline=None)
@given(data=st.data())
def test_no_header_makes_the_inspection_fail_in_another_way(tmp_path: Path, data: st.DataObject) -> None:
    good = qcow2.write(tmp_path / "i").read_bytes()
    at = data.draw(st.integers(0, 110))
    patch = data.draw(st.binary(min_size=1, max_size=16))
    (tmp_path / "i").write_bytes(good[:at] + patch + good[at + len(patch) :])
    for declared in FORMATS:
        try:
            facts = inspection.inspect(tmp_path / "i", declared)
        except ImageUnacceptable:
            continue
        assert facts.virtual_size > 0
