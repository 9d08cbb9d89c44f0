"""A WSGI application served over HTTP by cheroot, with TLS when configured: for every API."""

import logging
import socket
import threading
from pathlib import Path
from typing import Any

import msgspec
from cheroot import server as cheroot
from cheroot import wsgi
from cheroot.ssl.builtin import BuiltinSSLAdapter

from minova import errors

LOG = logging.getLogger(__name__)

STOP_WITHIN = 2  # seconds that running requests have to end
BACKLOG = 512
IDLE_TIMEOUT = 60  # seconds without a byte after which a connection is given up
# The text of OpenStack's services; cheroot answers before the application sees the request.
_BAD_LENGTH = "content-length header must be an integer"


class Listen(msgspec.Struct, frozen=True, kw_only=True):
    """Where to serve, and the names of its options for error messages. `port` 0: a free one. No `cert_file`: plain HTTP."""

    host: str
    port: int
    host_option: str
    port_option: str
    threads: int
    cert_file: str | None = None
    key_file: str | None = None


class _Request(cheroot.HTTPRequest):
    def simple_response(self, status: Any, msg: str = "") -> None:
        super().simple_response(status, _BAD_LENGTH if msg.startswith("Malformed Content-Length") else msg)


class _Connection(cheroot.HTTPConnection):
    RequestHandlerClass = _Request


class _Gateway(wsgi.Gateway_10):
    """An answer with `Connection: close` ends the connection, before cheroot reads the rest of a long request."""

    def start_response(self, status: str, headers: Any, exc_info: Any = None) -> Any:
        if any(name.lower() == "connection" and value == "close" for name, value in headers):
            self.req.close_connection = True
        return super().start_response(status, headers, exc_info)


class _Server(wsgi.Server):
    ConnectionClass = _Connection

    @staticmethod
    def bind_socket(socket_: socket.socket, bind_addr: Any) -> socket.socket:
        """cheroot leaves a socket open that it cannot bind."""
        try:
            socket_.bind(bind_addr)
        except OSError:
            socket_.close()
            raise
        return socket_


class HttpService:
    """`port` is the real one once started, also when 0 (a free one) is configured."""

    def __init__(self, binary: str, app: Any, listen: Listen) -> None:
        self.binary = binary
        self._app = app
        self._listen = listen
        self._server: Any = None
        self._thread: threading.Thread | None = None

    @property
    def port(self) -> int:
        return self._listen.port if self._server is None else int(self._server.bind_addr[1])

    def start(self) -> None:
        """Raises InvalidConfiguration with the option: an address or port that is not available, or a bad certificate."""
        listen = self._listen
        server = _Server(
            (listen.host, listen.port),
            self._app,
            numthreads=listen.threads,
            request_queue_size=BACKLOG,
            timeout=IDLE_TIMEOUT,
            shutdown_timeout=STOP_WITHIN,
            server_name=self.binary,
        )
        server.gateway = _Gateway
        server.ssl_adapter = self._tls()
        server.error_log = _log  # type: ignore[method-assign]
        try:
            _prepare(server)
        except OSError as error:
            raise errors.InvalidConfiguration(
                f"{listen.host_option} = {listen.host}, {listen.port_option} = {listen.port}: "
                f"cannot listen there: {error.strerror or error}"
            ) from None
        self._server = server
        self._thread = threading.Thread(target=server.serve, name=self.binary, daemon=True)
        self._thread.start()
        LOG.info("%s listens on %s:%s", self.binary, listen.host, self.port)

    def stop(self) -> None:
        """Accepts no new connections; running requests have STOP_WITHIN seconds to end, and are then abandoned."""
        if self._server is not None:
            # cheroot waits without end for a request that does not end.
            stopper = threading.Thread(target=self._server.stop, name=f"stop {self.binary}", daemon=True)
            stopper.start()
            stopper.join(timeout=STOP_WITHIN + 1)
            if stopper.is_alive():
                LOG.warning("%s stops although requests are still running", self.binary)
        if self._thread is not None:
            self._thread.join(timeout=STOP_WITHIN)

    def _tls(self) -> Any:
        cert, key = self._listen.cert_file, self._listen.key_file
        if not cert and not key:
            return None
        files = (("ssl_cert_file", cert or ""), ("ssl_key_file", key or ""))
        for option, value in files:
            if not value:
                raise errors.InvalidConfiguration(f"[api] {option} is not set: both files are needed to serve HTTPS.")
        for option, value in files:
            if not Path(value).is_file():
                raise errors.InvalidConfiguration(f"[api] {option} = {value}: there is no such file.")
        try:
            return BuiltinSSLAdapter(cert, key)
        except OSError as error:
            raise errors.InvalidConfiguration(
                f"[api] ssl_cert_file = {cert}, ssl_key_file = {key}: they cannot be used: {error}"
            ) from None


def _prepare(server: Any) -> None:
    """Binds the socket and starts the workers. A worker inherits `daemon` from the thread that starts it: a request that does not
    end must not keep the process from ending.
    """
    failures: list[BaseException] = []

    def prepare() -> None:
        try:
            server.prepare()
        except BaseException as error:  # noqa: BLE001  - raised again below
            failures.append(error)

    thread = threading.Thread(target=prepare, daemon=True)
    thread.start()
    thread.join()
    if failures:
        raise failures[0]


def _log(msg: str = "", level: int = logging.INFO, traceback: bool = False) -> None:
    """cheroot's own complaints, such as broken TLS handshakes."""
    LOG.log(level, "%s", msg.strip(), exc_info=traceback)
