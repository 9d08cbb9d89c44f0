"""minova-api's application over HTTP on loopback, with the faults of a network and a listener that a test orders.

What is asked is answered by the real API. Only what it does not do on demand is made here: a lost answer, a busy moment, a full
store in the middle of an upload, and an API that stops and starts again at its port.
"""

import json
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import falcon.testing

BUSY = {"serviceUnavailable": {"code": 503, "message": "The queue is full."}}
FULL = {"title": "Insufficient Storage", "message": "The image store is full."}


class FaultyApi:
    """As a context manager it serves at `url`. `requests` are those that came: method, path with query, body.
    `before` is called before each request is answered.
    """

    port = 0

    def __init__(self, app: Callable[..., Any]) -> None:
        self.client = falcon.testing.TestClient(app)
        self.requests: list[tuple[str, str, Any]] = []
        self.before: Callable[[str, str], None] = lambda method, path: None
        self.is_stopped = False
        self.lock = threading.RLock()
        self._faults: list[tuple[str, str]] = []

    def order(self, *faults: str, method: str = "POST") -> None:
        """Faults of the next requests of this method: `lost` (done, but the answer is lost) or `busy` (503).

        The method EARLY knows `full` (507 before the body is read) for any method, and `ok`.
        """
        self._faults += [(method, fault) for fault in faults]

    def fault_of(self, method: str) -> str:
        for index, (of_method, fault) in enumerate(self._faults):
            if of_method == method:
                del self._faults[index]
                return fault
        return ""

    def start(self) -> None:
        """Listens, on the port of the last time if there was one."""
        self.is_stopped = False
        handler = type("Handler", (Handler,), {"api": self})
        self._http = ThreadingHTTPServer(("127.0.0.1", self.port), handler)
        self._http.daemon_threads = True
        self.port = self._http.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def stop(self) -> None:
        self.is_stopped = True
        self._http.shutdown()
        self._http.server_close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.stop()


class Handler(BaseHTTPRequestHandler):
    api: FaultyApi
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: Any) -> None:
        """Tests read `requests`."""

    def do_GET(self) -> None:
        self._serve("GET")

    def do_POST(self) -> None:
        self._serve("POST")

    def do_PUT(self) -> None:
        self._serve("PUT")

    def do_PATCH(self) -> None:
        self._serve("PATCH")

    def do_DELETE(self) -> None:
        self._serve("DELETE")

    def _serve(self, method: str) -> None:
        if self.api.is_stopped:  # a connection that was open when it stopped
            self.close_connection = True
            return
        if self.api.fault_of("EARLY") == "full":
            # As a server does whose disk is full: it answers in the middle of the upload, and hangs up.
            self.rfile.read(100_000)
            self._answer(507, {}, json.dumps(FULL).encode())
            self.close_connection = True
            return
        data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        is_json = self.headers.get("Content-Type") == "application/json"
        with self.api.lock:
            self.api.requests.append((method, self.path, json.loads(data) if is_json else data))
            fault = self.api.fault_of(method)
            if fault == "busy":
                self._answer(503, {}, json.dumps(BUSY).encode())
                return
            self.api.before(method, self.path)
            parts = urlsplit(self.path)
            answer = self.api.client.simulate_request(
                method, parts.path, query_string=parts.query, headers=dict(self.headers), body=data
            )
        if fault == "lost":
            self.close_connection = True
            return
        self._answer(answer.status_code, answer.headers, answer.content)

    def _answer(self, status: int, headers: Mapping[str, str], data: bytes) -> None:
        self.send_response(status)
        lower = {name.lower(): value for name, value in headers.items()}
        for name, value in {"content-type": "application/json", **lower, "content-length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)
