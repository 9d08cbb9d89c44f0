"""A real process of minova-standalone: its page of figures, and a configuration that is read again on SIGHUP."""

import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
import urllib3

from tests.servers.private_server import free_ports
from tests.waiting import wait_for

DOCUMENT = Path(__file__).parents[2] / "docs" / "operators" / "metrics.md"


class Process:
    """`minova-standalone` on the fake hypervisor, auditing every second."""

    def __init__(self, folder: Path) -> None:
        self._conf, self._log = folder / "minova.conf", folder / "log"
        self.port, self.page = free_ports(2)
        self.write("reserved_host_memory_mb = 512")
        words = ["--config-file", str(self._conf), "--state-dir", str(folder / "state")]
        self.words = [str(Path(sys.executable).parent / "minova-standalone"), *words]

    def start(self) -> None:
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(self.words, stdout=log, stderr=log)

    def write(self, *lines: str) -> None:
        """The configuration, with these lines in [DEFAULT]."""
        text = [
            "[DEFAULT]",
            "compute_driver = fake",
            "compute_monitors = cpu.virt_driver",
            "update_resources_interval = 1",
            *lines,
            "[prometheus]\nenabled = true",
            f"port = {self.page}",
            f"[api]\nosapi_compute_listen_port = {self.port}",
        ]
        self._conf.write_text("\n".join(text) + "\n")

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def hang_up(self) -> None:
        self.process.send_signal(signal.SIGHUP)

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        answer = urllib3.request(method, f"http://127.0.0.1:{self.port}/v2.1{path}", json=body, timeout=30)
        assert answer.status < 300, answer.data
        return answer.json()

    def hypervisor(self) -> Any:
        return self.ask("GET", "/os-hypervisors/1")["hypervisor"]

    def figures(self) -> str:
        with urlopen(f"http://127.0.0.1:{self.page}/metrics", timeout=30) as answer:
            return str(answer.read().decode())


@pytest.fixture
def standalone(tmp_path: Path) -> Iterator[Process]:
    running = Process(tmp_path)
    running.start()
    try:
        wait_for("ready", lambda: "is ready" in running.log or running.process.poll() is not None)
        assert running.process.poll() is None, running.log[-3000:]
        yield running
    finally:
        running.process.terminate()
        assert running.process.wait(60) == 0, running.log[-3000:]


def test_a_process_shows_every_series_that_the_document_names(standalone: Process) -> None:
    standalone.ask("POST", "/os-hypervisors/1/action", {"audit": None})
    text = standalone.figures()
    shown = set(re.findall(r"^# TYPE (minova_\w+) ", text, re.MULTILINE))
    named = set(re.findall(r"^\| `(minova_\w+)", DOCUMENT.read_text(), re.MULTILINE))
    assert shown - {metric_name for metric_name in shown if metric_name.endswith("_created")} == named
    assert re.search(r'minova_audit_seconds_count\{result="ok"\} [1-9]', text)
    assert re.search(r'minova_rpc_seconds_count\{method="audit_node",result="ok",side="server"\} 1', text)
    assert "process_resident_memory_bytes" in text
    metrics = {metric["name"] for metric in standalone.ask("GET", "/os-hypervisors/1/overview")["overview"]["metrics"]}
    assert {"cpu.frequency", "cpu.user.time", "cpu.percent"} <= metrics


def test_sighup_changes_what_is_reserved_and_a_wrong_file_changes_nothing(standalone: Process) -> None:
    assert standalone.hypervisor()["memory_mb_used"] == 512
    standalone.write("reserved_host_memory_mb = 1024", "cpu_allocation_ratio = 2.0", "debug = true")
    standalone.hang_up()
    wait_for("the new amount", lambda: standalone.hypervisor()["memory_mb_used"] == 1024)
    ratios = standalone.ask("GET", "/os-hypervisors/1/overview")["overview"]["allocation_ratios"]
    assert ratios["cpu"] == 2.0
    wait_for("debugging", lambda: " DEBUG minova" in standalone.log)
    message = "The configuration stays as it was"
    for number, wrong in enumerate(("reserved_host_memory_mb = lots", "this is no option"), 1):
        standalone.write(wrong)
        standalone.hang_up()
        wait_for("an error", lambda n=number: standalone.log.count(message) == n)  # type: ignore[misc]
    standalone.ask("POST", "/os-hypervisors/1/action", {"audit": None})
    assert standalone.hypervisor()["memory_mb_used"] == 1024
    assert standalone.process.poll() is None


def test_who_loses_the_terminal_stops(tmp_path: Path) -> None:
    """As a shell does it: when its terminal closes, the process in the foreground gets SIGHUP. What Python has not written yet is no
    failure, as it was without PYTHONUNBUFFERED.
    """
    child, terminal = pty.fork()
    words = Process(tmp_path).words
    if child == 0:
        os.execve(words[0], words, {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"})
    output = b""
    while b"is ready" not in output:
        output += os.read(terminal, 65536)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
