"""A file is inspected once, until it is another."""

import os
from pathlib import Path

import pytest

from minova.errors import ImageUnacceptable
from minova.image_format import inspected_files
from minova.image_format.inspected_files import inspect_once, remember
from minova.image_format.inspection import ImageFacts
from tests.unit.image_format import qcow2


def test_the_same_file_is_looked_at_once(tmp_path: Path) -> None:
    path = qcow2.write(tmp_path / "i")
    facts = inspect_once(path, "qcow2")
    when = path.stat().st_mtime_ns
    with path.open("r+b") as file:
        file.write(b"\0" * 4)  # no qcow2 any more
    os.utime(path, ns=(when, when))
    assert inspect_once(path, "qcow2") == facts
    os.utime(path, ns=(when, when + 1))
    with pytest.raises(ImageUnacceptable, match="declared as qcow2"):
        inspect_once(path, "qcow2")


def test_a_verdict_as_one_format_is_none_as_another(tmp_path: Path) -> None:
    path = qcow2.write(tmp_path / "i")
    inspect_once(path, "qcow2")
    with pytest.raises(ImageUnacceptable, match="declared as raw"):
        inspect_once(path, "raw")


def test_a_rename_keeps_the_verdict(tmp_path: Path) -> None:
    path = qcow2.write(tmp_path / "i")
    remember(path, ImageFacts(disk_format="qcow2", virtual_size=4711))
    assert inspect_once(path.rename(tmp_path / "j"), "qcow2").virtual_size == 4711


def test_few_verdicts_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "i"
    path.write_bytes(b"1")
    remember(path, ImageFacts(disk_format="raw", virtual_size=4711))
    for number in range(inspected_files.MAX_FILES):
        path.write_bytes(b"1" * (number + 2))
        inspect_once(path, "raw")
    path.write_bytes(b"1")
    assert inspect_once(path, "raw").virtual_size == 1
