"""The identity of this host and of the process that serves it: the file `compute_id`, and a lock that ends with the process.

The identity is kept on the host's own disk, as Nova does since 2023: host names change, and the records of running
guests must not depend on a name.
"""

import contextlib
import fcntl
import os
import socket
import uuid
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
from oslo_config import cfg

from minova.context import RequestContext
from minova.contracts.conductor import ConductorApi
from minova.errors import InvalidConfiguration
from minova.objects.hosts.service import HostIdentity
from minova.private_files import make_folder, replace_file

FILE = "compute_id"
LOCK = "compute.lock"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class LocalIdentity:
    """The identity is written to `state_path`; `folders` are searched for an identity that an operator has put
    there.
    """

    def __init__(
        self,
        state_path: Path,
        folders: Iterable[Path] = (),
        *,
        address: str = "",
        console_addresses: tuple[str, ...] = (),
    ) -> None:
        self.process = str(uuid.uuid4())
        self._state_path = state_path
        self._files = [folder / FILE for folder in dict.fromkeys([*folders, state_path])]
        self._handle: int | None = None
        self._lock_name: str | None = None
        where = f"{socket.gethostname()} ({address})" if address else socket.gethostname()
        self._place = f"{where}, process {os.getpid()}"
        self._console_addresses = console_addresses
        self.compute_id: str | None = None
        self.is_registered = False

    @classmethod
    def of(cls, conf: cfg.ConfigOpts) -> "LocalIdentity":
        """Creates the identity from the configuration. It is searched for beside configuration files, as in Nova, and
        in state_path.
        """
        folders = [Path(name).absolute().parent for name in conf.config_file or ()]
        folders += [Path(name).absolute() for name in conf.config_dir or ()]
        consoles = set()
        if conf.vnc.enabled:
            consoles.add(str(conf.vnc.server_proxyclient_address))
        if conf.serial_console.enabled:
            consoles.add(str(conf.serial_console.proxyclient_address))
        return cls(Path(conf.state_path), folders, address=str(conf.my_ip), console_addresses=tuple(sorted(consoles)))

    def hold(self) -> None:
        """Lock the state folder and read the identity.

        Raises InvalidConfiguration if another compute uses that folder, or if the files cannot be used.
        """
        try:
            make_folder(self._state_path)
            self._lock()
        except OSError as error:
            raise InvalidConfiguration(f"[DEFAULT] state_path = {self._state_path}: {error.strerror}") from error
        self.compute_id = self._read()

    def release(self) -> None:
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)

    def adopt(self, compute_id: str) -> None:
        """Write the identity to the disk, before the host is registered with it."""
        path = self._state_path / FILE
        try:
            replace_file(path, f"{compute_id}\n".encode())
        except OSError as error:
            raise InvalidConfiguration(f"{path} cannot be written: {error.strerror}") from error
        self.compute_id = compute_id

    def described(self, nodes: Sequence[str]) -> HostIdentity:
        """Returns the identity as it is registered. `nodes` are those that the driver reports; empty while they are not
        known.
        """
        return HostIdentity(
            process=self.process,
            compute_id=self.compute_id,
            lock=self._lock_name,
            place=self._place,
            nodes=tuple(nodes),
            console_addresses=self._console_addresses,
        )

    def _lock(self) -> None:
        # The kernel releases the lock when the process ends, however it ends.
        handle = os.open(self._state_path / LOCK, os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            raise InvalidConfiguration(
                f"[DEFAULT] state_path = {self._state_path}: another minova-compute works there. Stop it, or give this one a "
                "folder of its own."
            ) from None
        status = os.fstat(handle)
        self._handle = handle
        # The name of the lock differs for another file, another machine, and the same file after a reboot.
        with contextlib.suppress(OSError):
            self._lock_name = f"{_BOOT_ID.read_text().strip()}/{status.st_dev}:{status.st_ino}"

    def _read(self) -> str | None:
        uuids = {str(path): value for path in self._files if (value := _read_uuid(path)) is not None}
        if len(set(uuids.values())) > 1:
            listed = ", ".join(f"{path}: {value}" for path, value in uuids.items())
            raise InvalidConfiguration(
                f"This host has more than one compute_id: {listed}. Remove those that are wrong."
            )
        return next(iter(uuids.values()), None)


class IdentifiedConductor:
    """The conductor's client. It adds the sender's process to every message once the process is registered.

    It has the methods of the contract.
    """

    def __init__(self, conductor: ConductorApi, identity: LocalIdentity) -> None:
        self._conductor = conductor
        self._identity = identity

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._conductor, name)

        def send(ctx: RequestContext, **arguments: Any) -> Any:
            process = self._identity.process if self._identity.is_registered else None
            return method(msgspec.structs.replace(ctx, process=process), **arguments)

        return send


def _read_uuid(path: Path) -> str | None:
    """Returns the UUID, or None if there is no file. Raises InvalidConfiguration if the file contains no UUID."""
    try:
        text = path.read_text().strip()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidConfiguration(f"{path} cannot be read: {error}") from error
    try:
        return str(uuid.UUID(text))
    except ValueError:
        raise InvalidConfiguration(f"{path} holds no UUID. Restore it from a backup.") from None
