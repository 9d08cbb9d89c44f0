"""`GET /servers/{id}/diagnostics`: two shapes, and each "no" with its reason."""

import time
import uuid
from typing import Any

import pytest

from minova import errors
from minova.db import models
from minova.objects.guests.diagnostics import CpuUse, DiskUse, GuestDiagnostics, NicUse
from tests.functional.api.compute.test_flavors_and_hosts import service
from tests.functional.api.conftest import Cloud, at

MAC = "fa:16:3e:00:00:01"
COUNTED = GuestDiagnostics(
    driver="libvirt",
    hypervisor="qemu",
    memory_kb=131072,
    used_kb=131000,
    memory_stats={"rss": 99},
    cpus=(CpuUse(id=0, time=5_000_000_000),),
    disks=(
        DiskUse(device="vda", read_requests=1, read_bytes=2, write_requests=3, write_bytes=4, errors=-1),
        DiskUse(device="vdb"),
    ),
    nics=(
        NicUse(
            device="tap0",
            mac_address=MAC,
            rx_octets=1,
            rx_packets=2,
            rx_errors=3,
            rx_drop=4,
            tx_octets=5,
            tx_packets=6,
            tx_errors=7,
            tx_drop=8,
        ),
    ),
)


@pytest.fixture
def server(stocked: Cloud) -> str:
    """On a host that is up; its guest has the counts above."""
    server_id = str(stocked.make_server()["id"])
    stocked.conductor.edit(server_id, host="h1", vm_state="active")
    stocked.conductor.add(service(1, "h1"), service(2, "h2"))
    stocked.conductor.add(models.Heartbeat(service_id=1, last_seen=time.time()))
    stocked.consoles.diagnostics[server_id] = COUNTED
    return server_id


def ask(cloud: Cloud, server: str, version: str = "2.48") -> tuple[int, Any]:
    return cloud.ask("GET", f"/v2.1/servers/{server}/diagnostics", **at(version))


def test_shape_of_2_48_is_the_same_for_all_drivers(stocked: Cloud, server: str) -> None:
    status, shown = ask(stocked, server)
    assert status == 200
    assert shown.pop("uptime") is None
    assert shown == {
        "state": "running",
        "driver": "libvirt",
        "hypervisor": "qemu",
        "hypervisor_os": "linux",
        "config_drive": False,
        "memory_details": {"maximum": 128, "used": 127},
        "cpu_details": [{"id": 0, "time": 5_000_000_000, "utilisation": None}],
        "nic_details": [
            {
                "mac_address": MAC,
                "rx_octets": 1,
                "rx_packets": 2,
                "rx_errors": 3,
                "rx_drop": 4,
                "rx_rate": None,
                "tx_octets": 5,
                "tx_packets": 6,
                "tx_errors": 7,
                "tx_drop": 8,
                "tx_rate": None,
            }
        ],
        "disk_details": [
            {"read_requests": 1, "read_bytes": 2, "write_requests": 3, "write_bytes": 4, "errors_count": -1},
            dict.fromkeys(("read_requests", "read_bytes", "write_requests", "write_bytes", "errors_count")),
        ],
        "num_cpus": 1,
        "num_nics": 1,
        "num_disks": 2,
    }


def test_shape_before_has_libvirts_words(stocked: Cloud, server: str) -> None:
    assert ask(stocked, server, "2.47") == (
        200,
        {
            "cpu0_time": 5_000_000_000,
            "vda_read_req": 1,
            "vda_read": 2,
            "vda_write_req": 3,
            "vda_write": 4,
            "vda_errors": -1,
            "tap0_rx": 1,
            "tap0_rx_packets": 2,
            "tap0_rx_errors": 3,
            "tap0_rx_drop": 4,
            "tap0_tx": 5,
            "tap0_tx_packets": 6,
            "tap0_tx_errors": 7,
            "tap0_tx_drop": 8,
            "memory": 131072,
            "memory-rss": 99,
        },
    )


@pytest.mark.parametrize(
    ("host", "failure", "status", "text"),
    [
        (None, None, 409, "is not ready"),
        ("h2", None, 409, "the compute service of its host is unavailable at this time"),
        ("h1", errors.Conflict("Cannot 'get_diagnostics' instance x while it is in power state paused"), 409, "paused"),
        ("h1", errors.NoAnswer("h1 has not answered"), 503, "h1 has not answered"),
        ("h1", errors.NotFound("no domain"), 404, "no domain"),
    ],
)
def test_each_no_has_its_reason(
    stocked: Cloud, server: str, host: str | None, failure: Exception | None, status: int, text: str
) -> None:
    stocked.conductor.edit(server, host=host)
    if failure is not None:
        stocked.consoles.diagnostics[server] = failure
    answered, document = ask(stocked, server)
    (fault,) = document.values()
    assert (answered, text in fault["message"]) == (status, True)


def test_unknown_server_is_not_found(stocked: Cloud) -> None:
    assert ask(stocked, str(uuid.uuid4()))[0] == 404
