"""Running servers migrate by the API between two hosts with a libvirt of their own, with copied and with shared disks."""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from minova.db.engine import Database
from tests.integration.deployment import Deployment
from tests.integration.virt.guest_console import GuestConsole
from tests.integration.virt.live_pair import TICKS
from tests.servers.libvirtd_peers import peers
from tests.waiting import wait_for

# There and back. In the third migration of a guest on a machine with a load of 20, its kernel has lost pages of memory, with
# copied and with shared disks: QEMU 7.2 emulates the CPU here, and only QEMU moves memory.
pytestmark = pytest.mark.timeout(900)


class LiveCloud:
    """Two computes, each with a libvirtd that the other one reaches, and a guest that counts aloud."""

    def __init__(self, deployment: Deployment, instances: dict[str, Path], uris: dict[str, str]) -> None:
        self.deployment, self.instances, self.uris = deployment, instances, uris
        deployment.cli("server", "create", "web", "--flavor", "tiny", "--image", "guest", "--config-drive")
        self.uuid = deployment.wait_status("web", "ACTIVE", timeout=240)["id"]
        wait_for("READY", lambda: "MINOVA-GUEST READY" in self.log(), 180)
        console = GuestConsole(self.uris[self.host], self.uuid, self.log)
        assert console.ask(TICKS) == "begun"

    @property
    def host(self) -> str:
        return str(self.deployment.json("server", "show", self.uuid)["OS-EXT-SRV-ATTR:host"])

    def log(self) -> str:
        path = self.instances[self.host] / self.uuid / "console.log"
        return path.read_text(errors="replace").replace("\r", "") if path.exists() else ""

    def ticks(self) -> list[int]:
        return [int(number) for number in re.findall(r"^TICK (\d+)$", self.log(), re.MULTILINE)]

    def require_counting(self) -> None:
        wait_for("ticks", self.ticks, 60)
        last = self.ticks()[-1]
        wait_for("the count to go on", lambda: self.ticks()[-1] > last + 10, 60)

    def migrate(self, *options: str) -> str:
        """Returns the host that the guest has left."""
        left, before = self.host, self.ticks()[-1]
        self.deployment.cli("server", "migrate", "--live-migration", *options, "--wait", self.uuid)
        shown = self.deployment.wait_status(self.uuid, "ACTIVE")
        assert self.host != left, (shown, self.deployment.logs())
        wait_for("the count to go on", lambda: self.ticks()[-1:] > [before + 10], 60)
        return left


@contextmanager
def live_cloud(folder: Path, rabbit: str, database: str, image: Path, *, shared: bool) -> Iterator[LiveCloud]:
    with ExitStack() as stack:
        deployment = stack.enter_context(Deployment(folder, rabbit, database))
        instances, uris = {}, {}
        for server, ports in zip(stack.enter_context(peers()), ("49216:49239", "49240:49263"), strict=True):
            path = folder / ("shared" if shared else server.host) / "instances"
            path.mkdir(parents=True, exist_ok=True)
            instances[server.host], uris[server.host] = path, server.uri
            libvirt = {
                "connection_uri": server.uri,
                "virt_type": "qemu",
                "disk_export_ports": ports,
                "live_migration_inbound_addr": server.address,
            }
            default = {"my_ip": "127.0.0.1", "instances_path": str(path)}
            deployment.compute(server.host, DEFAULT=default, libvirt=libvirt)
        deployment.manage("db", "upgrade")
        deployment.start()
        deployment.wait_up(timeout=180)
        deployment.cli("flavor", "create", "tiny", "--ram", "128", "--disk", "1", "--vcpus", "1")
        deployment.cli("image", "create", "guest", "--file", str(image), "--disk-format", "qcow2")
        yield LiveCloud(deployment, instances, uris)


@pytest.fixture
def make_cloud(
    tmp_path: Path,
    fresh_rabbit_url: Callable[[], str],
    fresh_postgresql_url: Callable[[], str],
    guest_image: Path,
) -> Iterator[Callable[..., LiveCloud]]:
    with ExitStack() as stack:

        def make(*, shared: bool = False) -> LiveCloud:
            database = Database(fresh_postgresql_url())
            stack.callback(database.close)
            url = database.engine.url.render_as_string(hide_password=False)
            return stack.enter_context(live_cloud(tmp_path, fresh_rabbit_url(), url, guest_image, shared=shared))

        yield make


@pytest.mark.parametrize("goes_back", [False, pytest.param(True, marks=pytest.mark.nightly("a second migration"))])
def test_a_server_migrates_live_and_counts_on(make_cloud: Callable[..., LiveCloud], goes_back: bool) -> None:
    cloud = make_cloud()
    left = cloud.migrate("--block-migration")
    cloud.require_counting()
    assert not (cloud.instances[left] / cloud.uuid).exists()
    (migration,) = cloud.deployment.json("server", "migration", "list", "--server", cloud.uuid)
    assert (migration["Status"], migration["Type"]) == ("completed", "live-migration")
    if not goes_back:
        return
    cloud.migrate()
    # A mode that the disks do not allow leaves the server as it was.
    host = cloud.host
    cloud.deployment.cli(
        "server", "migrate", "--live-migration", "--shared-migration", "--wait", cloud.uuid, check=False
    )
    cloud.deployment.wait_status(cloud.uuid, "ACTIVE")
    assert cloud.host == host
    cloud.require_counting()


@pytest.mark.nightly("a whole cloud more; test_live_migrations.py has shared disks")
def test_a_server_on_shared_disks_migrates_live(make_cloud: Callable[..., LiveCloud]) -> None:
    cloud = make_cloud(shared=True)
    cloud.migrate("--shared-migration")
    cloud.migrate()
    assert (cloud.instances[cloud.host] / cloud.uuid / "disk").exists()
    cloud.require_counting()
