"""Gives QEMU's programs the pre-shared key of one move, in a folder that they inherit open and that no other user can read."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from minova.objects.servers.disk_export import TransferKey
from minova.virt import programs

# The names that QEMU looks for.
_FILE, _GROUP_FILE = "keys.psk", "dh-params.pem"
# ffdhe2048 of RFC 7919. Without a group in the folder, QEMU's server looks for a prime of its own at each start, which takes seconds.
_GROUP = """\
-----BEGIN DH PARAMETERS-----
MIIBCAKCAQEA//////////+t+FRYortKmq/cViAnPTzx2LnFg84tNpWp4TZBFGQz
+8yTnc4kmz75fS/jY2MMddj2gbICrsRhetPfHtXV/WVhJDP1H18GbtCFY2VVPe0a
87VXE15/V8k1mE8McODmi3fipona8+/och3xWKE2rec1MKzKT0g6eXq8CrGCsyT7
YdEIqUuyyOP7uWrat2DX9GgdT0Kj3jlN9K5W7edjcrsZCwenyO4KbXCeAvzhzffi
7MA0BM0oNC9hkXL+nOmFg/+OTxIy7vKBg8P+OxtMb61zO7X8vC7CIAXFjvGDfRaD
ssbzSibBsu/6iGtCOGEoXJf//////////wIBAg==
-----END DH PARAMETERS-----
"""


def make_folder(key: TransferKey, *, as_nobody: bool) -> Path:
    """Returns a new folder with the key. `as_nobody`: the program that reads it has no rights."""
    folder = Path(tempfile.mkdtemp(prefix="minova-move-"))
    with os.fdopen(os.open(folder / _FILE, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(f"{key.identity}:{key.secret}\n")
    (folder / _GROUP_FILE).write_text(_GROUP)
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
