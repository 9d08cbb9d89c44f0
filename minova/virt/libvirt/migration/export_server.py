"""Serves the files of a guest that is off to the host to which it moves: read-only, over TLS with a key of this move alone.

qemu-storage-daemon serves the bytes of each file, so that only what the guest has written goes over the network, not its image. It
holds QEMU's locks: no guest starts on a disk that is being served. It ends with this process.
"""

import logging
import os
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import NamedTuple

from minova.errors import HypervisorError
from minova.objects.servers.disk_export import TransferKey
from minova.virt import programs
from minova.virt.libvirt.migration import network_sockets, transfer_key

LOG = logging.getLogger(__name__)
PROGRAM, PACKAGE = "qemu-storage-daemon", "qemu-system-common"
START_WITHIN, POLL = 30.0, 0.02
# $0: the folder with the key, which QEMU reads at each connection. $1: the end of a pipe to which only this process can write, so that
# the end of this process, however it comes, ends the program. It waits for each of its processes: all of them hold the socket, and so
# the port.
_ENDS_WITH_US = """\
pipe=$1; shift
"$@" & program=$!
(trap 'kill $!; wait $!; exit' TERM; cat /proc/self/fd/$pipe & wait $!; kill $program) >/dev/null 2>&1 & watcher=$!
wait $program; code=$?
kill $watcher; wait $watcher
rm -rf -- "$0"
exit $code
"""
_READY = "pid"


class ExportedDisk(NamedTuple):
    """`name` is that of the export."""

    name: str
    path: Path


class _Process:
    """A program that ends with this process, or when it is ended. Its `keys` are removed then.

    Its first complaints are kept, and others dropped: anybody who connects without a key makes one, and the program never waits for a
    reader.
    """

    def __init__(self, words: Sequence[str], keys: Path, handles: Sequence[int]) -> None:
        reading, self._writing = os.pipe2(os.O_CLOEXEC)
        self._complaints, complaining = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            self._process = subprocess.Popen(
                ["sh", "-c", _ENDS_WITH_US, str(keys), str(reading), *words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=complaining,
                env={"LC_ALL": "C", "PATH": programs.PATH},
                cwd="/",
                pass_fds=(*handles, reading),
            )
        except BaseException:
            os.close(self._writing)
            os.close(self._complaints)
            raise
        finally:
            os.close(reading)
            os.close(complaining)

    def runs(self) -> bool:
        return self._process.poll() is None

    def end(self) -> str:
        """Returns what the program has complained about."""
        os.close(self._writing)
        self._process.wait()
        complaint = b""
        with suppress(BlockingIOError):
            complaint = os.read(self._complaints, 4000)
        os.close(self._complaints)
        return " ".join(complaint.decode(errors="replace").split())[:1000]


class _Server(NamedTuple):
    process: "_Process"
    port: int
    key: TransferKey
    files: tuple[ExportedDisk, ...]


class ExportServers:
    """The servers of this process, by migration. Safe for threads."""

    def __init__(self, address: str, ports: tuple[int, int]) -> None:
        self._address = address
        self._ports = ports
        self._lock = threading.Lock()
        self._servers: dict[str, _Server] = {}

    def start(self, migration_uuid: str, key: TransferKey, files: Sequence[ExportedDisk], group: int | None) -> int:
        """Returns the port. `group`: that of the files, if the program shall run without the rights of root. Idempotent.

        Raises HypervisorError if no port is free, if this host does not have the address, or if the program does not start.
        """
        with self._lock:
            server = self._servers.get(migration_uuid)
            if server is not None and server.process.runs() and (server.key, server.files) == (key, (*files,)):
                return server.port
            self._end(migration_uuid)
            for port in range(self._ports[0], self._ports[1] + 1):
                process = self._started(port, key, files, group)
                if process is not None:
                    self._servers[migration_uuid] = _Server(process, port, key, (*files,))
                    return port
        raise HypervisorError(f"No port is free to serve the disks of a guest: {self._ports[0]}:{self._ports[1]}")

    def stop(self, migration_uuid: str) -> None:
        with self._lock:
            self._end(migration_uuid)

    def stop_folder(self, folder: Path) -> None:
        """Serve no file of this folder any more. Idempotent."""
        with self._lock:
            for migration_uuid, server in tuple(self._servers.items()):
                if any(file.path.parent == folder for file in server.files):
                    self._end(migration_uuid)

    def close(self) -> None:
        with self._lock:
            for migration_uuid in tuple(self._servers):
                self._end(migration_uuid)

    def _end(self, migration_uuid: str) -> None:
        server = self._servers.pop(migration_uuid, None)
        if server is not None:
            server.process.end()

    def _started(
        self, port: int, key: TransferKey, files: Sequence[ExportedDisk], group: int | None
    ) -> _Process | None:
        """Returns the program once it serves; None if the port is taken."""
        listening = network_sockets.listen(self._address, port)
        if listening is None:
            return None
        with ExitStack() as stack:
            stack.enter_context(listening)
            keys = transfer_key.make_folder(key, as_nobody=group is not None)
            folder = stack.enter_context(transfer_key.opened(keys))
            handles = [os.open(file.path, os.O_RDONLY | os.O_CLOEXEC) for file in files]
            for handle in handles:
                stack.callback(os.close, handle)
            words = [
                PROGRAM,
                *("--object", transfer_key.credentials(folder, "server", key)),
                *("--nbd-server", f"addr.type=fd,addr.str={listening.fileno()},tls-creds=tls"),
                *_exports(files, handles),
                *("--pidfile", f"/proc/self/fd/{folder}/{_READY}"),
            ]
            limits = programs.RunLimits(cpu=24 * 3600, open_files=256 + 2 * len(files))
            limited = programs.limited(words, limits, drop_rights=group is not None, group=group or programs.NOBODY)
            return _ready(_Process(limited, keys, (folder, listening.fileno(), *handles)), keys / _READY)


def _exports(files: Sequence[ExportedDisk], handles: Sequence[int]) -> Iterator[str]:
    for number, (file, handle) in enumerate(zip(files, handles, strict=True)):
        yield from ("--blockdev", f"driver=file,node-name=file{number},filename=/proc/self/fd/{handle},read-only=on")
        yield from ("--export", f"type=nbd,id=export{number},node-name=file{number},name={file.name},writable=off")


def _ready(process: _Process, ready: Path) -> _Process:
    """Returns the program once it serves. Raises HypervisorError if it fails."""
    until = time.monotonic() + START_WITHIN
    while not ready.exists():
        if not process.runs() or time.monotonic() >= until:
            complaint = process.end()
            raise HypervisorError(f"{PROGRAM}: {complaint or f'not ready within {START_WITHIN:g} s'}")
        time.sleep(POLL)
    return process
