"""Serves `Namespaces` to processes without root's rights, over a local socket.

The socket belongs to the user of minova-compute, who may ask for all calls. A group may open it, too, for connections
to guests alone (`minova server ssh`).
"""

import errno
import logging
import os
import socket
import struct
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import NoReturn

from minova.errors import MinovaError
from minova.virt.namespaces import calls
from minova.virt.namespaces.namespaces import Namespaces, make_folder

LOG = logging.getLogger(__name__)
_CREDENTIALS = struct.Struct("3i")
_IDLE = 30.0
# What the kernel says when there is no room for one more connection, and seconds until it is asked again.
_SHORT = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_PAUSE = 0.2
# Seconds that a guest may take to accept a connection.
_PATIENCE = 10.0


class Helper:
    """Serves this user and root. `gid`: of the group whose members may connect to guests; None: there is none."""

    def __init__(self, path: Path, namespaces: Namespaces, uid: int, gid: int | None = None) -> None:
        self._path = path
        self._namespaces = namespaces
        self._uid = uid
        self._gid = gid

    def listen(self) -> socket.socket:
        """Raises OSError if the socket cannot be made."""
        make_folder(self._path.parent)
        self._path.unlink(missing_ok=True)
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(str(self._path))
        # In this order: the unit keeps no right to change the mode of files of others (CAP_FOWNER).
        self._path.chmod(0o600 if self._gid is None else 0o660)
        os.chown(self._path, self._uid, -1 if self._gid is None else self._gid)
        listening.listen(64)
        return listening

    def serve(self, listening: socket.socket) -> NoReturn:
        """Serves until the socket is closed."""
        while True:
            try:
                connection, _ = listening.accept()
            except OSError as error:
                if error.errno not in _SHORT:
                    raise
                time.sleep(_PAUSE)  # others close their connections
                continue
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with closing(connection):
            connection.settimeout(_IDLE)
            _, uid, _ = _CREDENTIALS.unpack(
                connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
            )
            try:
                call, _ = calls.receive(connection, calls.CALLS, takes_sockets=False)
                # Others who could open the socket are members of its group.
                is_member = self._gid is not None and isinstance(call, calls.Connect)
                if uid not in {0, self._uid} and not is_member:
                    LOG.warning("A process of user %d may not ask for %s", uid, type(call).__name__)
                    return
                answer, sockets = self._do(call)
                calls.send(connection, answer, *sockets)
                for each in sockets:
                    each.close()
            except (EOFError, OSError, ValueError) as error:
                LOG.warning("A request cannot be answered: %s", error)

    def _do(self, call: calls.Call) -> tuple[calls.Answer, list[socket.socket]]:
        try:
            return self._call(call)
        except ValueError as error:
            return calls.Answer(refused=str(error) or "no valid argument"), []
        except (MinovaError, OSError) as error:
            LOG.error("%s failed: %s", type(call).__name__, error)
            return calls.Answer(failed=str(error) or type(error).__name__), []

    def _call(self, call: calls.Call) -> tuple[calls.Answer, list[socket.socket]]:
        does = self._namespaces
        match call:
            case calls.Records():
                return calls.Answer(records=does.records()), []
            case calls.Ensure(network, mac):
                does.ensure(network, mac)
            case calls.Enter(network_id, host):
                does.enter(network_id, host)
            case calls.Forget(network_id, macs):
                does.forget(network_id, macs)
            case calls.Remove(network_id):
                does.remove(network_id)
            case calls.Broken():
                return calls.Answer(broken=does.broken()), []
            case calls.Track(bridges):
                does.track(bridges)
            case calls.Namespaces():
                return calls.Answer(namespaces=does.namespaces()), []
            case calls.Listener() | calls.Connect():
                return calls.Answer(), [self._opened(call)]
        return calls.Answer(), []

    def _opened(self, call: calls.Listener | calls.Connect) -> socket.socket:
        if isinstance(call, calls.Connect):
            return self._namespaces.connect(call.network_id, call.address, call.port, _PATIENCE)
        return self._namespaces.listener(call.network_id)
