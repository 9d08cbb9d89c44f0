"""`/os-hosts`, as clients of before 2.43 use it."""

import time
import uuid
from datetime import datetime
from typing import Any

import pytest

from minova.db import models
from tests.functional.api.conftest import Cloud

AT = datetime.fromisoformat("2026-11-21T12:30:00")
HOSTS = "/v2.1/os-hosts"


@pytest.fixture
def hosts(cloud: Cloud) -> Cloud:
    """`h1` and `h2` with a node each, and a conductor."""
    for number, (host, topic) in enumerate([("h1", "compute"), ("h2", "compute"), ("c", "conductor")], start=1):
        kinds = {"binary": f"minova-{topic}", "topic": topic, "created_at": AT}
        cloud.conductor.add(models.Service(id=number, uuid=str(uuid.uuid4()), host=host, **kinds))
        cloud.conductor.add(models.Heartbeat(service_id=number, last_seen=time.time()))
    for host in ("h1", "h2"):
        sizes = {"vcpus": 8, "vcpus_used": 1, "memory_mb": 4096, "memory_mb_used": 640, "local_gb": 100}
        node = models.ComputeNode(uuid=str(uuid.uuid4()), host=host, hypervisor_hostname=host, created_at=AT, **sizes)
        cloud.conductor.add(node)
    return cloud


def names(cloud: Cloud, query: str = "") -> list[tuple[str, str, str]]:
    hosts = cloud.get(f"{HOSTS}{query}")["hosts"]
    return [(host["host_name"], host["service"], host["zone"]) for host in hosts]


def test_hosts_of_a_zone_are_listed_without_those_that_are_disabled(hosts: Cloud) -> None:
    everything = [("h1", "compute", "nova"), ("h2", "compute", "nova"), ("c", "conductor", "internal")]
    assert names(hosts) == names(hosts, "?zone=") == everything
    assert names(hosts, "?zone=nova") == everything[:2]
    assert names(hosts, "?zone=elsewhere") == []
    assert hosts.ask("PUT", f"{HOSTS}/h1", {"status": "Disable"}) == (200, {"host": "h1", "status": "disabled"})
    assert names(hosts, "?zone=nova") == everything[1:2]
    assert hosts.ask("PUT", f"{HOSTS}/h1", {"status": "enable"}) == (200, {"host": "h1", "status": "enabled"})
    assert names(hosts) == everything


def test_host_shows_what_is_used_in_all_and_by_each_project(hosts: Cloud) -> None:
    stocked = hosts.with_catalogue()
    for name in ("one", "two"):
        stocked.conductor.edit(stocked.make_server(name)["id"], host="h1", node="h1")
    shown: list[Any] = [host_entry["resource"] for host_entry in stocked.get(f"{HOSTS}/h1")["host"]]
    assert {resource["host"] for resource in shown} == {"h1"}
    assert {
        resource["project"]: (resource["cpu"], resource["memory_mb"], resource["disk_gb"]) for resource in shown
    } == {
        "(total)": (8, 4096, 100),
        "(used_now)": (1, 640, 0),
        "(used_max)": (2, 256, 2),
        "admin": (2, 256, 2),
    }
    assert len(stocked.get(f"{HOSTS}/h2")["host"]) == 3


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "unknown", None, 404),
        ("GET", "c", None, 404),
        ("PUT", "unknown", {"status": "enable"}, 404),
        ("PUT", "h1", {"status": "maybe"}, 400),
        ("PUT", "h1", {"maintenance_mode": ""}, 400),
        ("PUT", "h1", {}, 400),
        ("PUT", "h1", {"status": "disable", "maintenance_mode": "enable"}, 501),
        ("GET", "h1/reboot", None, 501),
        ("GET", "h1/startup", None, 501),
        ("GET", "unknown/shutdown", None, 404),
    ],
)
def test_refusals(hosts: Cloud, method: str, path: str, body: Any, status: int) -> None:
    assert hosts.ask(method, f"{HOSTS}/{path}", body)[0] == status
    assert len(names(hosts)) == 3, "nothing is changed"


def test_hosts_end_with_2_42(hosts: Cloud) -> None:
    for version, status in (("2.42", 200), ("2.43", 404)):
        headers = {"OpenStack-API-Version": f"compute {version}"}
        assert hosts.ask("GET", HOSTS, headers=headers)[0] == status
