"""SIGTERM reaches a service that waits for a broker which is not there."""

import time
from pathlib import Path

from tests.integration.deployment import Executable
from tests.servers.private_server import free_ports
from tests.waiting import wait_for


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
        asked_at = time.monotonic()
        compute.stop()
    finally:
        compute.kill()
    assert time.monotonic() - asked_at < 20
    assert "stopped while it was starting" in compute.log
    assert "secret" not in compute.log
