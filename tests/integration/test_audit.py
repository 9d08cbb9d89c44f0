"""What an audit finds on real hosts: domains of no instance, domains that must not be there, nodes that are gone."""

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import libvirt
import pytest
from sqlalchemy import delete, select, update

from minova.db import models
from minova.db.engine import Database
from tests.integration.deployment import Deployment
from tests.integration.leftovers import leftovers
from tests.servers.libvirtd import Libvirtd
from tests.waiting import wait_for

pytestmark = pytest.mark.timeout(300)

REAL, BOOKS = "hv-real", "hv-books"
STRANGER_MB = 96
STRANGER = f"""\
<domain type='qemu'>
  <name>stranger</name><memory unit='MiB'>{STRANGER_MB}</memory><vcpu>1</vcpu>
  <os><type arch='x86_64' machine='pc'>hvm</type></os>
</domain>
"""


@pytest.fixture(scope="module")
def libvirtd() -> Iterator[Libvirtd]:
    """One of its own: strangers would disturb other tests."""
    with Libvirtd() as server:
        yield server


@pytest.fixture(scope="module")
def database(fresh_postgresql_url: Callable[[], str]) -> Iterator[Database]:
    database = Database(fresh_postgresql_url())
    yield database
    database.close()


@pytest.fixture(scope="module")
def cloud(
    tmp_path_factory: pytest.TempPathFactory,
    fresh_rabbit_url: Callable[[], str],
    database: Database,
    libvirtd: Libvirtd,
    guest_image: Path,
) -> Iterator[Deployment]:
    url = database.engine.url.render_as_string(hide_password=False)
    with Deployment(tmp_path_factory.mktemp("cloud"), fresh_rabbit_url(), url) as deployment:
        deployment.compute(REAL, libvirt={"connection_uri": libvirtd.uri, "virt_type": "qemu"})
        deployment.compute(BOOKS, DEFAULT={"compute_driver": "fake", "fake_nodes": "n1,n2"})
        deployment.manage("db", "upgrade")
        deployment.start()
        deployment.wait_up()
        deployment.cli("flavor", "create", "tiny", "--ram", "128", "--disk", "1", "--vcpus", "1")
        deployment.cli("image", "create", "guest", "--file", str(guest_image), "--disk-format", "qcow2")
        yield deployment


@pytest.fixture
def connection(libvirtd: Libvirtd) -> Iterator[libvirt.virConnect]:
    connection = libvirt.open(libvirtd.uri)
    yield connection
    connection.close()


def nodes(cloud: Deployment) -> dict[str, Any]:
    return {row["Hypervisor Hostname"]: row for row in cloud.json("hypervisor", "list")}


def used_mb(cloud: Deployment) -> int:
    (node,) = [name for name, row in nodes(cloud).items() if row["Type"] == "QEMU"]
    return int(cloud.json("hypervisor", "show", node)["memory_mb_used"])


def test_a_domain_started_behind_its_back_counts_and_is_left_alone(
    cloud: Deployment, connection: libvirt.virConnect
) -> None:
    before = used_mb(cloud)
    stranger = connection.createXML(STRANGER)
    try:
        wait_for("it counts", lambda: used_mb(cloud) == before + STRANGER_MB)
        assert f"holds {STRANGER_MB} MB for no instance of this host" in cloud.services[REAL].log
        # An audit later, and after a restart of the compute, it still runs.
        cloud.services[REAL].signal(signal.SIGTERM)
        assert cloud.services[REAL].wait() == 0
        cloud.services[REAL].start()
        cloud.wait_up(REAL)
        wait_for("it counts again", lambda: used_mb(cloud) == before + STRANGER_MB)
        assert stranger.isActive()
    finally:
        stranger.destroy()
    wait_for("it counts no more", lambda: used_mb(cloud) == before)


def test_what_is_done_behind_its_back_to_a_guest_and_its_rows(
    cloud: Deployment, connection: libvirt.virConnect, database: Database
) -> None:
    zone = ["--availability-zone", f"nova:{REAL}"]
    cloud.cli("server", "create", "victim", "--flavor", "tiny", "--image", "guest", *zone, "--wait")
    uuid = cloud.server("victim")["id"]
    domain = connection.lookupByUUIDString(uuid)
    # Its row says another host: it is unknown how it went there, so it runs on.
    of_instance = update(models.Instance).where(models.Instance.uuid == uuid)
    database.run(lambda session: session.execute(of_instance.values(host=BOOKS)))
    message = f"the domain of instance {uuid} is here, but its row says host {BOOKS}"
    wait_for("it is told of", lambda: message in cloud.services[REAL].log)
    assert domain.isActive()
    database.run(lambda session: session.execute(of_instance.values(host=REAL)))
    # Its allocation goes.
    held = models.Allocation.consumer_uuid == uuid
    database.run(lambda session: session.execute(delete(models.Allocation).where(held)))
    wait_for("it is restored", lambda: "restored allocations" in cloud.services[REAL].log)
    with database.read() as session:
        assert session.scalars(select(models.Allocation).where(held)).all()
    # The guest is killed.
    domain.destroy()
    wait_for("it is seen", lambda: cloud.server("victim")["OS-EXT-STS:power_state"] in {0, 4})
    cloud.cli("server", "delete", "victim", "--wait")


def test_what_was_deleted_while_its_host_was_away_is_removed_when_the_host_is_back(
    cloud: Deployment, libvirtd: Libvirtd, connection: libvirt.virConnect, database: Database
) -> None:
    zone = ["--availability-zone", f"nova:{REAL}"]
    cloud.cli("server", "create", "left", "--flavor", "tiny", "--image", "guest", *zone, "--wait")
    cloud.services[REAL].kill()
    wait_for("the host is down", lambda: state(cloud, REAL) == "down", 60)
    cloud.cli("server", "delete", "left", "--wait")
    # The domain is out of reach for now.
    assert len(connection.listAllDomains()) == 1
    cloud.services[REAL].start()
    wait_for("nothing is left", lambda: leftovers(database, libvirtd.uri, cloud.folder / REAL) == [], 60)
    cloud.wait_up(REAL)


def test_a_node_that_its_host_no_longer_has_is_gone_after_an_audit(cloud: Deployment) -> None:
    service = cloud.services[BOOKS]
    assert {"n1", "n2"} <= nodes(cloud).keys()
    assert service.stop() == 0
    service.conf_file.write_text(service.conf_file.read_text().replace("n1,n2", "n2"))
    service.start()
    wait_for("n1 is gone", lambda: "n1" not in nodes(cloud), 60)
    assert "n2" in nodes(cloud)
    assert "Deleting orphan compute node n1" in service.log


def state(cloud: Deployment, host: str) -> str:
    (row,) = [row for row in cloud.json("service", "list") if row["Host"] == host]
    return str(row["State"])


def test_a_hypervisor_that_is_away_when_its_compute_starts(cloud: Deployment, libvirtd: Libvirtd) -> None:
    service = cloud.services[REAL]
    assert service.stop() == 0
    libvirtd.kill()
    try:
        service.start()
        wait_for("it is reported down", lambda: state(cloud, REAL) == "down")
        cloud.cli("server", "create", "elsewhere", "--flavor", "tiny", "--image", "guest", "--wait")
        assert cloud.server("elsewhere")["OS-EXT-SRV-ATTR:host"] == BOOKS
        assert "Traceback" not in service.log
    finally:
        libvirtd.start()
    cloud.wait_up(REAL)
    zone = ["--availability-zone", f"nova:{REAL}"]
    cloud.cli("server", "create", "here", "--flavor", "tiny", "--image", "guest", *zone, "--wait")
    for name in ("elsewhere", "here"):
        cloud.cli("server", "delete", name, "--wait")
