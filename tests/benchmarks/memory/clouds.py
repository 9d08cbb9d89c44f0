"""Clouds of one large fake host whose processes keep their state when they are started again."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from tests.integration.deployment import Deployment
from tests.servers.postgresql import PostgreSQL
from tests.servers.private_server import free_ports
from tests.servers.rabbitmq import RabbitMQ
from tests.waiting import wait_for

# Of an audit: thirty times as often as by default.
INTERVAL = 2
HOST: dict[str, Any] = {
    "compute_driver": "fake",
    "fake_vcpus": 100_000,
    "fake_memory_mb": 10_000_000,
    "fake_local_gb": 100_000,
    "update_resources_interval": INTERVAL,
    "debug": "false",
}
QUOTA = {"instances": -1, "cores": -1, "ram": -1}


class Cloud(Protocol):
    """`metrics`: the page of the process that audits."""

    url: str
    metrics: str

    def running(self) -> contextlib.AbstractContextManager[Mapping[str, int]]:
        """Its processes, by name, as long as they run."""


class Standalone:
    def __init__(self, folder: Path) -> None:
        port, metrics = free_ports(2)
        self.url = f"http://127.0.0.1:{port}"
        self.metrics = f"http://127.0.0.1:{metrics}/metrics"
        file = folder / "minova.conf"
        api, page = {"osapi_compute_listen_port": port}, {"enabled": "true", "port": metrics}
        file.write_text(_text({"DEFAULT": HOST, "quota": QUOTA, "prometheus": page, "api": api}))
        program = Path(os.environ.get("MINOVA_PROGRAMS", Path(sys.executable).parent)) / "minova-standalone"
        self._words = [str(program), "--config-file", str(file), "--state-dir", str(folder / "state")]
        self._log = folder / "log"

    @contextlib.contextmanager
    def running(self) -> Iterator[Mapping[str, int]]:
        with self._log.open("wb") as log:
            process = subprocess.Popen(self._words, stdout=log, stderr=log)
        try:
            wait_for("ready", lambda: b"is ready" in self._log.read_bytes())
            yield {"standalone": process.pid}
        finally:
            process.terminate()
            process.wait(60)


class Apart:
    """Each service is a process of its own, with RabbitMQ and PostgreSQL."""

    def __init__(self, deployment: Deployment) -> None:
        (metrics,) = free_ports(1)
        self.url = deployment.url
        self.metrics = f"http://127.0.0.1:{metrics}/metrics"
        self._deployment = deployment
        deployment.compute("host", DEFAULT=HOST, prometheus={"enabled": "true", "port": metrics})
        deployment.manage("db", "upgrade")
        for service in deployment.services.values():
            # Not forked from a process that has imported all services: this one would share its memory.
            service.limit = list

    @contextlib.contextmanager
    def running(self) -> Iterator[Mapping[str, int]]:
        self._deployment.start()
        try:
            self._deployment.wait_up(timeout=180)
            yield {name.replace("host", "compute"): process.pid for name, process in self._deployment.services.items()}
        finally:
            for service in self._deployment.services.values():
                service.stop()


@contextlib.contextmanager
def made(kind: str, folder: Path) -> Iterator[Cloud]:
    if kind == "standalone":
        yield Standalone(folder)
        return
    usual: dict[str, dict[str, Any]] = {
        "DEFAULT": {"debug": "false", "report_interval": 10, "service_down_time": 60},
        "quota": QUOTA,
    }
    with (
        RabbitMQ() as rabbit,
        PostgreSQL() as database,
        Deployment(folder, rabbit.fresh_url(), database.fresh_url(), **usual) as deployment,
    ):
        yield Apart(deployment)


def _text(groups: Mapping[str, Mapping[str, Any]]) -> str:
    lines = [[f"[{name}]", *(f"{key} = {value}" for key, value in values.items())] for name, values in groups.items()]
    return "\n".join(line for group in lines for line in group) + "\n"
