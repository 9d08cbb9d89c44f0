"""Chromium without a window, driven over its debugging protocol."""

import base64
import contextlib
import json
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import websocket

from tests.waiting import wait_for

# Seconds, on a busy machine.
WITHIN = 180.0


class Browser:
    """`bad`: the answers with a status of 400 or more since it was emptied."""

    def __init__(self, url: str) -> None:
        self._socket = websocket.create_connection(url, timeout=WITHIN, suppress_origin=True)
        self._number = 0
        self.bad: list[str] = []
        for domain in ("Page", "Network", "Runtime"):
            self._call(f"{domain}.enable")

    def _call(self, method: str, **parameters: Any) -> Any:
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.recv())
            if message.get("id") == self._number:
                assert "error" not in message, (method, message["error"])
                return message["result"]
            if message.get("method") == "Network.responseReceived":
                response = message["params"]["response"]
                if response["status"] >= 400:
                    self.bad.append(f"{response['status']} {response['url']}")

    def run(self, script: str) -> Any:
        """Returns the value of an expression, also of a promise."""
        evaluated = self._call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in evaluated, (script, evaluated["exceptionDetails"])
        return evaluated["result"].get("value")

    def open(self, url: str) -> None:
        self._call("Page.navigate", url=url)
        wait_for(
            url,
            lambda: self.run("document.readyState") == "complete" and self.run("location.href") != "about:blank",
            WITHIN,
        )

    def wait_for(self, script: str) -> None:
        wait_for(script, lambda: self.run(script), WITHIN)

    def picture(self, file: Path) -> None:
        file.write_bytes(base64.b64decode(self._call("Page.captureScreenshot", format="png")["data"]))


@contextlib.contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """`folder`: of its profile."""
    words = [
        "chromium",
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--window-size=1400,1000",
    ]
    words += ["--remote-debugging-port=0", f"--user-data-dir={folder}", "about:blank"]
    with (folder / "log").open("wb") as log, subprocess.Popen(words, stdout=log, stderr=log) as process:
        try:
            told = folder / "DevToolsActivePort"
            wait_for("chromium", lambda: told.exists() and "\n" in told.read_text(), WITHIN)
            port = told.read_text().splitlines()[0]
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/json", timeout=WITHIN) as answer:
                pages = [each for each in json.load(answer) if each["type"] == "page"]
            yield Browser(pages[0]["webSocketDebuggerUrl"])
        finally:
            process.terminate()
