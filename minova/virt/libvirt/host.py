"""The connections to libvirt. They are opened when needed and opened again when lost, and every wait for them has a time
limit.

One thread per process runs libvirt's event loop. The loop delivers events, and detects by keepalive when a daemon no
longer answers although its socket is open.

Each thread that calls libvirt has a connection of its own meanwhile. libvirt lets threads share one: the first reads the
answers of all, and hands this duty on. But if the daemon hangs, the libraries of Debian 12 (9.0) leave threads waiting
although keepalive has closed the connection, or crash the process.
"""

import concurrent.futures
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import libvirt

from minova.errors import HypervisorUnavailable, NotFound
from minova.outages import Outage
from minova.virt.libvirt.error_codes import meaning
from minova.virt.libvirt.guest_state.disk_failures import DiskFailures

LOG = logging.getLogger(__name__)
# Seconds between keepalive messages to the daemon, and how many may stay unanswered.
KEEPALIVE_INTERVAL = 5
KEEPALIVE_COUNT = 3
# Seconds that opening a connection may take; keepalive cannot help before it is open.
OPEN_WITHIN = 20.0
# Connections that are kept for later calls.
MOST_IDLE = 8

Lifecycle = Callable[[Any, int, int], None]
_CLOSED_WHY = {
    libvirt.VIR_CONNECT_CLOSE_REASON_ERROR: "error",
    libvirt.VIR_CONNECT_CLOSE_REASON_EOF: "it has ended",
    libvirt.VIR_CONNECT_CLOSE_REASON_KEEPALIVE: "it answers no more",
    libvirt.VIR_CONNECT_CLOSE_REASON_CLIENT: "closed here",
}


class _EventLoop:
    """libvirt's event loop, once per process: it must be registered before the first connection, and cannot be
    unregistered.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs = False

    def run(self) -> None:
        with self._lock:
            if self._runs:
                return
            # Errors are raised as exceptions; libvirt would print them as well.
            libvirt.registerErrorHandler(lambda _context, _error: None, None)
            libvirt.virEventRegisterDefaultImpl()
            threading.Thread(target=self._loop, name="libvirt-events", daemon=True).start()
            self._runs = True

    @staticmethod
    def _loop() -> None:
        while True:
            with suppress(libvirt.libvirtError):
                libvirt.virEventRunDefaultImpl()


EVENT_LOOP = _EventLoop()


class Host:
    """Safe for threads. A daemon counts as gone if it does not answer for about (KEEPALIVE_COUNT + 1) x `keepalive`
    seconds, or within `open_within` seconds when a connection is opened.
    """

    def __init__(self, uri: str, *, keepalive: int = KEEPALIVE_INTERVAL, open_within: float = OPEN_WITHIN) -> None:
        self.uri = uri
        self._outage = Outage(f"libvirt at {uri}", LOG, gauge="libvirt")
        self._keepalive = keepalive
        self._open_within = open_within
        self._lock = threading.Lock()
        # For events alone.
        self._connection: Any = None
        self._idle: list[Any] = []
        self._opening: concurrent.futures.Future[Any] | None = None
        self._open_until = 0.0
        self._was_connected = False
        self._closed = False
        self._lifecycle: Lifecycle | None = None
        self._reconnected: Callable[[], None] | None = None
        self._disk_failures = DiskFailures()

    @contextmanager
    def connection(self, operation: str, domain: str | None = None) -> Iterator[Any]:
        """Yields a connection that no other thread uses. Its domains are for this block alone. Errors of libvirt inside the
        block become errors of minova (`error_codes`), with operation and domain in the text.
        """
        what = f"{operation} of domain {domain}" if domain else operation
        connection = None
        try:
            connection = self._take_connection()
            yield connection
        except libvirt.libvirtError as error:
            is_connected = connection is not None and connection.isAlive()
            kind = meaning(error) if is_connected else HypervisorUnavailable
            raise kind(f"{what}: {error}") from error
        finally:
            if connection is not None:
                self._give_back(connection)

    def watch(self, lifecycle: Lifecycle, reconnected: Callable[[], None]) -> None:
        """Call `lifecycle` with domain, event and detail of each lifecycle event, on this and all later connections.
        Call `reconnected` after each reconnection.
        """
        with self._lock:
            self._lifecycle, self._reconnected = lifecycle, reconnected
            if self._connection is not None:
                with suppress(libvirt.libvirtError):
                    self._register(self._connection)

    def close(self) -> None:
        """Close the connection for good."""
        with self._lock:
            self._closed = True
            connection, self._connection = self._connection, None
            idle, self._idle = self._idle, []
        if connection is not None:
            with suppress(libvirt.libvirtError):
                connection.unregisterCloseCallback()
        for each in filter(None, (connection, *idle)):
            _close(each)

    # -- connecting ------------------------------------------------------------------------------------------------

    def _take_connection(self) -> Any:
        """Returns a connection for the calling thread."""
        self._listen()
        with self._lock:
            while self._idle:
                connection = self._idle.pop()
                if connection.isAlive():
                    return connection
                _close(connection)
            return self._opened()

    def _give_back(self, connection: Any) -> None:
        with self._lock:
            if not self._closed and len(self._idle) < MOST_IDLE and connection.isAlive():
                self._idle.append(connection)
                return
        _close(connection)

    def _listen(self) -> None:
        """Open the connection for events, unless it is open."""
        with self._lock:
            if self._closed:
                raise HypervisorUnavailable("The connection to libvirt is closed")
            if self._connection is not None and self._connection.isAlive():
                return
            self._connection = None
            connection = self._opened()
            with suppress(libvirt.libvirtError):
                connection.registerCloseCallback(self._on_close, None)
            if self._lifecycle is not None:
                self._register(connection)
            self._connection = connection
            again, self._was_connected = self._was_connected, True
            listener = self._reconnected if again else None
        LOG.info("Connected to libvirt at %s%s", self.uri, " again" if again else "")
        if listener is not None:
            # The caller continues; the listener catches up in its own thread.
            threading.Thread(target=listener, name="libvirt-reconnected", daemon=True).start()

    def _opened(self) -> Any:
        """Opens a connection in a separate thread, since a stopped daemon accepts connections and never answers. The caller
        holds the lock.
        """
        EVENT_LOOP.run()
        if self._opening is None:
            self._opening = concurrent.futures.Future()
            self._open_until = time.monotonic() + self._open_within
            threading.Thread(target=_open, args=(self.uri, self._opening), name="libvirt-open", daemon=True).start()
        opening = self._opening
        try:
            # After the time-out calls no longer wait, but each later call checks whether the connection was made.
            connection = opening.result(max(0.0, self._open_until - time.monotonic()))
        except TimeoutError:
            self._outage.failed(f"no answer within {self._open_within:g} s")
            raise HypervisorUnavailable(f"No answer from libvirt within {self._open_within:g} s") from None
        except libvirt.libvirtError as error:
            self._opening = None
            self._outage.failed(error)
            raise HypervisorUnavailable("Connecting to libvirt failed") from error
        self._opening = None
        self._outage.answered()
        with suppress(libvirt.libvirtError):  # test:///default has no keepalive, and needs none
            connection.setKeepAlive(self._keepalive, KEEPALIVE_COUNT)
        return connection

    def _register(self, connection: Any) -> None:
        connection.domainEventRegisterAny(None, libvirt.VIR_DOMAIN_EVENT_ID_LIFECYCLE, self._on_event, None)
        connection.domainEventRegisterAny(
            None, libvirt.VIR_DOMAIN_EVENT_ID_IO_ERROR_REASON, self._on_disk_failure, None
        )

    # -- in the event loop's thread --------------------------------------------------------------------------------

    def _on_close(self, _connection: Any, reason: int, _opaque: object) -> None:
        LOG.warning("Connection to libvirt at %s is lost: %s", self.uri, _CLOSED_WHY.get(reason, reason))

    def _on_event(self, _connection: Any, domain: Any, event: int, detail: int, _opaque: object) -> None:
        try:
            if self._lifecycle is not None:
                self._lifecycle(domain, event, detail)
        except Exception:
            LOG.exception("An event of libvirt was lost")

    def _on_disk_failure(
        self, _connection: Any, domain: Any, path: str, alias: str, action: int, reason: str, _opaque: object
    ) -> None:
        try:
            self._disk_failures.failed(domain, path, alias, action, reason)
        except Exception:
            LOG.exception("An event of libvirt was lost")


def _close(connection: Any) -> None:
    with suppress(libvirt.libvirtError):
        connection.close()


def _open(uri: str, opening: concurrent.futures.Future[Any]) -> None:
    try:
        opening.set_result(libvirt.open(uri))
    except BaseException as error:  # noqa: BLE001  - the waiting thread raises it
        opening.set_exception(error)


# -- domains -----------------------------------------------------------------------------------------------------------


def lookup(connection: Any, instance_uuid: str) -> Any:
    """Returns the domain of an instance, or None if there is none. Other errors of libvirt are raised as they are."""
    try:
        return connection.lookupByUUIDString(instance_uuid)
    except libvirt.libvirtError as error:
        if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
            return None
        raise


def require(connection: Any, instance_uuid: str) -> Any:
    """Returns the domain of an instance. Raises NotFound if there is none."""
    domain = lookup(connection, instance_uuid)
    if domain is None:
        raise NotFound(f"Instance {instance_uuid} has no domain on this host")
    return domain


def exists(domain: Any) -> bool:
    try:
        domain.state()
    except libvirt.libvirtError as error:
        if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
            return False
        raise
    return True
