"""An image service of one image, on loopback, that can be told to fail."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self


class ImageServer:
    """`plan` says how the next answers go wrong, one word each; then all is well. `requests` are (path, authorization)."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.plan: list[str] = []
        self.requests: list[tuple[str, str | None]] = []
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                owner.answer(self)

            def log_message(self, *_: Any) -> None:
                """Silent."""

        self.handler = Handler
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def answer(self, to: BaseHTTPRequestHandler) -> None:
        self.requests.append((to.path, to.headers.get("Authorization")))
        how = self.plan.pop(0) if self.plan else "well"
        if how.isdigit():
            to.send_error(int(how))
            return
        data = {"flipped": b"\xff" + self.data[1:], "longer": self.data + b"!"}.get(how, self.data)
        to.send_response(200)
        if how != "no length":
            to.send_header("Content-Length", str(len(data)))
        to.end_headers()
        to.wfile.write(data[: len(data) // 2] if how == "cut" else data)
        if how in {"cut", "no length"}:
            to.close_connection = True

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
