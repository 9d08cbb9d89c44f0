"""The listener of minova-consoleproxy: a thread for each connection, and the state that all connections share."""

import logging
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from http.server import HTTPServer
from pathlib import Path
from socketserver import TCPServer, ThreadingMixIn
from typing import Any

from oslo_config import cfg

from minova import errors
from minova.api.listener.tls import ServerCertificate, certificate
from minova.consoleproxy.handler import PATIENCE, Handler
from minova.consoleproxy.places import ConsoleClient, ConsolePlaces
from minova.context import service_context
from minova.contracts.compute import ComputeApi
from minova.contracts.conductor import ConductorApi
from minova.objects.guests.console import ConsoleGrant, canonical_address, is_loopback

LOG = logging.getLogger(__name__)

BINARY = "minova-consoleproxy"
# Seconds until the host of a guest must have accepted the connection.
CONNECT_WITHIN = 5.0
# Seconds between pings to a client, which detect a lost client.
HEARTBEAT = 30
STOP_WITHIN = 5.0
# Seconds until a connection must have become a WebSocket, or got its page.
OPEN_WITHIN = 30.0


class ConsoleServer(ThreadingMixIn, HTTPServer):
    """`allowed_origins`, `web`, `connections` and the attributes of websockify's server are for its handlers."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128
    # Attributes that websockify's handler reads.
    heartbeat = HEARTBEAT
    file_only = True

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        conductor: ConductorApi,
        compute: Callable[[str], ComputeApi],
        tls: ssl.SSLContext | None,
    ) -> None:
        options = conf.consoleproxy
        self.allowed_origins = frozenset(options.allowed_origins)
        self.web = options.web
        self.only_upgrade = not Path(options.web).is_dir()
        self.connections: set[socket.socket] = set()
        self._host = str(conf.host)
        self._conductor = conductor
        self._compute = compute
        self._tls = tls
        self._openings: dict[Any, float] = {}
        self._places = ConsolePlaces(options.max_connections, options.max_connections_per_address)
        # By the socket as it was accepted, and by the socket that is served, which TLS replaces.
        self._accepted: dict[Any, ConsoleClient] = {}
        self._served: dict[Any, ConsoleClient] = {}
        self.address_family = socket.AF_INET6 if ":" in options.listen else socket.AF_INET
        super().__init__((options.listen, options.port), Handler)

    def server_bind(self) -> None:
        """Omits HTTPServer's DNS look-up of the host's name."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]  # type: ignore[assignment]

    def connect(self, token: str, client: str) -> socket.socket:
        """Connects to the console that the token opens.

        Raises Forbidden if the token opens none, ServiceUnavailable if the host does not answer.
        """
        ctx = service_context()
        grant = self._conductor.use_console_token(ctx, token=token)
        address = self._compute(grant.host).get_console(
            ctx, instance_uuid=grant.instance_uuid, console_type=grant.console_type.value
        )
        host = self._own_address(grant, address.host)
        try:
            target = socket.create_connection((host, address.port), timeout=CONNECT_WITHIN)
        except OSError as error:
            LOG.warning("The console at %s:%d cannot be reached: %s", host, address.port, error)
            raise errors.ServiceUnavailable("The console cannot be reached.") from None
        LOG.info("%s opened the %s console of instance %s", client, grant.console_type, grant.instance_uuid)
        return target

    def _own_address(self, grant: ConsoleGrant, named: str) -> str:
        """Returns the address of the console. Raises ServiceUnavailable if it is not an address of the host.

        Otherwise the user could reach what listens there, such as the consoles of another host.
        """
        address = canonical_address(named)
        if address is not None and (grant.host == self._host if is_loopback(address) else address in grant.addresses):
            return address
        LOG.error(
            "Host %s says that the console of instance %s is at %s, and its recorded addresses are %s. A loopback address is "
            "reached on the host of minova-consoleproxy (%s) alone; for another one, if it is the host's, run on a "
            "controller: minova-manage host console-addresses %s ADDRESS",
            grant.host,
            grant.instance_uuid,
            named,
            ", ".join(grant.addresses) or "none",
            self._host,
            grant.host,
        )
        raise errors.ServiceUnavailable("The console cannot be reached.")

    def granted(self, connection: Any) -> None:
        """Lets no other connection take the place of this one: its token has opened a console."""
        self._served[connection].is_console = True

    def opened(self, connection: Any) -> None:
        """Lifts the time limit of a connection: its WebSocket is open."""
        self._openings.pop(connection, None)

    def used(self, connection: Any) -> None:
        """Data of a console have come or gone."""
        self._places.used(self._served[connection])

    def service_actions(self) -> None:
        """Runs several times a second. Ends connections that have not become a WebSocket, or got their page, in time.

        Each wait for a client ends after PATIENCE, but a client that sends a byte now and then could extend the wait
        without end.
        """
        now = time.monotonic()
        for connection, until in tuple(self._openings.items()):
            if now > until:
                self._openings.pop(connection, None)
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def process_request(self, request: Any, client_address: Any) -> None:
        client = self._places.take(client_address[0])
        if isinstance(client, str):
            LOG.warning("%s is closed: %s", client_address[0], client)
            self.shutdown_request(request)
            return
        self._accepted[request] = client
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.free(self._accepted.pop(request))

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Runs in the connection's thread, so that a client with a slow TLS handshake does not delay others."""
        if self._tls is None:
            self._serve(request, client_address, self._accepted[request])
            return
        request.settimeout(PATIENCE)
        with self._tls.wrap_socket(request, server_side=True, do_handshake_on_connect=False) as encrypted:
            self._serve(encrypted, client_address, self._accepted[request])

    def _serve(self, connection: Any, client_address: Any, client: ConsoleClient) -> None:
        client.connection = connection
        self._served[connection] = client
        self._openings[connection] = time.monotonic() + OPEN_WITHIN
        try:
            if isinstance(connection, ssl.SSLSocket):
                connection.do_handshake()
            super().finish_request(connection, client_address)
        finally:
            self._openings.pop(connection, None)
            del self._served[connection]

    def handle_error(self, request: Any, client_address: Any) -> None:
        LOG.info("The connection of %s has ended: %s", client_address[0], sys.exception())


class ConsoleProxy:
    """A service that `minova.service.run` starts and stops. After the start, `port` is the real port."""

    binary = BINARY

    def __init__(self, conf: cfg.ConfigOpts, conductor: ConductorApi, compute: Callable[[str], ComputeApi]) -> None:
        self._conf = conf
        self._conductor = conductor
        self._compute = compute
        self._certificate: ServerCertificate | None = None
        self._server: ConsoleServer | None = None
        self.port = 0

    def start(self) -> None:
        """Raises InvalidConfiguration, which names the option, if the address is not available or the certificate is
        invalid.
        """
        options = self._conf.consoleproxy
        self._certificate = certificate(options.ssl_cert_file, options.ssl_key_file, "consoleproxy")
        tls = None if self._certificate is None else self._certificate.context
        try:
            self._server = ConsoleServer(self._conf, self._conductor, self._compute, tls)
        except OSError as error:
            raise errors.InvalidConfiguration(
                f"[consoleproxy] listen = {options.listen}, port = {options.port}: cannot listen there: {error.strerror}"
            ) from None
        self.port = self._server.server_port
        if self._server.only_upgrade:
            LOG.warning("[consoleproxy] web = %s: there is no page of noVNC, so no console in a browser", options.web)
        self._conf.register_mutate_hook(lambda *_: self.reload())
        threading.Thread(target=self._server.serve_forever, name=BINARY, daemon=True).start()
        LOG.info("%s listens on %s:%d", BINARY, options.listen, self.port)

    def reload(self) -> None:
        """Reads the certificate again."""
        if self._certificate is not None:
            self._certificate.reload()

    def stop(self) -> None:
        """Ends all consoles."""
        if self._server is None:
            return
        stopper = threading.Thread(target=self._server.shutdown, daemon=True)
        stopper.start()
        stopper.join(STOP_WITHIN)
        self._server.server_close()
        for connection in tuple(self._server.connections):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue
