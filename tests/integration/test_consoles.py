"""Consoles of a real guest: its screen in a real browser, its serial console in a terminal."""

import base64
import itertools
import json
import os
import pty
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import websocket

from tests.integration.test_standalone import Standalone
from tests.servers.libvirtd import Libvirtd
from tests.servers.private_server import free_ports
from tests.waiting import wait_for

pytestmark = pytest.mark.timeout(400)

# What noVNC has drawn: the number of different colours on its canvas.
COLOURS = """(() => {
  const canvas = document.querySelector("canvas");
  if (!canvas || !canvas.width) return 0;
  const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  const colours = new Set();
  for (let i = 0; i < data.length; i += 4) colours.add(data[i] << 16 | data[i + 1] << 8 | data[i + 2]);
  return colours.size;
})()"""


class Browser:
    """Chromium, by its DevTools protocol."""

    def __init__(self, folder: Path) -> None:
        command = ["/usr/bin/chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        command += ["--no-first-run", "--disable-background-networking", f"--user-data-dir={folder}"]
        command += ["--remote-debugging-port=0", "--remote-allow-origins=*", "about:blank"]
        with (folder / "log").open("wb") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        port_file = folder / "DevToolsActivePort"
        wait_for("the browser", lambda: port_file.exists() and len(port_file.read_text().splitlines()) == 2, 90)
        port, path = port_file.read_text().splitlines()
        self._socket = websocket.create_connection(f"ws://127.0.0.1:{port}{path}", timeout=60)
        self._numbers = itertools.count(1)
        self._session: dict[str, Any] = {}
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = {"sessionId": self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]}

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": parameters, **self._session}))
        while (answer := json.loads(self._socket.recv())).get("id") != number:
            continue
        assert "error" not in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    def evaluate(self, expression: str) -> Any:
        return self.ask("Runtime.evaluate", expression=expression)["result"].get("value")

    def screenshot(self, file: Path) -> None:
        file.write_bytes(base64.b64decode(self.ask("Page.captureScreenshot", format="png")["data"]))

    def close(self) -> None:
        self._socket.close()
        self._process.terminate()
        self._process.wait(30)


@contextmanager
def browser() -> Iterator[Browser]:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        browser = Browser(Path(folder))
        try:
            yield browser
        finally:
            browser.close()


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[Standalone]:
    with Libvirtd() as libvirtd:
        standalone = Standalone(tmp_path)
        proxy, first = free_ports(2)
        file = tmp_path / "minova.conf"
        file.write_text(
            file.read_text()
            + f"[libvirt]\nconnection_uri = {libvirtd.uri}\nvirt_type = qemu\n"
            + f"[consoleproxy]\nport = {proxy}\n"
            + f"[vnc]\nenabled = true\nnovncproxy_base_url = http://127.0.0.1:{proxy}/vnc_lite.html\n"
            + f"[serial_console]\nenabled = true\nbase_url = ws://127.0.0.1:{proxy}/\n"
            + f"port_range = {first}:{min(first + 50, 65535)}\n"
        )
        yield standalone
        standalone.kill()


def test_screen_and_serial_console(cloud: Standalone, guest_image: Path, tmp_path: Path) -> None:
    cloud.start()
    cloud.cli("image", "create", "guest", "--file", str(guest_image), "--disk-format", "qcow2")
    cloud.cli("server", "create", "vm", "--flavor", "m1.nano", "--image", "guest", "--wait")
    wait_for("READY", lambda: "MINOVA-GUEST READY" in cloud.cli("server", "console", "log", "vm"))
    serial_console_answers(cloud)
    serial_console_in_a_terminal(cloud)
    assert "hello-from-a-terminal" in cloud.cli("server", "console", "log", "vm"), "what is typed is logged, too"

    url = cloud.json("server", "console", "url", "show", "vm")["url"]
    with browser() as page:
        page.ask("Page.navigate", url=url)
        wait_for("the guest's screen", lambda: page.evaluate(COLOURS) > 1, 90)
        page.screenshot(tmp_path / "screen.png")
        assert (tmp_path / "screen.png").stat().st_size > 2000
        # The same address again: its token is used up.
        page.ask("Page.navigate", url=url)
        status = "document.getElementById('status') && document.getElementById('status').textContent"
        wait_for("the refusal", lambda: "connection is closed" in str(page.evaluate(status)), 60)

    cloud.cli("server", "stop", "vm", "--wait")
    stopped = subprocess.run(
        cloud.cli_command("server", "console", "url", "show", "vm"), capture_output=True, text=True, timeout=60
    )
    assert (stopped.returncode, "does not run" in stopped.stderr) == (1, True)
    cloud.cli("server", "delete", "vm", "--wait")


def serial_console_answers(cloud: Standalone) -> None:
    """By a pipe: what is typed reaches the guest's shell, and what it answers is printed."""
    with subprocess.Popen(
        cloud.cli_command("server", "console", "connect", "vm"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as terminal:
        assert terminal.stdin is not None
        assert terminal.stdout is not None
        terminal.stdin.write(b"echo $((6 * 7))-answered\n")
        terminal.stdin.flush()
        printed = b""
        while b"42-answered" not in printed:
            part = os.read(terminal.stdout.fileno(), 4096)
            assert part, (printed, terminal.stderr and terminal.stderr.read())
            printed += part
        terminal.stdin.write(b"\x1d")
        terminal.stdin.close()
        assert terminal.wait(30) == 0


def serial_console_in_a_terminal(cloud: Standalone) -> None:
    """On a terminal: Ctrl-C goes to the guest, Ctrl-] ends the connection."""
    command = cloud.cli_command("server", "console", "connect", "vm")
    child, terminal = pty.fork()
    if child == 0:
        os.execv(command[0], command)
    printed = b""

    def reads(text: bytes) -> None:
        """Up to this text, which is not read again."""
        nonlocal printed
        while text not in printed:
            printed += os.read(terminal, 4096)
        printed = printed.partition(text)[2]

    reads(b"Ctrl-] ends the connection")
    os.write(terminal, b"\n")
    reads(b"# ")
    # The echo of this line has no `begun`, so the program runs when it is read. A Ctrl-C before that may be lost.
    os.write(terminal, b"sh -c 'echo be\\gun; exec sleep 1000'\n")
    reads(b"begun")
    os.write(terminal, b"\x03")
    reads(b"# ")  # the guest's terminal forgets what is typed before it has handled Ctrl-C
    os.write(terminal, b"echo hello-from-a-terminal | cat\n")
    reads(b"\r\nhello-from-a-terminal")
    os.write(terminal, b"\x1d")
    assert os.waitpid(child, 0)[1] == 0
    os.close(terminal)
