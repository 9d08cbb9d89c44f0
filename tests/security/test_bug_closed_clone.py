"""A clone may stand in a folder that other users may not enter, such as a private home, or be such a folder itself."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers import kept_paths
from tests.servers.libvirtd import CLIENT_ID
from tests.servers.private_server import program

# Mounts $1 at $2, then runs the tests there.
_RUN_THERE = """\
set -eu
mount --bind "$1" "$2"
cd "$2"
exec "$3" -m pytest -p no:cacheprovider -p no:randomly tests/security/test_root_files.py
"""


def as_client(keep: list[Path], *words: str) -> subprocess.CompletedProcess[str]:
    become = [program("setpriv", "util-linux"), f"--reuid={CLIENT_ID}", f"--regid={CLIENT_ID}", "--clear-groups"]
    command = kept_paths.command([*become, *words], keep=keep, uid=CLIENT_ID)
    return subprocess.run(command, capture_output=True, text=True, timeout=120, cwd="/")


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """In a closed folder, beside a file that is not of the clone."""
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    (closed / "secret").write_text("secret")
    clone_folder = closed / "clone"
    (clone_folder / "package").mkdir(parents=True)
    (clone_folder / "package" / "file").write_text("code")
    (clone_folder / "link").symlink_to("package/file")
    return clone_folder


@pytest.mark.parametrize("mode", [0o755, 0o700])
def test_a_user_reaches_what_is_kept_and_nothing_beside_it(clone: Path, mode: int) -> None:
    clone.chmod(mode)
    files = [str(clone / "package" / "file"), str(clone / "link")]
    assert as_client([clone], "cat", *files).stdout == "codecode"
    done = as_client([clone], "cat", str(clone.parent / "secret"))
    assert (done.returncode, done.stdout) == (1, "")
    # Outside of the namespace it is as closed as before.
    assert (clone.parent.stat().st_mode & 0o777, clone.stat().st_mode & 0o777) == (0o700, mode)


def test_tests_that_become_another_user_pass_in_a_closed_folder(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    there = tmp_path / "clone"
    there.mkdir()
    # Of the clone, where it has its own.
    python = sys.executable.replace(f"{kept_paths.ROOT}/", f"{there}/", 1)
    words = [str(kept_paths.ROOT), str(there), python]
    done = subprocess.run(
        ["unshare", "--mount", "--propagation=private", "sh", "-c", _RUN_THERE, "sh", *words],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr
    assert " 2 passed" in done.stdout
