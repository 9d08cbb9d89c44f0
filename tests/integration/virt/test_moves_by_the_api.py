"""Servers are resized and migrated by the API between two hosts with a libvirt of their own."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import urllib3

from minova.db.engine import Database
from tests.integration.deployment import Deployment
from tests.servers.libvirtd_peers import peers
from tests.waiting import wait_for

pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def cloud(
    tmp_path: Path,
    fresh_rabbit_url: Callable[[], str],
    fresh_postgresql_url: Callable[[], str],
    guest_image: Path,
) -> Iterator[Deployment]:
    with ExitStack() as stack:
        database = Database(fresh_postgresql_url())
        stack.callback(database.close)
        url = database.engine.url.render_as_string(hide_password=False)
        deployment = stack.enter_context(Deployment(tmp_path, fresh_rabbit_url(), url))
        for server, ports in zip(stack.enter_context(peers()), ("49216:49239", "49240:49263"), strict=True):
            libvirt = {"connection_uri": server.uri, "virt_type": "qemu", "disk_export_ports": ports}
            deployment.compute(server.host, DEFAULT={"my_ip": "127.0.0.1"}, libvirt=libvirt)
        deployment.manage("db", "upgrade")
        deployment.start()
        deployment.wait_up()
        deployment.cli("flavor", "create", "tiny", "--ram", "128", "--disk", "1", "--vcpus", "1")
        deployment.cli("flavor", "create", "large", "--ram", "160", "--disk", "2", "--vcpus", "1", "--swap", "16")
        deployment.cli("image", "create", "guest", "--file", str(guest_image), "--disk-format", "qcow2")
        yield deployment


def act(cloud: Deployment, uuid: str, **body: Any) -> None:
    path = f"{cloud.url}/v2.1/servers/{uuid}/action"
    answer = urllib3.request("POST", path, json=body, headers={"OpenStack-API-Version": "compute 2.56"}, timeout=60)
    assert answer.status in {202, 204}, answer.data


def boots(cloud: Deployment, uuid: str, times: int) -> None:
    """The count is on the disk of the guest."""
    words = f"MINOVA-GUEST BOOTS {times}"
    wait_for(words, lambda: words in cloud.cli("console", "log", "show", uuid, check=False), 180)


@pytest.mark.nightly("boots at each step; test_cold_moves.py has the disks")
def test_a_guest_is_resized_and_migrated_and_keeps_its_disk(cloud: Deployment) -> None:
    cloud.cli("server", "create", "web", "--flavor", "tiny", "--image", "guest", "--config-drive")
    server = cloud.wait_status("web", "ACTIVE")
    uuid = server["id"]
    boots(cloud, uuid, 1)
    large = next(row["ID"] for row in cloud.json("flavor", "list") if row["Name"] == "large")
    act(cloud, uuid, resize={"flavorRef": large})
    assert cloud.wait_status(uuid, "VERIFY_RESIZE", "ERROR", timeout=240)["status"] == "VERIFY_RESIZE", cloud.logs()
    boots(cloud, uuid, 2)
    act(cloud, uuid, confirmResize=None)
    cloud.wait_status(uuid, "ACTIVE")
    act(cloud, uuid, migrate=None)
    cloud.wait_status(uuid, "VERIFY_RESIZE", timeout=240)
    boots(cloud, uuid, 3)
    act(cloud, uuid, revertResize=None)
    cloud.wait_status(uuid, "ACTIVE", timeout=240)
    # What the guest has written since the move is lost, as its count shows.
    boots(cloud, uuid, 3)
    folders = [path.parent for path in cloud.folder.glob("hv*/state/instances/*/owner.json")]
    assert len(folders) == 1
