"""Base images leave the cache when no disk stands on them and no build has asked for them in a while."""

import os
import threading
from pathlib import Path

import pytest

from minova.compute.images.cached_files import locked
from minova.compute.images.sweep import GRACE, sweep

NOW = 1_700_000_000.0
NAME = "ab" * 32


def base(folder: Path, age: float, *suffixes: str, name: str = NAME) -> None:
    """Its file and those beside it, the base itself older by a day: it is never written again."""
    for suffix in ("", *suffixes):
        path = folder / f"{name}{suffix}"
        path.write_bytes(b"x")
        at = NOW - age - (0 if suffix else 86400 * bool(suffixes))
        os.utime(path, (at, at))


@pytest.mark.parametrize(
    ("age", "minimum", "in_use", "removed"),
    [
        (86400, 86400, (), True),
        (86399, 86400, (), False),
        (10**7, 86400, (NAME,), False),
        (GRACE - 1, 0, (), False),
        (GRACE, 0, (), True),
    ],
)
def test_a_base_goes_when_it_is_unused_and_old_enough(
    tmp_path: Path, age: float, minimum: float, in_use: tuple[str, ...], removed: bool
) -> None:
    base(tmp_path, age, ".json")
    assert sweep(tmp_path, in_use, minimum, NOW) == ((NAME,) if removed else ())
    left = {path.name for path in tmp_path.iterdir() if path.is_file()}
    assert left == (set() if removed else {NAME, f"{NAME}.json"})


@pytest.mark.parametrize("suffix", [".part", ".part.part"])
def test_leavings_of_a_download_or_a_copy_that_was_killed_go_too(tmp_path: Path, suffix: str) -> None:
    (tmp_path / f"{NAME}{suffix}").write_bytes(b"half")
    os.utime(tmp_path / f"{NAME}{suffix}", (NOW - 90000, NOW - 90000))
    assert sweep(tmp_path, (), 86400, NOW) == (NAME,)
    assert [path for path in tmp_path.iterdir() if path.is_file()] == []


def test_bug_image_that_came_slowly_stopped_the_sweep_of_all_others(tmp_path: Path) -> None:
    other = "cd" * 32
    base(tmp_path, 10**7)
    base(tmp_path, 10**7, name=other)
    done: list[tuple[str, ...]] = []
    sweeping = threading.Thread(target=lambda: done.append(sweep(tmp_path, (), 0, NOW)), daemon=True)
    with locked(tmp_path, NAME):
        sweeping.start()
        sweeping.join(20)
        assert done == [(other,)]
    assert sweep(tmp_path, (), 0, NOW) == (NAME,)


def test_what_is_no_base_is_left_alone(tmp_path: Path) -> None:
    for name in ("notes.txt", "ab" * 10, f"{NAME}.qcow2"):
        base(tmp_path, 10**7, name=name)
    before = sorted(path.name for path in tmp_path.iterdir())
    assert sweep(tmp_path, (), 0, NOW) == ()
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_a_cache_that_was_never_used(tmp_path: Path) -> None:
    assert sweep(tmp_path / "_base", (), 0, NOW) == ()
