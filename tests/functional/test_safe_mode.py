"""A whole cloud whose database is restored from an older backup, and an API that meets another database, over HTTP."""

import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import urllib3

from minova.api.app import SAFE_MODE
from minova.api.image.storage import recovery
from minova.api.image.store import YOUNG
from minova.cmd import api
from minova.compute.periodic import periodic_tasks
from minova.messaging.rpc import Rpc
from minova.objects.hosts.cloud import LOST, OTHER_CLOUD
from tests import backups
from tests.cluster import MEMORY, Cluster, configure
from tests.tables import make_tables
from tests.waiting import wait_for

IMAGE = {"name": "guest", "disk_format": "raw", "container_format": "bare"}
FLAVOR = {"name": "tiny", "ram": 64, "vcpus": 1, "disk": 1}


def ask(url: str, method: str, path: str, **what: Any) -> urllib3.BaseHTTPResponse:
    with urllib3.PoolManager() as http:
        return http.request(method, url + path, retries=False, timeout=60, **what)


def made(url: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
    answer = ask(url, "POST", path, json=body)
    assert answer.status < 300, answer.data
    document: dict[str, Any] = answer.json()
    return document


def make_image(url: str) -> str:
    image = str(made(url, "/v2/images", IMAGE)["id"])
    headers = {"Content-Type": "application/octet-stream"}
    assert ask(url, "PUT", f"/v2/images/{image}/file", body=b"\1" * 512, headers=headers).status == 204
    return image


def make_server(url: str, image: str) -> str:
    flavor = ask(url, "GET", "/v2.1/flavors").json()["flavors"]
    flavor_id = flavor[0]["id"] if flavor else made(url, "/v2.1/flavors", {"flavor": FLAVOR})["flavor"]["id"]
    server = {"name": "vm", "flavorRef": flavor_id, "imageRef": image}
    uuid = str(made(url, "/v2.1/servers", {"server": server})["server"]["id"])
    wait_for("the server runs", lambda: status_of(url, uuid) == "ACTIVE")
    return uuid


def status_of(url: str, uuid: str) -> str:
    return str(ask(url, "GET", f"/v2.1/servers/{uuid}").json()["server"]["status"])


def refused(url: str) -> urllib3.BaseHTTPResponse | None:
    answer = ask(url, "POST", "/v2/images", json=IMAGE)
    return answer if answer.status == 503 else None


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path, ["a"], report_interval=1) as cluster:
        yield cluster


def test_a_restored_cloud_serves_reads_and_changes_nothing(cluster: Cluster, tmp_path: Path) -> None:
    file, images = tmp_path / "controller" / "minova.sqlite", tmp_path / "controller" / "images"
    first = make_image(cluster.url)
    backups.take(file, tmp_path / "backup")
    counted = changes(file)
    image = make_image(cluster.url)
    server = make_server(cluster.url, image)
    # What is lost below one renewal of the lease is not seen.
    wait_for("the conductor has renewed its lease", lambda: changes(file) > counted + 2, 60)
    backups.restore(tmp_path / "backup", file)
    answer = wait_for("changes are refused", lambda: refused(cluster.url), 60)
    assert answer is not None
    assert "Safe mode" in answer.data.decode()
    assert int(answer.headers["Retry-After"]) > 0
    wait_for("the cloud is in safe mode", lambda: row(file)[1], 60)
    reads = ask(cluster.url, "GET", "/v2/images")
    assert (reads.status, reads.headers[SAFE_MODE]) == (200, LOST)
    assert first in {image["id"] for image in reads.json()["images"]}
    warned = cli(cluster.url, "service", "list", "--long")
    assert warned.returncode == 0
    assert warned.stderr.splitlines() == [f"minova: the cloud is in safe mode and changes nothing: {LOST}."]
    compute = cluster.computes["a"]._manager
    wait_for("the host knows it", lambda: compute.safe_mode.reason == LOST, 60)
    time.sleep(YOUNG)  # bytes that are younger are left in any case
    assert {path.name for path in images.iterdir()} >= {first, image}
    assert [domain.uuid for domain in compute.collaborators.own_driver.domains()] == [server]


def test_safe_mode_ends_by_itself_in_one_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All services of minova-standalone share one safe mode, and none of them keeps it on for what it has told another."""
    monkeypatch.setattr(periodic_tasks, "GUESTS_INTERVAL", 1.0)
    monkeypatch.setattr(recovery, "REPORT_INTERVAL", 1.0, raising=False)
    with Cluster(tmp_path, ["a"], report_interval=1) as cluster:
        file = tmp_path / "controller" / "minova.sqlite"
        make_image(cluster.url)
        backups.take(file, tmp_path / "backup")
        time.sleep(2)  # two reports, after which the services know a database that the backup is older than
        backups.restore(tmp_path / "backup", file)
        wait_for("the cloud is in safe mode", lambda: row(file)[1], 60)
        wait_for("safe mode has ended", lambda: row(file)[1] is None, 120)
        wait_for("changes are taken", lambda: refused(cluster.url) is None, 60)
        make_server(cluster.url, make_image(cluster.url))


def test_an_api_that_meets_another_database_changes_nothing(cluster: Cluster, tmp_path: Path) -> None:
    image = make_image(cluster.url)
    images = tmp_path / "controller" / "images"
    conf = configure(tmp_path / "second", host="second", api__images_path=str(images))
    make_tables(conf.database.connection)
    before, stopping = content(tmp_path / "second" / "minova.sqlite"), threading.Event()
    rpc = Rpc(conf, MEMORY)
    second = api.compose(conf, rpc, stopping)
    second.start()
    try:
        url = f"http://127.0.0.1:{second.port}"
        time.sleep(YOUNG)  # bytes that are younger are left in any case
        reads = ask(url, "GET", "/v2/images")
        assert (reads.status, reads.json()["images"], reads.headers[SAFE_MODE]) == (200, [], OTHER_CLOUD)
        assert refused(url) is not None
        assert image in {path.name for path in images.iterdir()}
        assert content(tmp_path / "second" / "minova.sqlite") == before
    finally:
        stopping.set()
        second.stop()
        rpc.close()
    assert ask(cluster.url, "GET", f"/v2/images/{image}/file").data == b"\1" * 512


def changes(file: Path) -> int:
    with closing(sqlite3.connect(file)) as connection:
        return int(connection.execute("SELECT max(number) FROM change_counters").fetchone()[0])


def cli(url: str, *words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-P", "-m", "minova.cli.main", "--url", url, *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def row(file: Path) -> tuple[str, float | None]:
    with closing(sqlite3.connect(file)) as connection:
        uuid, safe_since = connection.execute("SELECT uuid, safe_since FROM cloud").fetchone()
    return uuid, safe_since


def content(file: Path) -> list[str]:
    with closing(sqlite3.connect(file)) as connection:
        return list(connection.iterdump())
