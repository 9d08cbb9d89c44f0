"""A host with real QEMU dies: its server is evacuated by the API, with its disk on shared storage, and without on local disks.

MINOVA_TABLE=all tries both (tools/check nightly); otherwise shared storage.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import libvirt
import pytest

from minova.db.engine import Database
from tests.integration.deployment import Deployment, Executable
from tests.servers.libvirtd_peers import peers
from tests.waiting import wait_for

pytestmark = pytest.mark.timeout(900)


class Hosts:
    """Hosts hv1 and hv2 of a cloud; with `shared` both keep their disks in one folder."""

    def __init__(self, cloud: Deployment, stack: ExitStack, image: Path, *, shared: bool) -> None:
        self.cloud = cloud
        self.folders, self.servers, self.computes = {}, {}, {}
        for server in stack.enter_context(peers()):
            host = server.host
            self.servers[host] = server
            self.folders[host] = cloud.folder / ("shared" if shared else f"disks-{host}")
            options = {"instances_path": str(self.folders[host]), "update_resources_interval": 5}
            libvirt_options = {"connection_uri": server.uri, "virt_type": "qemu"}
            self.computes[host] = cloud.compute(host, DEFAULT=options, libvirt=libvirt_options)
        cloud.manage("db", "upgrade")
        cloud.start()
        cloud.wait_up()
        cloud.cli("flavor", "create", "tiny", "--ram", "128", "--disk", "1", "--vcpus", "1")
        cloud.cli("image", "create", "guest", "--file", str(image), "--disk-format", "qcow2")

    def die(self, host: str) -> Executable:
        """As by a power cut: neither the compute nor its guests run any more."""
        self.computes[host].kill()
        connection = libvirt.open(self.servers[host].uri)
        for domain in connection.listAllDomains(libvirt.VIR_CONNECT_LIST_DOMAINS_ACTIVE):
            domain.destroy()
        connection.close()
        return self.computes[host]


@pytest.fixture
def hosts(
    tmp_path: Path,
    fresh_rabbit_url: Callable[[], str],
    fresh_postgresql_url: Callable[[], str],
    guest_image: Path,
    request: pytest.FixtureRequest,
) -> Iterator[Hosts]:
    with ExitStack() as stack:
        database = Database(fresh_postgresql_url())
        stack.callback(database.close)
        url = database.engine.url.render_as_string(hide_password=False)
        cloud = stack.enter_context(Deployment(tmp_path, fresh_rabbit_url(), url))
        yield Hosts(cloud, stack, guest_image, shared=request.param)


LOCAL = pytest.param(False, marks=pytest.mark.nightly("a boot more"), id="local")


@pytest.mark.nightly("test_evacuated_disks.py boots from the disk on each day")
@pytest.mark.parametrize("hosts", [pytest.param(True, id="shared"), LOCAL], indirect=True)
def test_a_server_is_evacuated_and_its_old_host_cleans_up(hosts: Hosts) -> None:
    cloud, shared = hosts.cloud, hosts.folders["hv1"] == hosts.folders["hv2"]
    cloud.cli("server", "create", "web", "--flavor", "tiny", "--image", "guest", "--config-drive", "--host", "hv1")
    uuid = cloud.wait_status("web", "ACTIVE")["id"]

    def boots(times: int) -> None:
        """The count is on the disk of the guest."""
        words = f"MINOVA-GUEST BOOTS {times}"
        wait_for(words, lambda: words in cloud.cli("console", "log", "show", uuid, check=False), 180)

    boots(1)
    dead = hosts.die("hv1")
    cloud.cli("service", "set", "hv1", "--disable", "--down")
    outcome = cloud.cli("host", "evacuate", "hv1")
    assert ("evacuated" in outcome, cloud.server("web")["OS-EXT-SRV-ATTR:host"]) == (True, "hv2"), cloud.logs()
    boots(2 if shared else 1)
    if not shared:
        events = cloud.json("server", "event", "list", uuid)
        shown = cloud.cli("server", "event", "show", uuid, events[0]["Request ID"])
        assert "made anew" in shown

    assert "not completed" in cloud.cli("service", "set", "hv1", "--up", check=False)
    dead.start()
    wait_for(
        "hv1 up", lambda: "not completed" not in cloud.cli("service", "set", "hv1", "--enable", "--up", check=False)
    )
    connection = libvirt.open(hosts.servers["hv1"].uri)
    assert connection.listAllDomains() == []
    connection.close()
    assert [path.parent.name for path in hosts.folders["hv1"].glob("*/owner.json")] == ([uuid] if shared else [])
    cloud.cli("server", "reboot", uuid, "--hard", "--wait")
    boots(3 if shared else 2)
    cloud.cli("server", "delete", uuid, "--wait")
    assert list(hosts.folders["hv2"].glob("*/owner.json")) == []
