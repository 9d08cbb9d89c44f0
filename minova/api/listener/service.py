"""Serves a WSGI application over HTTP by uvicorn, with TLS if configured. All APIs use it."""

import logging
import resource
import socket
import threading
from collections.abc import Callable
from typing import Any

import msgspec
import uvicorn
from oslo_config import cfg

from minova import errors
from minova.api.access.addresses import parse_networks
from minova.api.listener.acceptor import Server
from minova.api.listener.bridge import Bridge, ListenerCapacity
from minova.api.listener.limits import ConnectionLimits
from minova.api.listener.tls import ServerCertificate, certificate

LOG = logging.getLogger(__name__)

STOP_WITHIN = 5  # seconds that running requests have to end
BACKLOG = 1024
# File descriptors for other things than clients: the database, the broker, images that are read or written.
OTHER_FILES = 512


class Listen(msgspec.Struct, frozen=True, kw_only=True):
    """The address to serve, and the names of its options for error messages.

    `port`: 0 selects a free one.
    `cert_file`: None serves plain HTTP.
    `capacity`: how many requests run at the same time.
    `is_transfer`: whether requests for a path have long bodies or answers. `is_of_host`: whether the header Authorization of such a
    request is that of a host.
    `inherited`: a socket that already listens, which this process shares with others.
    `opens`: False: there is no socket before `HttpService.listen_on`.
    """

    host: str
    port: int
    host_option: str
    port_option: str
    capacity: ListenerCapacity
    is_transfer: Callable[[str], bool] = lambda path: False
    is_of_host: Callable[[str], bool] = lambda authorization: False
    cert_file: str | None = None
    key_file: str | None = None
    limits: ConnectionLimits = ConnectionLimits()
    inherited: socket.socket | None = None
    opens: bool = True


class HttpService:
    """After the start, `port` is the real port, even if 0 (a free one) is configured."""

    def __init__(self, binary: str, app: Any, listen: Listen) -> None:
        self.binary = binary
        self._app = app
        self._listen = listen
        self._port = listen.port
        self._certificate: ServerCertificate | None = None
        self._server: Server | None = None
        self._bridge: Bridge | None = None
        self._thread: threading.Thread | None = None

    @property
    def port(self) -> int:
        return self._port

    def start(self) -> None:
        """Raises InvalidConfiguration, which names the option, if the address or port is not available, or the
        certificate is invalid.
        """
        listen = self._listen
        self._certificate = certificate(listen.cert_file, listen.key_file)
        limits = within_files(listen.limits)
        sockets = [listen.inherited or bind(listen)] if listen.opens else []
        if sockets:
            self._port = sockets[0].getsockname()[1]
        self._bridge = Bridge(self._app, limits, listen.capacity, listen.is_transfer, listen.is_of_host)
        config = uvicorn.Config(
            self._bridge,
            http="httptools",
            loop="uvloop",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            headers=[("server", self.binary)],
            timeout_keep_alive=int(limits.keep_alive),
            timeout_graceful_shutdown=STOP_WITHIN,
        )
        context = None if self._certificate is None else self._certificate.context
        self._server = Server(config, limits, context)
        # A daemon thread: a request that does not end must not keep the process from ending.
        self._thread = threading.Thread(target=self._server.run, args=(sockets,), name=self.binary, daemon=True)
        self._thread.start()
        if sockets:
            LOG.info("%s listens on %s:%s", self.binary, listen.host, self.port)

    def listen_on(self, listening: socket.socket, network: str) -> None:
        """Serves one socket more, from any thread after the start. The environment of its requests has the network."""
        if self._server is not None:
            self._server.listen_on(listening, network)

    def leave(self, listening: socket.socket) -> None:
        """Serves the socket no more, and closes it."""
        if self._server is not None:
            self._server.leave(listening)

    def reload(self) -> None:
        """Reads the certificate again."""
        if self._certificate is not None:
            self._certificate.reload()

    def stop(self) -> None:
        """Accepts no new connections. Running requests have STOP_WITHIN seconds to end, and are then abandoned."""
        if self._server is None or self._thread is None:
            return
        self._server.should_exit = True
        self._thread.join(timeout=STOP_WITHIN + 1)
        if self._thread.is_alive() or self._server.abandoned:
            LOG.warning("%s stops although requests are still running", self.binary)
        if self._bridge is not None:
            self._bridge.close()


def limits_of(conf: cfg.ConfigOpts) -> ConnectionLimits:
    """Raises InvalidConfiguration if a trusted proxy is not a valid network."""
    return ConnectionLimits(
        connections=conf.api.max_connections,
        connections_per_address=conf.api.max_connections_per_address,
        trusted_proxies=parse_networks("[api] trusted_proxies", conf.api.trusted_proxies),
    )


def bind(listen: Listen) -> socket.socket:
    """Raises InvalidConfiguration, which names the option, if the address is not available."""
    family = socket.AF_INET6 if ":" in listen.host else socket.AF_INET
    try:
        return socket.create_server(
            (listen.host, listen.port), family=family, backlog=BACKLOG, dualstack_ipv6=listen.host == "::"
        )
    except OSError as error:
        raise errors.InvalidConfiguration(
            f"{listen.host_option} = {listen.host}, {listen.port_option} = {listen.port}: "
            f"cannot listen there: {error.strerror or error}"
        ) from None


def within_files(limits: ConnectionLimits) -> ConnectionLimits:
    """Raises the process's limit of open files as far as the system permits. If that is not enough, returns limits with
    fewer connections.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed_files = limits.connections + OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < needed_files:
        soft = needed_files if hard == resource.RLIM_INFINITY else min(needed_files, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        if soft < needed_files:
            fewer = max(soft // 2, soft - OTHER_FILES)
            LOG.warning(
                "This process may open %d files: it takes %d connections, not %d", soft, fewer, limits.connections
            )
            return msgspec.structs.replace(limits, connections=fewer)
    return limits
