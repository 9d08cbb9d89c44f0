"""The procedure of docs/operators/backup.md with separate processes: an older dump is restored, and nothing that runs dies."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import wait_for
from tests.integration import preloaded
from tests.integration.deployment import Deployment
from tests.servers.postgresql import client

pytestmark = pytest.mark.timeout(900)
HOST = "hv1"
CONTROLLERS = ("api", "scheduler", "conductor")


@pytest.fixture
def database_url(fresh_postgresql_url: Callable[[], str]) -> str:
    return fresh_postgresql_url()


@pytest.fixture
def cloud(tmp_path: Path, fresh_rabbit_url: Callable[[], str], database_url: str) -> Iterator[Deployment]:
    with Deployment(tmp_path, fresh_rabbit_url(), database_url, DEFAULT={"service_down_time": 60}) as deployment:
        deployment.compute(HOST, DEFAULT={"compute_driver": "fake", "fake_persistent": "true"})
        deployment.manage("db", "upgrade")
        deployment.start()
        deployment.wait_up(timeout=180)
        deployment.cli("flavor", "create", "tiny", "--ram", "128", "--disk", "1", "--vcpus", "1")
        yield deployment


def make(cloud: Deployment, folder: Path, name: str) -> str:
    """An image of this name, and a server that runs from it."""
    (folder / name).write_bytes(b"\1" * 512)
    cloud.cli("image", "create", name, "--file", str(folder / name), "--disk-format", "raw")
    cloud.cli("server", "create", name, "--flavor", "tiny", "--image", name)
    return str(cloud.wait_status(name, "ACTIVE", timeout=180)["id"])


def recovery(cloud: Deployment, *options: str) -> Any:
    return preloaded.run(["minova-manage", "--config-file", cloud.conf_file, "recovery", *options])


def test_an_older_dump_is_restored(cloud: Deployment, database_url: str, tmp_path: Path) -> None:
    first = make(cloud, tmp_path, "first")
    client("pg_dump", database_url, "--format=custom", "--file", tmp_path / "dump")
    second = make(cloud, tmp_path, "second")
    images = {path.name for path in (tmp_path / "controller" / "state" / "images").iterdir()}
    for name in CONTROLLERS:
        cloud.services[name].stop()
    client("pg_restore", database_url, "--clean", "--if-exists", "--single-transaction", tmp_path / "dump")
    for name in reversed(CONTROLLERS):
        cloud.services[name].start()

    wait_for("the CLI warns", lambda: "safe mode" in cloud.cli("server", "list", check=False), 180)
    refused = cloud.cli("server", "delete", first, check=False)
    assert "Safe mode" in refused

    def shown() -> str:
        done = recovery(cloud)
        assert done.returncode == 1, done.stderr
        text = str(done.stdout)
        return text if second in text and "No report yet" not in text and text.count("image ") else ""

    text = wait_for("host and image store have reported", shown, 240)
    assert first not in text
    done = recovery(cloud, "--apply")
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    for name, uuid in (("first", first), ("second", second)):
        assert cloud.wait_status(name, "ACTIVE", timeout=180)["id"] == uuid
    wait_for("changes are taken", lambda: "safe mode" not in cloud.cli("server", "list", check=False), 120)
    assert {path.name for path in (tmp_path / "controller" / "state" / "images").iterdir()} >= images
    cloud.cli("server", "stop", "second")
    cloud.wait_status("second", "SHUTOFF", timeout=180)
    make(cloud, tmp_path, "third")
    assert recovery(cloud).returncode == 0
