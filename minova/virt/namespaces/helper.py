"""Serves `NetworkNamespaces` to processes without root's rights, over local sockets.

| socket | opened by | calls |
| --- | --- | --- |
| the main one | the user of minova-compute, and root | all |
| | members of a group | `Connect`, for `minova server ssh` |
| the one for minova-metadata | its user, and root | `Namespaces`, `Listener` |

The kernel says whose process has connected, before anything of a message is read. All callers work on the networks of one owner, which
no message names.
"""

import errno
import logging
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple, NoReturn

from minova.errors import MinovaError
from minova.virt.namespaces import calls
from minova.virt.namespaces.namespaces import NetworkNamespaces
from minova.virt.namespaces.records import make_folder

LOG = logging.getLogger(__name__)
_CREDENTIALS = struct.Struct("3i")
# Errors of the kernel if there is no room for one more connection, and seconds until the next try.
_SHORT = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_PAUSE = 0.2
# Seconds between two looks at the threads that wait for connections.
_LOOK = 1.0
# Seconds that a guest may take to accept a connection.
_PATIENCE = 10.0
ALL: tuple[type, ...] = (
    calls.Records,
    calls.Ensure,
    calls.Enter,
    calls.Forget,
    calls.Remove,
    calls.Broken,
    calls.Track,
    calls.MakeProtocolSets,
    calls.Namespaces,
    calls.Listener,
    calls.Connect,
)
OF_METADATA: tuple[type, ...] = (calls.Namespaces, calls.Listener)
OF_MEMBERS: tuple[type, ...] = (calls.Connect,)


class CallerRights(NamedTuple):
    """The rights of callers of one kind.

    `calls`: that they may ask for.
    `largest`: bytes of a message.
    `seconds`: until their message must be complete, and their answer taken.
    `places`: how many of them are served at once.
    """

    calls: tuple[type, ...]
    largest: int
    seconds: float
    places: threading.BoundedSemaphore


class Helper:
    """Serves this user and root. `calls`: that they may ask for. `gid`: of the group whose members may connect to guests;
    None: there is none.
    """

    def __init__(
        self,
        path: Path,
        namespaces: NetworkNamespaces,
        uid: int,
        gid: int | None = None,
        calls_of_user: tuple[type, ...] = ALL,
    ) -> None:
        self._path = path
        self._namespaces = namespaces
        self._uid = uid
        self._gid = gid
        self._of_user = CallerRights(calls_of_user, calls.LARGEST, 30.0, threading.BoundedSemaphore(64))
        # A member's process may be hostile: it waits for its own kind alone.
        self._of_member = CallerRights(OF_MEMBERS, 4096, 5.0, threading.BoundedSemaphore(16))

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
            self._begin(connection)

    def _begin(self, connection: socket.socket) -> None:
        """Serve the connection in a thread, or close it if its process has no rights or all places are taken."""
        _, uid, _ = _CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
        rights = self._rights_of(uid)
        if rights is None or not rights.places.acquire(blocking=False):
            LOG.warning("A process of user %d is not served: %s", uid, "no right" if rights is None else "too many ask")
            connection.close()
            return
        threading.Thread(target=self._answer, args=(connection, uid, rights), daemon=True).start()

    def _rights_of(self, uid: int) -> CallerRights | None:
        if uid in {0, self._uid}:
            return self._of_user
        # Others who could open the socket are members of its group.
        return None if self._gid is None else self._of_member

    def _answer(self, connection: socket.socket, uid: int, rights: CallerRights) -> None:
        with closing(connection):
            try:
                self._serve(connection, uid, rights)
            except (EOFError, OSError, ValueError) as error:
                LOG.warning("A request cannot be answered: %s", error or type(error).__name__)
            finally:
                rights.places.release()

    def _serve(self, connection: socket.socket, uid: int, rights: CallerRights) -> None:
        call = calls.receive_within(connection, calls.CALLS, largest=rights.largest, seconds=rights.seconds)
        if not isinstance(call, rights.calls):
            LOG.warning("A process of user %d may not ask for %s", uid, type(call).__name__)
            return
        answer, sockets = self._do(call)
        try:
            connection.settimeout(rights.seconds)
            calls.send(connection, answer, *sockets)
        finally:
            for each in sockets:
                each.close()

    def _do(self, call: calls.Call) -> tuple[calls.HelperAnswer, list[socket.socket]]:
        try:
            return self._call(call)
        except ValueError as error:
            return calls.HelperAnswer(refused=str(error) or "no valid argument"), []
        except (MinovaError, OSError) as error:
            LOG.error("%s failed: %s", type(call).__name__, error)
            return calls.HelperAnswer(failed=str(error) or type(error).__name__), []

    def _call(self, call: calls.Call) -> tuple[calls.HelperAnswer, list[socket.socket]]:
        does = self._namespaces
        match call:
            case calls.Records() | calls.Broken() | calls.Namespaces():
                return self._read(call), []
            case calls.Ensure(network, mac):
                does.ensure(network, mac)
            case calls.Enter(network_id, host):
                does.enter(network_id, host)
            case calls.Forget(network_id, macs):
                does.forget(network_id, macs)
            case calls.Remove(network_id):
                does.remove(network_id)
            case calls.Track(bridges):
                does.track(bridges)
            case calls.MakeProtocolSets(numbers):
                does.make_protocol_sets(numbers)
            case calls.Listener() | calls.Connect():
                return calls.HelperAnswer(), [self._opened(call)]
        return calls.HelperAnswer(), []

    def _read(self, call: calls.Records | calls.Broken | calls.Namespaces) -> calls.HelperAnswer:
        match call:
            case calls.Records():
                return calls.HelperAnswer(records=self._namespaces.records())
            case calls.Broken():
                return calls.HelperAnswer(broken=self._namespaces.broken())
            case calls.Namespaces():
                return calls.HelperAnswer(namespaces=self._namespaces.namespaces())

    def _opened(self, call: calls.Listener | calls.Connect) -> socket.socket:
        if isinstance(call, calls.Connect):
            return self._namespaces.connect(call.network_id, call.address, call.port, _PATIENCE)
        return self._namespaces.listener(call.network_id)


def serve_all(
    helpers: Sequence[Helper], ready: Callable[[], None] = lambda: None, alive: Callable[[], None] = lambda: None
) -> NoReturn:
    """Serves on the sockets of all helpers. `ready` is called when all listen, and `alive` again and again. Raises OSError if a socket cannot
    be made, or is closed.
    """
    threads = [threading.Thread(target=each.serve, args=(each.listen(),), daemon=True) for each in helpers]
    for thread in threads:
        thread.start()
    ready()
    while all(thread.is_alive() for thread in threads):
        alive()
        time.sleep(_LOOK)
    raise OSError("a socket is closed")
