"""A listener in a process of its own, so that its memory can be read, and clients that are slow or send nonsense."""

import json
import socket
import ssl
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil

LOOPBACK = "127.0.0.1"
MB = 1 << 20

# `/401` reads nothing of a body, every other path reads it all and answers its length, `/big` answers 64 MB, and `/wait` waits for
# the file that its query names. `/image` is the path of a transfer, whatever its body. The header Project names the project, and Authorization: Host a host.
PROGRAM = """
import json, pathlib, sys, threading, time
from minova import errors, service
from minova.api.access.addresses import parse_networks
from minova.api.listener.bridge import ListenerCapacity
from minova.api.listener.limits import ConnectionLimits
from minova.api.listener.service import HttpService, Listen

def app(env, start_response):
    path = env["PATH_INFO"]
    if path == "/401":
        start_response("401 Unauthorized", [("Content-Length", "2")])
        return [b"no"]
    if "HTTP_PROJECT" in env and "minova.enter" in env:
        try:
            env["minova.enter"](env["HTTP_PROJECT"])
        except errors.ServiceUnavailable:
            start_response("503 Service Unavailable", [("Content-Length", "0")])
            return [b""]
    if path == "/wait":
        while not pathlib.Path(env["QUERY_STRING"]).exists():
            time.sleep(0.05)
    if path == "/big":
        start_response("200 OK", [("Content-Length", str(64 << 20))])
        return (b"x" * 65536 for _ in range(1024))
    size = 0
    while part := env["wsgi.input"].read(65536):
        size += len(part)
    answer = json.dumps({"size": size, **{key: env[key] for key in env if key.startswith("HTTP_")}}).encode()
    start_response("200 OK", [("Content-Length", str(len(answer)))])
    return [answer]

options = json.loads(sys.argv[1])
limits = ConnectionLimits(**{k: parse_networks("x", v) if k == "trusted_proxies" else v for k, v in options.pop("limits").items()})
stopping = threading.Event()
service.stop_on_signals(stopping)
listen = Listen(
    host="127.0.0.1", port=0, host_option="a", port_option="b", limits=limits, capacity=ListenerCapacity(**options.pop("capacity")),
    is_transfer=lambda path: path in ("/big", "/image"), is_of_host=lambda authorization: authorization == "Host", **options,
)
server = HttpService("api", app, listen)
service.run([server], stopping, lambda: print(server.port, flush=True))
"""


class HttpProcess:
    """`limits` as of a Listen, the others as of its ListenerCapacity. `certificate`: a folder with cert.pem and key.pem, to serve TLS."""

    def __init__(
        self,
        *,
        certificate: Path | None = None,
        threads: int = 4,
        transfers: int = 4,
        changes: int = 0,
        host_transfers: int = 0,
        **limits: Any,
    ) -> None:
        capacity = {"reads": threads, "transfers": transfers, "changes": changes, "host_transfers": host_transfers}
        options: dict[str, Any] = {"limits": limits, "capacity": capacity}
        self._tls = None
        if certificate is not None:
            options |= {"cert_file": str(certificate / "cert.pem"), "key_file": str(certificate / "key.pem")}
            self._tls = ssl.create_default_context(cafile=certificate / "cert.pem")
        command = [sys.executable, "-c", PROGRAM, json.dumps(options)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._process.kill()
        self._process.communicate()

    def connect(self, source: str = "127.0.0.1", tls: bool = True) -> socket.socket:
        return connect(self.port, source, self._tls if tls else None)

    def send(self, request: bytes, source: str = "127.0.0.1") -> bytes:
        """All that is answered until the server closes; the request should say `Connection: close`."""
        with self.connect(source) as client:
            client.sendall(request)
            return read_all(client)

    def get(self, source: str = "127.0.0.9") -> float:
        """Seconds of a request from another address."""
        begun = time.perf_counter()
        answer = self.send(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", source)
        assert answer.startswith(b"HTTP/1.1 200"), answer
        return time.perf_counter() - begun

    def clients(self) -> set[int]:
        """The ports of the clients of its open connections."""
        connections = psutil.Process(self._process.pid).net_connections("tcp")
        return {connection.raddr.port for connection in connections if connection.raddr}

    def memory(self) -> int:
        """Resident, in MB."""
        return int(psutil.Process(self._process.pid).memory_info().rss) // MB


def connect(port: int, source: str, tls: ssl.SSLContext | None = None) -> socket.socket:
    """A connection from the address `source`, which may be any of 127.0.0.0/8."""
    client = socket.create_connection((LOOPBACK, port), timeout=30, source_address=(source, 0))
    return client if tls is None else tls.wrap_socket(client, server_hostname="localhost")


def read_all(client: socket.socket) -> bytes:
    """Until the end, or a reset after the answer."""
    answer = b""
    try:
        while block := client.recv(65536):
            answer += block
    except ConnectionError:
        pass
    return answer


def make_certificate(folder: Path) -> Path:
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
        + ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
        + ["-out", folder / "cert.pem", "-keyout", folder / "key.pem"],
        check=True,
        capture_output=True,
        timeout=30,
    )
    return folder
