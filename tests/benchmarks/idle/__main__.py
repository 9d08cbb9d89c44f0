"""How much memory an idle minova-standalone takes, with many servers on the fake hypervisor.

Its node is audited every two seconds, thirty times as often as by default. The resident memory is printed as audits go by: it should not grow after the first
ones.
"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import urllib3

from tests.benchmarks.command_line import Option, parse
from tests.cluster import wait_for
from tests.servers.private_server import free_ports

TOGETHER = 50
LOOKS = 6
OPTIONS = """[DEFAULT]
compute_driver = fake
fake_vcpus = 100000
fake_memory_mb = 10000000
fake_local_gb = 100000
update_resources_interval = 2
[quota]
instances = -1
cores = -1
ram = -1
[prometheus]
enabled = true
port = {metrics}
[api]
osapi_compute_listen_port = {port}
"""


class Standalone:
    """`folder`: keeps its state, so that a later run finds the servers."""

    def __init__(self, folder: Path) -> None:
        port, metrics = free_ports(2)
        self._url = f"http://127.0.0.1:{port}"
        self._metrics = f"http://127.0.0.1:{metrics}/metrics"
        self._http = urllib3.PoolManager()
        file = folder / "minova.conf"
        file.write_text(OPTIONS.format(port=port, metrics=metrics))
        program = Path(os.environ.get("MINOVA_PROGRAMS", Path(sys.executable).parent)) / "minova-standalone"
        self._words = [str(program), "--config-file", str(file), "--state-dir", str(folder / "state")]
        self._log = folder / "log"

    @contextlib.contextmanager
    def running(self) -> Iterator[psutil.Process]:
        with self._log.open("wb") as log:
            process = subprocess.Popen(self._words, stdout=log, stderr=log)
        try:
            wait_for("ready", lambda: b"is ready" in self._log.read_bytes())
            yield psutil.Process(process.pid)
        finally:
            process.terminate()
            process.wait(60)

    def ask(self, method: str, path: str, **what: Any) -> Any:
        patience = urllib3.Retry(10, status_forcelist=[503], allowed_methods=None, raise_on_status=False)
        answer = self._http.request(method, self._url + path, timeout=120, retries=patience, **what)
        assert answer.status < 300, (path, answer.status, answer.data)
        return json.loads(answer.data) if answer.data else None

    def fill(self, servers: int) -> None:
        body = {"name": "i", "disk_format": "raw", "container_format": "bare"}
        image = self.ask("POST", "/v2/images", json=body)["id"]
        binary = {"Content-Type": "application/octet-stream"}
        self.ask("PUT", f"/v2/images/{image}/file", body=b"\1" * 512, headers=binary)
        self.ask("POST", "/v2.1/flavors", json={"flavor": {"name": "f", "id": "f", "vcpus": 1, "ram": 64, "disk": 1}})
        for _ in range(servers // TOGETHER):
            server = {"name": "s", "flavorRef": "f", "imageRef": image, "min_count": TOGETHER, "networks": "none"}
            headers = {"OpenStack-API-Version": "compute 2.37"}
            self.ask("POST", "/v2.1/servers", json={"server": server}, headers=headers)
        wait_for("active servers", lambda: self.running_vms() >= servers, 1200)

    def running_vms(self) -> int:
        return int(self.ask("GET", "/v2.1/os-hypervisors/statistics")["hypervisor_statistics"]["running_vms"])

    def audits(self) -> float:
        page = self._http.request("GET", self._metrics, timeout=60).data.decode()
        counts = (line for line in page.splitlines() if line.startswith('minova_audit_seconds_count{result="ok"}'))
        return sum(float(line.rpartition(" ")[2]) for line in counts)


def main() -> None:
    options = parse(
        "idle", __doc__, Option("servers", 2000, 100, "servers"), Option("audits", 10, 2, "audits between two figures")
    )
    with tempfile.TemporaryDirectory(prefix="minova-idle-") as temporary:
        folder = Path(os.environ.get("MINOVA_IDLE_STATE", temporary))
        standalone = Standalone(folder)
        if not (folder / "state").exists():
            with standalone.running():
                standalone.fill(options.servers)
        with standalone.running() as process:
            for _ in range(LOOKS):
                until = standalone.audits() + options.audits
                wait_for("audits", lambda: standalone.audits() >= until, 1200)  # noqa: B023
                print(f"{standalone.audits():>6.0f} audits {process.memory_info().rss / 2**20:>8.1f} MB", flush=True)
                time.sleep(0)


if __name__ == "__main__":
    main()
