"""Fetches an image from an address that a user gives. Connects only to a checked address, and limits time and
redirects.
"""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urljoin

import urllib3
from oslo_config import cfg
from urllib3.connection import HTTPConnection, HTTPSConnection

from minova import errors
from minova.api.image.importing import guard
from minova.api.image.importing.guard import ConnectionTarget, Resolve, addresses_of
from minova.api.image.store import CHUNK_BYTES

MAX_REDIRECTS = 5
TIMEOUT = 30.0  # seconds to connect, and seconds without a byte
_REDIRECTS = frozenset((301, 302, 303, 307, 308))


class NotFetched(errors.BadRequest):
    """The text is for the user, and reveals nothing about the controller's networks."""


class Download:
    """`length` in bytes, if the server announces it. `chunks` raises NotFetched."""

    def __init__(self, response: urllib3.BaseHTTPResponse, deadline: float) -> None:
        announced = response.headers.get("Content-Length", "")
        self.length = int(announced) if announced.isdecimal() and len(announced) < 19 else None
        self._response = response
        self._deadline = deadline

    def chunks(self) -> Iterator[bytes]:
        try:
            while True:
                chunk = self._response.read1(CHUNK_BYTES)
                # Checked at the end, too: a connection that was cut at the deadline may look complete.
                _require_time(self._deadline)
                if not chunk:
                    return
                yield chunk
        except (urllib3.exceptions.HTTPError, OSError):
            _require_time(self._deadline)
            raise NotFetched("The download was broken off.") from None


@contextmanager
def opened(conf: cfg.ConfigOpts, uri: str, resolve: Resolve = addresses_of) -> Iterator[Download]:
    """Follows redirects and checks each of them. Raises ImportRefused or NotFetched if the fetch is not allowed or fails."""
    deadline = time.monotonic() + conf.import_filtering_opts.web_download_timeout
    for _ in range(MAX_REDIRECTS + 1):
        place = guard.checked(conf, uri, resolve)
        with _answer(place, deadline) as response:
            if response.status == 200:
                yield Download(response, deadline)
                return
            if response.status not in _REDIRECTS:
                raise NotFetched(f"The download failed: the server answers with status {response.status}.")
            uri = urljoin(uri, response.headers.get("Location", ""))
    raise NotFetched(f"The download failed: more than {MAX_REDIRECTS} redirects.")


@contextmanager
def _answer(place: ConnectionTarget, deadline: float) -> Iterator[urllib3.BaseHTTPResponse]:
    connection = _connection(place)
    cut: threading.Timer | None = None
    try:
        connection.connect()
        # Enforces the deadline even if the server sends a byte now and then, or a byte of its headers.
        cut = threading.Timer(max(0.0, deadline - time.monotonic()), _cut, [connection.sock])
        cut.daemon = True
        cut.start()
        # Without a content coding: a small file must not unpack into a large one.
        headers = {"Host": _authority(place), "User-Agent": "minova", "Accept-Encoding": "identity"}
        connection.request("GET", place.target, headers=headers, preload_content=False, decode_content=False)
        response = connection.getresponse()
    except (urllib3.exceptions.HTTPError, OSError):
        _end(connection, cut)
        _require_time(deadline)
        raise NotFetched(
            "The download failed: the server cannot be reached, or does not answer as it should."
        ) from None
    try:
        yield response
    finally:
        response.close()
        _end(connection, cut)


def _end(connection: HTTPConnection, cut: threading.Timer | None) -> None:
    if cut is not None:
        cut.cancel()
    connection.close()


def _cut(sock: socket.socket) -> None:
    with suppress(OSError):
        # Not the method of a TLS socket, which is not thread-safe.
        socket.socket.shutdown(sock, socket.SHUT_RDWR)


def _require_time(deadline: float) -> None:
    if time.monotonic() >= deadline:
        raise NotFetched("The download failed: it takes too long.")


def _connection(place: ConnectionTarget) -> HTTPConnection:
    """Connects to the checked address. The certificate must be valid for the host's name."""
    if place.scheme == "http":
        return HTTPConnection(place.address, place.port, timeout=TIMEOUT)
    return HTTPSConnection(
        place.address,
        place.port,
        timeout=TIMEOUT,
        cert_reqs="CERT_REQUIRED",
        server_hostname=place.host,
        assert_hostname=place.host,
    )


def _authority(place: ConnectionTarget) -> str:
    host = f"[{place.host}]" if ":" in place.host else place.host
    return host if place.port == guard.PORTS[place.scheme] else f"{host}:{place.port}"
