"""What a SQLite database keeps for a disk that is full."""

import shutil
from pathlib import Path

from minova.db.connections.ballast import Ballast

MB = 1 << 20


def test_it_takes_real_blocks_and_gives_them_up_once(tmp_path: Path) -> None:
    ballast = Ballast(tmp_path / "minova.sqlite", size=MB)
    assert ballast.hold()
    assert ballast.path.stat().st_blocks * 512 >= MB
    assert ballast.path.stat().st_mode & 0o777 == 0o600
    assert ballast.hold()
    assert ballast.give_up()
    assert not ballast.give_up()
    assert not ballast.path.exists()


def test_it_is_not_made_where_it_would_take_the_last_room(tmp_path: Path) -> None:
    free = shutil.disk_usage(tmp_path).free
    assert not Ballast(tmp_path / "minova.sqlite", size=MB, margin=free).hold()
    assert list(tmp_path.iterdir()) == []


def test_half_of_it_is_made_whole(tmp_path: Path) -> None:
    ballast = Ballast(tmp_path / "minova.sqlite", size=MB)
    ballast.path.write_bytes(b"x" * 4096)
    assert ballast.hold()
    assert ballast.path.stat().st_size == MB


def test_it_needs_no_folder(tmp_path: Path) -> None:
    ballast = Ballast(tmp_path / "absent" / "minova.sqlite", size=MB)
    assert not ballast.hold()
    assert not ballast.give_up()
