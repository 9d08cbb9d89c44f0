"""Fetches one file that another host serves. It has its final name once it is complete and on the disk."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from oslo_utils import units

from minova.concurrency.outside_waits import waiting
from minova.objects.servers.disk_export import DiskExport, ExportedFile, TransferKey
from minova.private_files import sync
from minova.virt import programs
from minova.virt.libvirt.migration import network_sockets, transfer_key

# QEMU counts sizes in sectors.
_SECTOR = 512
# A copy takes as long as it takes, as long as `check` agrees.
_LIMITS = programs.RunLimits(cpu=24 * 3600, within=24 * 3600.0)


def fetch(
    path: Path,
    export: DiskExport,
    file: ExportedFile,
    key: TransferKey,
    finish: Callable[[Path], None],
    check: Callable[[], None],
) -> None:
    """Fetch the file, call `finish` with its temporary name, and rename it. Holes stay holes. Raises as
    `programs.write_with`.
    """
    part = path.with_name(f"{path.name}.part")
    try:
        write(part, export, file, key, check)
        finish(part)
        sync(part)
        part.rename(path)
        sync(path.parent)
    finally:
        part.unlink(missing_ok=True)


def write(path: Path, export: DiskExport, file: ExportedFile, key: TransferKey, check: Callable[[], None]) -> None:
    """Fetch the file straight to this path: after an error a part of it may be there. Raises as `programs.write_with`."""
    # A small file is there before `write_with` calls it for the first time.
    check()
    # A program of a process that was killed may still write to the earlier one.
    path.unlink(missing_ok=True)
    size = -(-file.size // _SECTOR) * _SECTOR
    with path.open("wb") as empty:
        path.chmod(0o600)
        empty.truncate(size)
    if size:
        _copy(path, export, file, key, size, check)
    os.truncate(path, file.size)


def _copy(
    part: Path, export: DiskExport, file: ExportedFile, key: TransferKey, size: int, check: Callable[[], None]
) -> None:
    keys = transfer_key.make_folder(key, as_nobody=os.geteuid() == 0)
    try:
        _convert(part, export, file, key, size, keys, check)
    finally:
        shutil.rmtree(keys)


def _convert(
    part: Path,
    export: DiskExport,
    file: ExportedFile,
    key: TransferKey,
    size: int,
    keys: Path,
    check: Callable[[], None],
) -> None:
    with (
        waiting("the other host of a move") as wait,
        transfer_key.opened(keys) as folder,
        network_sockets.connect(export.address, export.port) as connection,
    ):
        server = f"file.server.type=fd,file.server.str={connection.fileno()}"
        # A console log may have grown since its size was read.
        source = f"driver=raw,size={size},file.driver=nbd,{server},file.export={file.export},file.tls-creds=tls"
        command = [
            *("qemu-img", "convert", "-q", "-n", "-W", "--target-is-zero"),
            *("--object", transfer_key.credentials(folder, "client", key)),
            *("--image-opts", source, "-O", "raw"),
        ]
        limits = programs.RunLimits(cpu=_LIMITS.cpu, within=_LIMITS.within, file_size=size + units.Mi)
        growth = Growth(part, wait.moved)

        def go_on() -> None:
            growth.look()
            check()

        programs.write_with(part, command, limits, inherited=(folder, connection.fileno()), check=go_on)


class Growth:
    """Calls `moved` when another program has written to the file since the last look."""

    def __init__(self, path: Path, moved: Callable[[], None]) -> None:
        self._path = path
        self._moved = moved
        self._seen = self._written()

    def look(self) -> None:
        written = self._written()
        if written != self._seen:
            self._seen = written
            self._moved()

    def _written(self) -> tuple[int, int]:
        status = self._path.stat()
        return status.st_blocks, status.st_mtime_ns
