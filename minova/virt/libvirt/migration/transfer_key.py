"""Gives QEMU's programs the pre-shared key of one move, in a folder that they inherit open and that no other user can read."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from minova.objects.servers.disk_export import TransferKey
from minova.virt import programs

# The name that QEMU looks for.
_FILE = "keys.psk"


def make_folder(key: TransferKey, *, as_nobody: bool) -> Path:
    """Returns a new folder with the key. `as_nobody`: the program that reads it has no rights."""
    folder = Path(tempfile.mkdtemp(prefix="minova-move-"))
    with os.fdopen(os.open(folder / _FILE, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(f"{key.identity}:{key.secret}\n")
    if as_nobody:
        programs.let_read(folder)
    return folder


@contextmanager
def opened(folder: Path) -> Iterator[int]:
    """Yields the open folder, for a program that inherits it."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield handle
    finally:
        os.close(handle)


def credentials(handle: int, endpoint: str, key: TransferKey) -> str:
    """Returns the argument of QEMU's option `--object` for this key."""
    name = f",username={key.identity}" if endpoint == "client" else ""
    return f"tls-creds-psk,id=tls,endpoint={endpoint},dir=/proc/self/fd/{handle}{name}"
