"""`minova-api` as a service: the application on cheroot, with TLS when configured."""

import logging
import socket
import threading
from pathlib import Path
from typing import Any

from cheroot import wsgi
from cheroot.ssl.builtin import BuiltinSSLAdapter
from oslo_config import cfg

from minova import errors
from minova.api import image_recovery
from minova.api.app import App
from minova.api.auth import is_loopback

LOG = logging.getLogger(__name__)

STOP_WITHIN = 2  # seconds that requests under way have to end
BACKLOG = 512
IDLE_TIMEOUT = 60  # seconds without a byte after which a connection is given up


class _Gateway(wsgi.Gateway_10):
    """An answer with `Connection: close` ends the connection, before cheroot reads the rest of a long request."""

    def start_response(self, status: str, headers: Any, exc_info: Any = None) -> Any:
        if any(name.lower() == "connection" and value == "close" for name, value in headers):
            self.req.close_connection = True
        return super().start_response(status, headers, exc_info)


class _Server(wsgi.Server):
    @staticmethod
    def bind_socket(socket_: socket.socket, bind_addr: Any) -> socket.socket:
        """cheroot leaves a socket open that it cannot bind."""
        try:
            socket_.bind(bind_addr)
        except OSError:
            socket_.close()
            raise
        return socket_


class ApiService:
    """`port` is the real one once started, also when 0 (a free one) is configured."""

    binary = "minova-api"

    def __init__(self, conf: cfg.ConfigOpts, app: App) -> None:
        self._conf = conf
        self._app = app
        self._server: Any = None
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()

    @property
    def port(self) -> int:
        if self._server is None:
            return int(self._conf.api.osapi_compute_listen_port)
        return int(self._server.bind_addr[1])

    def start(self) -> None:
        """InvalidConfiguration names the option: an address or port that cannot be had, or a bad certificate."""
        api = self._conf.api
        server = _Server(
            (api.osapi_compute_listen, api.osapi_compute_listen_port),
            self._app,
            numthreads=api.threads,
            request_queue_size=BACKLOG,
            timeout=IDLE_TIMEOUT,
            shutdown_timeout=STOP_WITHIN,
            server_name="minova-api",
        )
        server.gateway = _Gateway
        server.ssl_adapter = self._tls()
        server.error_log = _log  # type: ignore[method-assign]
        try:
            server.prepare()
        except OSError as error:
            raise errors.InvalidConfiguration(
                f"[api] osapi_compute_listen = {api.osapi_compute_listen}, osapi_compute_listen_port = "
                f"{api.osapi_compute_listen_port}: cannot listen there: {error.strerror or error}"
            ) from None
        self._server = server
        self._thread = threading.Thread(target=server.serve, name="minova-api", daemon=True)
        self._thread.start()
        image_recovery.start(self._app.api, self._stopping)
        if (
            api.auth_strategy == "http_basic"
            and server.ssl_adapter is None
            and not is_loopback(api.osapi_compute_listen)
        ):
            LOG.warning("[api] ssl_cert_file is not set: passwords cross the network unprotected")
        LOG.info("minova-api listens on %s:%s", api.osapi_compute_listen, self.port)

    def stop(self) -> None:
        """No new connections; requests under way have a moment to end."""
        self._stopping.set()
        if self._server is not None:
            self._server.stop()
        if self._thread is not None:
            self._thread.join(timeout=STOP_WITHIN)

    def _tls(self) -> Any:
        cert, key = self._conf.api.ssl_cert_file, self._conf.api.ssl_key_file
        if not cert and not key:
            return None
        files = (("ssl_cert_file", cert), ("ssl_key_file", key))
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


def _log(msg: str = "", level: int = logging.INFO, traceback: bool = False) -> None:
    """cheroot's own complaints, such as broken TLS handshakes."""
    LOG.log(level, "%s", msg.strip(), exc_info=traceback)
