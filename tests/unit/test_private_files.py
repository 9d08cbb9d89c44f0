"""Files of a service are its own user's alone."""

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from minova import private_files


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_new_folders_are_closed_to_others_whatever_the_umask(tmp_path: Path) -> None:
    private_files.make_folder(tmp_path / "state" / "instances")
    assert (mode(tmp_path / "state"), mode(tmp_path / "state" / "instances")) == (0o750, 0o750)


def test_an_existing_folder_keeps_its_mode(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    private_files.make_folder(tmp_path)
    assert mode(tmp_path) == 0o755


def test_a_file_in_the_place_of_a_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "state").touch()
    with pytest.raises(FileExistsError):
        private_files.make_folder(tmp_path / "state")


def test_what_an_earlier_release_left_open_is_closed(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    database = tmp_path / "minova.sqlite"
    database.touch()
    database.chmod(0o664)
    private_files.close_to_others([tmp_path, database, tmp_path / "absent"])
    assert (mode(tmp_path), mode(database)) == (0o750, 0o660)


def test_bug_files_in_a_closed_folder_were_a_warning_each(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(path: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "lstat", refuse)
    private_files.close_to_others([Path("/var/lib/minova")])
    assert caplog.messages == []


def test_a_folder_for_all_users_and_the_target_of_a_link_keep_their_modes(tmp_path: Path) -> None:
    shared, target = tmp_path / "shared", tmp_path / "target"
    for folder, folder_mode in ((shared, 0o1777), (target, 0o755)):
        folder.mkdir()
        folder.chmod(folder_mode)
    (tmp_path / "link").symlink_to(target)
    private_files.close_to_others([shared, tmp_path / "link"])
    assert (mode(shared), mode(target)) == (0o1777, 0o755)


@pytest.mark.parametrize("program", ["minova-standalone", "minova-manage"])
def test_a_plain_start_makes_private_files_under_any_umask(program: str, tmp_path: Path) -> None:
    script = (
        "import os, sys; from pathlib import Path; from minova.db import upgrade\n"
        "upgrade.upgrade = lambda url: Path('made').touch() or sys.exit(0)\n"
        "from minova.cmd import manage, standalone\n"
        f"{program.removeprefix('minova-')}.main()\n"
    )
    words = ["--state-dir", str(tmp_path)] if program == "minova-standalone" else ["db", "upgrade"]
    environment = dict(os.environ) | {"PYTHONPATH": str(Path.cwd())}
    command = ["sh", "-c", 'umask 0; exec "$@"', "sh", sys.executable, "-c", script, *words]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    assert (tmp_path / "made").exists(), done.stderr
    assert mode(tmp_path / "made") == 0o600


def test_a_configuration_file_that_all_users_can_read_is_noticed(tmp_path: Path) -> None:
    file = tmp_path / "minova.conf"
    assert not private_files.readable_by_others(file)
    file.touch()
    file.chmod(0o640)
    assert not private_files.readable_by_others(file)
    file.chmod(0o644)
    assert private_files.readable_by_others(file)
