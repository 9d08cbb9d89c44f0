"""One connection of minova-consoleproxy: a page of noVNC, or a WebSocket with a token that is connected to a guest's
console.
"""

import logging
import socket
from http import HTTPStatus
from typing import Any, Protocol
from urllib.parse import parse_qs, urlsplit

from websockify.websocketproxy import ProxyRequestHandler

from minova import errors

LOG = logging.getLogger(__name__)

# Seconds to wait for a request, and for a client that does not read what the guest sends.
PATIENCE = 10.0
# The most bytes of one message of a client: websockify buffers a message until it is complete.
MAX_FRAME = 1024 * 1024
NO_PAGE = (
    "This console proxy has no page of noVNC, so that it serves no console in a browser. Its administrator can install the package "
    "novnc, or set [consoleproxy] web, and restart minova-consoleproxy."
)


class ConsoleAccess(Protocol):
    """The contract of a handler's server.

    `allowed_origins`: hosts whose pages may open consoles, beside the server's own. `web`: the folder of noVNC.
    `connections`: to guests, which a stop of the server closes.
    """

    allowed_origins: frozenset[str]
    web: str
    connections: set[socket.socket]

    def connect(self, token: str, client: str) -> socket.socket: ...

    def granted(self, connection: Any) -> None: ...

    def opened(self, connection: Any) -> None: ...

    def used(self, connection: Any) -> None: ...


class Handler(ProxyRequestHandler):  # type: ignore[misc]  # websockify has no types
    """websockify's handler, with targets from tokens. Its attributes belong to one connection: the server has many at
    the same time.
    """

    server: ConsoleAccess
    server_version = "minova-consoleproxy"
    sys_version = ""
    timeout = PATIENCE

    def handle_upgrade(self) -> None:
        """Connects to the guest before it opens the WebSocket, so that a refusal is an HTTP status with a reason."""
        try:
            self._check_origin()
            self._target = self.server.connect(self._token(), self.client_address[0])
        except errors.MinovaError as error:
            LOG.info("A console was not opened for %s: %s", self.client_address[0], error)
            self._refuse(error)
            return
        # What follows tells the client that its console is open.
        self.server.granted(self.connection)
        try:
            super().handle_upgrade()
        finally:
            self._target.close()

    def _refuse(self, error: errors.MinovaError) -> None:
        """The reason is in the status line. Some clients, such as Tempest, take a body for data of the console."""
        self.send_response(error.code, str(error).encode("ascii", "replace").decode().replace("\n", " "))
        self.send_header("Content-Length", "0")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True

    def new_websocket_client(self) -> None:
        self.server.opened(self.connection)
        self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._target.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.server.connections.add(self._target)
        try:
            self.do_proxy(self._target)
        finally:
            self.server.connections.discard(self._target)

    def recv_frames(self) -> tuple[list[bytes], Any]:
        """Passes on received data before it reads more: if a guest reads nothing, its client waits, and this process
        does not grow.
        """
        frames, closed = super().recv_frames()
        if frames:
            self.server.used(self.connection)
        for frame in frames:
            self._target.sendall(frame)
        if len(self.request._recv_buffer) + len(self.request._partial_msg) > MAX_FRAME:
            raise self.CClose(1009, "Message too big")
        return [], closed

    def send_frames(self, bufs: list[bytes] | None = None) -> Any:
        if bufs:
            self.server.used(self.connection)
        return super().send_frames(bufs)

    def validate_connection(self) -> None:
        """Done before the upgrade."""

    def auth_connection(self) -> None:
        """Does nothing: a client needs only the token."""

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """websockify refuses pages with 405 if it has none. The reader is a person with a browser."""
        if code == HTTPStatus.METHOD_NOT_ALLOWED and self.only_upgrade and message is None:
            code, explain = HTTPStatus.NOT_FOUND, NO_PAGE
        super().send_error(code, message, explain)

    def translate_path(self, path: str) -> str:
        self.directory = self.server.web
        return str(super().translate_path(path))

    def log_message(self, format: str, *arguments: Any) -> None:
        """Logs nothing: websockify's lines would contain the token."""

    def _token(self) -> str:
        tokens = parse_qs(urlsplit(self.path).query).get("token", [])
        if len(tokens) != 1:
            raise errors.BadRequest("The address of a console has one token.")
        return tokens[0]

    def _check_origin(self) -> None:
        """Raises Forbidden for a page of another origin. Browsers let every page open a WebSocket, but send
        its origin.
        """
        origin = self.headers.get("Origin")
        if origin is None:
            return
        page = urlsplit(origin).hostname
        own = urlsplit(f"//{self.headers.get('Host', '')}").hostname
        if page is None or page not in {own, *self.server.allowed_origins}:
            raise errors.Forbidden(
                "A page of another origin may not open consoles: see [consoleproxy] allowed_origins."
            )
