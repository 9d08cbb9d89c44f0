"""Runs a command as another user who may reach some paths, although folders above them are closed to that user: a clone may stand in a
private home.

    command(words, keep=[...], uid=...)    # the words that start it

It runs in a mount namespace of its own. There an empty folder, which all users may enter, stands in for the topmost closed folder; in it
only the kept paths are mounted, at their places.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Starts a program of this folder by its path, in a mount namespace of its own.
ENTER = ("env", f"PYTHONPATH={ROOT}", "unshare", "--mount", "--propagation=private", sys.executable, "-P")
_LIBC = ctypes.CDLL(None, use_errno=True)
_MS_BIND = 4096


def command(words: Iterable[str], *, keep: Iterable[Path], uid: int) -> list[str]:
    """`words` start as root and become the user `uid` themselves."""
    return [*ENTER, __file__, f"--uid={uid}", *(f"--keep={path}" for path in keep), "--", *words]


def checked(result: int, what: str) -> None:
    """Raises OSError if a function of libc returned an error."""
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)


def mount(source: str, target: str, kind: str | None = None, flags: int = 0, data: str | None = None) -> None:
    words = [None if word is None else word.encode() for word in (source, target, kind)]
    checked(_LIBC.mount(*words, ctypes.c_ulong(flags), None if data is None else data.encode()), target)


def bind(source: str, target: Path) -> None:
    mount(source, str(target), flags=_MS_BIND)


class KeptPaths:
    """Made before anything is mounted over these paths; `show` afterwards."""

    def __init__(self, paths: Iterable[Path], uid: int) -> None:
        self._handles = {path: os.open(path, os.O_PATH) for path in paths}
        self._uid = uid

    def show(self) -> None:
        """Mount the paths at their places, where they are missing or closed to the user."""
        for path in self._handles:
            closed = next((each for each in (*reversed(path.parents), path) if self._is_closed(each)), None)
            if closed is not None:
                mount("none", str(closed), "tmpfs", data="mode=755")
        for path, handle in self._handles.items():
            kept = Path(f"/proc/self/fd/{handle}")
            if self._is_closed(kept):
                # A mount of it would be as closed as the folder is.
                path.mkdir(parents=True, exist_ok=True)
                for child in kept.iterdir():
                    _show(child, path / child.name)
            else:
                _show(kept, path)
            os.close(handle)

    def _is_closed(self, path: Path) -> bool:
        """Whether the user may not enter the folder. Folders of the user's groups do not count as open."""
        if not path.is_dir():
            return False
        status = path.stat()
        return not status.st_mode & (0o100 if status.st_uid == self._uid else 0o001)


def _show(source: Path, place: Path) -> None:
    if source.is_symlink() and source.parent != Path("/proc/self/fd"):
        place.symlink_to(source.readlink())
        return
    if source.is_dir():
        place.mkdir(parents=True, exist_ok=True)
    else:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()
    bind(str(source), place)


def main() -> None:
    parser = argparse.ArgumentParser(description="Run a command in a mount namespace where a user reaches some paths.")
    parser.add_argument("--keep", type=Path, action="append", default=[])
    parser.add_argument("--uid", type=int, required=True)
    parser.add_argument("words", nargs="+")
    options = parser.parse_args()
    KeptPaths(options.keep, options.uid).show()
    os.execvp(options.words[0], options.words)


if __name__ == "__main__":
    main()
