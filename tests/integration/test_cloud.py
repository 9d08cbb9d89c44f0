"""The executables as separate processes, over RabbitMQ and PostgreSQL; one compute on real QEMU, one with books."""

import random
import signal
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from minova.db.engine import Database
from tests.integration.deployment import Deployment
from tests.integration.leftovers import leftovers
from tests.nightly import daily
from tests.servers.libvirtd import Libvirtd
from tests.servers.rabbitmq import RabbitMQ
from tests.waiting import wait_for

pytestmark = pytest.mark.timeout(600)

REAL, BOOKS = "hv-real", "hv-books"


@pytest.fixture(scope="module")
def database_url(fresh_postgresql_url: Callable[[], str]) -> str:
    return fresh_postgresql_url()


@pytest.fixture(scope="module")
def cloud(
    tmp_path_factory: pytest.TempPathFactory,
    fresh_rabbit_url: Callable[[], str],
    database_url: str,
    libvirt_uri: str,
    guest_image: Path,
) -> Iterator[Deployment]:
    # A service that is killed and started again on a busy machine must not look dead.
    patient = {"service_down_time": 30}
    with Deployment(tmp_path_factory.mktemp("cloud"), fresh_rabbit_url(), database_url, DEFAULT=patient) as deployment:
        deployment.compute(REAL, libvirt={"connection_uri": libvirt_uri, "virt_type": "qemu"})
        deployment.compute(BOOKS, DEFAULT={"compute_driver": "fake"})
        deployment.manage("db", "upgrade")
        deployment.start()
        deployment.wait_up()
        deployment.cli("flavor", "create", "tiny", "--ram", "128", "--disk", "1", "--vcpus", "1")
        deployment.cli("image", "create", "guest", "--file", str(guest_image), "--disk-format", "qcow2")
        yield deployment


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    database = Database(database_url)
    yield database
    database.close()


def create(cloud: Deployment, name: str, *more: str, host: str = REAL) -> None:
    zone = ["--availability-zone", f"nova:{host}"] if host else []
    cloud.cli("server", "create", name, "--flavor", "tiny", "--image", "guest", *zone, *more)


def remove(cloud: Deployment, name: str) -> None:
    cloud.cli("server", "delete", name)
    wait_for(f"{name} is gone", lambda: name not in cloud.cli("server", "list"))


def test_a_guest_boots_to_ready_and_is_deleted_without_a_trace(
    cloud: Deployment, libvirtd: Libvirtd, database: Database
) -> None:
    create(cloud, "first", "--wait")
    shown = cloud.server("first")
    assert (shown["status"], shown["OS-EXT-SRV-ATTR:host"]) == ("ACTIVE", REAL)
    wait_for("READY", lambda: "MINOVA-GUEST READY" in cloud.cli("server", "console", "log", "first"))
    (node,) = [row["Hypervisor Hostname"] for row in cloud.json("hypervisor", "list") if row["Type"] == "QEMU"]
    assert cloud.json("hypervisor", "show", node)["running_vms"] == 1
    remove(cloud, "first")
    wait_for("nothing is left", lambda: leftovers(database, libvirtd.uri, cloud.folder / REAL) == [])


def test_a_compute_has_no_database_and_no_file_of_the_controller(cloud: Deployment) -> None:
    for host in (REAL, BOOKS):
        assert "connection = postgresql" not in cloud.services[host].conf_file.read_text()
    assert not (cloud.folder / REAL / "state" / "images").exists()
    assert (cloud.folder / "controller" / "state" / "images").exists()


@pytest.mark.parametrize("round_", daily(range(3), (1,), "another moment of the build"))
def test_the_conductor_killed_in_the_middle_of_a_build(cloud: Deployment, round_: int) -> None:
    name = f"orphaned-{round_}"
    create(cloud, name)
    time.sleep(random.Random(round_).uniform(0, 0.4))  # each round meets the build at another moment
    cloud.services["conductor"].kill()
    time.sleep(1)  # the host reports meanwhile that it has built the guest, and nothing answers
    cloud.services["conductor"].start()
    cloud.wait_status(name, "ACTIVE")
    remove(cloud, name)


@pytest.mark.parametrize("round_", daily(range(3), (1,), "another moment of the build"))
def test_the_compute_killed_in_the_middle_of_a_build(
    cloud: Deployment, libvirtd: Libvirtd, database: Database, round_: int
) -> None:
    name = f"dropped-{round_}"
    create(cloud, name)
    time.sleep(random.Random(round_).uniform(0, 0.8))  # each round meets the build at another moment
    cloud.services[REAL].kill()
    cloud.services[REAL].start()
    cloud.wait_status(name, "ACTIVE")
    remove(cloud, name)
    wait_for("nothing is left", lambda: leftovers(database, libvirtd.uri, cloud.folder / REAL) == [])


def test_libvirtd_dies_builds_go_elsewhere_and_it_recovers(cloud: Deployment, libvirtd: Libvirtd) -> None:
    libvirtd.kill()
    try:
        wait_for("reported down", lambda: _state(cloud, REAL) == "down")
        create(cloud, "elsewhere", "--wait", host="")
        assert cloud.server("elsewhere")["OS-EXT-SRV-ATTR:host"] == BOOKS
    finally:
        libvirtd.start()
    wait_for("up again", lambda: _state(cloud, REAL) == "up", 60)
    create(cloud, "here-again", "--wait")
    remove(cloud, "elsewhere")
    remove(cloud, "here-again")


def test_no_room_is_explained(cloud: Deployment) -> None:
    cloud.cli("flavor", "create", "giant", "--ram", "99999999", "--disk", "1", "--vcpus", "1")
    output = cloud.cli("server", "create", "big", "--flavor", "giant", "--image", "guest", "--wait", check=False)
    assert "No valid host was found" in output
    assert "removed 2" in output
    assert "99999999" in cloud.cli("server", "explain", "big")
    remove(cloud, "big")


@pytest.mark.nightly("test_servers_away has it in the middle of builds")
def test_the_broker_goes_away_and_comes_back(cloud: Deployment, rabbitmq: RabbitMQ) -> None:
    rabbitmq.stop()
    time.sleep(2)  # the services find the broker away, and begin to connect again
    # A heartbeat from before counts for a while: only a later one shows that the host is heard again.
    back = datetime.now(UTC)
    rabbitmq.start()
    wait_for("heard again", lambda: min(_heard(cloud, host) for host in (REAL, BOOKS)) > back, 90)
    create(cloud, "after-broker", "--wait")
    remove(cloud, "after-broker")


def test_services_stop_on_sigterm_and_guests_live_on(cloud: Deployment) -> None:
    create(cloud, "survivor", "--wait")
    service = cloud.services[REAL]
    service.signal(signal.SIGTERM)
    assert service.wait() == 0
    service.start()
    cloud.wait_up(REAL)
    assert cloud.server("survivor")["status"] == "ACTIVE"
    wait_for("READY", lambda: cloud.cli("server", "console", "log", "survivor").count("MINOVA-GUEST READY") == 1)
    remove(cloud, "survivor")


def _state(cloud: Deployment, host: str) -> str:
    rows = [row for row in cloud.json("service", "list") if row["Host"] == host]
    return str(rows[0]["State"]) if rows else ""


def _heard(cloud: Deployment, host: str) -> datetime:
    (row,) = [row for row in cloud.json("service", "list") if row["Host"] == host]
    return datetime.fromisoformat(row["Updated At"]).replace(tzinfo=UTC)
