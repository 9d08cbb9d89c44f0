"""A real browser on this host, with a page of another origin: it reaches noauth on loopback, and changes nothing there."""

import http.server
import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from minova.api.listener.bridge import ListenerCapacity
from minova.api.listener.service import HttpService, Listen
from tests.functional.api.conftest import Cloud

STRANGER = "evil.example.com"
FLAVOR = {"flavor": {"name": "f", "ram": 64, "vcpus": 1, "disk": 1}}
# What a page may send to another origin without asking, and what the browser asks about.
PAGE = """<body></body><script>
(async () => {
  const url = "%s/v2.1/flavors", body = %s;
  const attempts = [
    {mode: "no-cors", headers: {"Content-Type": "text/plain"}, body},
    {mode: "no-cors", body: new Blob([body])},
    {mode: "no-cors", headers: {"Content-Type": "application/x-www-form-urlencoded"}, body},
    {mode: "cors", headers: {"Content-Type": "application/json"}, body},
  ];
  for (const attempt of attempts) {
    const answer = await fetch(url, {method: "POST", ...attempt}).then(found => found.type, () => "refused");
    document.body.append(answer + " ");
  }
  document.body.append("done");
})();
</script>"""


@contextmanager
def page_of(text: str) -> Iterator[int]:
    """The port of a server with this page."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *words: Any) -> None:
            """Nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


def browse(folder: Path, url: str) -> str:
    """The page as the browser has it in the end. The stranger's name has the address 127.0.0.1, as after DNS rebinding."""
    command = ["/usr/bin/chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    command += [
        "--no-first-run",
        f"--user-data-dir={folder}/browser",
        f"--host-resolver-rules=MAP {STRANGER} 127.0.0.1",
    ]
    command += ["--virtual-time-budget=10000", "--dump-dom", url]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout


@pytest.mark.timeout(300)
def test_page_of_another_origin_changes_nothing(tmp_path: Path) -> None:
    cloud = Cloud(tmp_path)
    seen: list[tuple[str, str, int]] = []

    def app(env: dict[str, Any], start_response: Any) -> Any:
        def start(status: str, *more: Any) -> Any:
            seen.append((env["REQUEST_METHOD"], env.get("HTTP_ORIGIN", ""), int(status.split(maxsplit=1)[0])))
            return start_response(status, *more)

        return cloud.app(env, start)

    api = HttpService(
        "api",
        app,
        Listen(host="127.0.0.1", port=0, host_option="a", port_option="b", capacity=ListenerCapacity(reads=4)),
    )
    api.start()
    try:
        with page_of(PAGE % (f"http://127.0.0.1:{api.port}", json.dumps(json.dumps(FLAVOR)))) as port:
            shown = browse(tmp_path, f"http://{STRANGER}:{port}/")
            origin = f"http://{STRANGER}:{port}"
        assert "opaque opaque opaque refused done" in shown
        assert seen.count(("POST", origin, 403)) == 3, "those of which the browser does not ask"
        assert ("POST", origin, 200) not in seen
        assert cloud.get("/v2.1/flavors") == {"flavors": []}

        rebound = browse(tmp_path, f"http://{STRANGER}:{api.port}/v2.1/flavors")
        assert "forbidden" in rebound
        assert '"flavors"' in browse(tmp_path, f"http://localhost:{api.port}/v2.1/flavors")
    finally:
        api.stop()
        cloud.close()
