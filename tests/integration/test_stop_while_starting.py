"""SIGTERM reaches a service that waits for a broker or a database that is not there, or hangs. That is a clean stop."""

import signal
import socket
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.integration.deployment import Executable
from tests.servers.private_server import free_ports
from tests.waiting import wait_for


def stop(service: Executable) -> None:
    asked_at = time.monotonic()
    service.signal(signal.SIGTERM)
    assert service.wait(60) == 0, service.log
    assert time.monotonic() - asked_at < 10
    assert "stopped while it was starting" in service.log
    assert "secret" not in service.log


def test_a_service_that_waits_for_the_broker_stops_when_asked(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    default = {
        "state_path": tmp_path / "state",
        "compute_driver": "fake",
        "transport_url": f"rabbit://minova:secret@127.0.0.1:{port}/",
    }
    compute = Executable("minova-compute", tmp_path, {"DEFAULT": default})
    compute.start()
    try:
        wait_for("it tries", lambda: "Connection refused" in compute.log)
        stop(compute)
    finally:
        compute.kill()


@pytest.mark.parametrize("name", ["minova-placement-api", "minova-conductor"])
@pytest.mark.parametrize("hangs", [True, False])
def test_bug_stop_of_a_start_without_database_is_a_failure(tmp_path: Path, name: str, hangs: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        if not hangs:
            listener.close()
        options: dict[str, dict[str, Any]] = {
            "DEFAULT": {"state_path": tmp_path / "state", "transport_url": "kombu+memory://"},
            "database": {"connection": f"postgresql+psycopg://minova:secret@127.0.0.1:{port}/minova"},
            "placement": {"listen_port": free_ports(1)[0]},
        }
        service = Executable(name, tmp_path, options)
        service.limit = list  # the executable itself
        service.start()
        try:
            if hangs:
                assert service.pid is not None
                process = psutil.Process(service.pid)
                wait_for(
                    "it tries",
                    lambda: any(each.raddr and each.raddr.port == port for each in process.net_connections()),
                )
            else:
                wait_for("it tries", lambda: "trying again until it works" in service.log)
            stop(service)
        finally:
            service.kill()
