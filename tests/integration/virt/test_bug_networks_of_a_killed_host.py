"""A private libvirtd that was killed with its keeper left the namespaces of its networks, with 169.254.169.254, on the machine."""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import libvirt
import psutil
import pytest

from minova.objects.network.vif import bridge_name, network_name
from minova.virt.libvirt.networking.networks import network_xml
from minova.virt.namespaces.host_networks import of_this_host
from minova.virt.namespaces.kernel import NAMED
from minova.virt.namespaces.namespaces import RUN, NetworkNamespaces
from minova.virt.namespaces.network import network_of
from tests.benchmarks.local_networks.__main__ import vif
from tests.servers.libvirtd import Libvirtd
from tests.waiting import wait_for

pytestmark = pytest.mark.timeout(180)


def test_next_private_libvirtd_removes_what_a_killed_one_has_left(tmp_path: Path) -> None:
    new_vif = vif(1)
    server = Libvirtd(networks=True)
    server.open()
    keeper, pid = server._running_keeper(), server.pid
    assert pid is not None
    number = Path(f"/proc/{pid}/ns/net").stat().st_ino
    with libvirt.open(server.uri) as connection:
        connection.networkCreateXML(network_xml(new_vif))
        host = of_this_host("", server.uri, server.proc_net)
        host.ensure(network_of(new_vif, metadata=True))
    left = NAMED / f"{network_name(new_vif.network_id)}@{number}"
    assert left.exists()
    os.kill(keeper.pid, signal.SIGKILL)
    keeper.wait(30)
    os.kill(pid, signal.SIGKILL)
    wait_for("the end of libvirtd", lambda: not psutil.pid_exists(pid), 30)
    assert left.exists()
    with Libvirtd(networks=True):
        assert not left.exists()
    server.close()
    with suppress(FileNotFoundError):  # its number may be another host's now
        left_records = [each.name for each in (RUN / f"host-{number}" / "networks").iterdir()]
        assert left.name not in left_records


def test_libvirtd_that_was_killed_knows_its_networks_when_it_is_started_again() -> None:
    """So the demo's --stop, whose libvirtd works in the machine's own namespace, removes them."""
    new_vif = vif(1)
    bridge = Path("/sys/class/net") / bridge_name(new_vif.network_id)
    with Libvirtd() as server:
        with libvirt.open(server.uri) as connection:
            connection.networkCreateXML(network_xml(new_vif))
        server.kill()
        server.start()
        with libvirt.open(server.uri) as connection:
            (network,) = connection.listAllNetworks()
            assert network.isActive()
            assert bridge.exists()
            network.destroy()
        assert not bridge.exists()


DEMO = Path(__file__).parents[3] / "tools" / "demo"
FILTER = """\
<filter name="minova-test" chain="root"><rule action="drop" direction="out"><mac srcmacaddr="02:00:00:00:00:01"/></rule>
<rule action="drop" direction="in"><ip protocol="udp" dstportstart="9"/></rule></filter>"""
GUEST = """\
<domain type="qemu"><name>left</name><memory unit="MiB">32</memory><os><type arch="x86_64">hvm</type></os><devices>
<interface type="network"><source network="{network}"/><target dev="{tap}"/><filterref filter="minova-test"/></interface>
</devices></domain>"""


def rules_of(tap: str) -> list[str]:
    """The packet rules of the machine that name the guest's interface."""
    said = [
        subprocess.run(command, capture_output=True, text=True, check=False).stdout
        for command in (["ebtables", "-t", "nat", "-L"], ["iptables", "-S"], ["nft", "list", "ruleset"])
    ]
    return [line for text in said for line in text.splitlines() if tap in line]


@pytest.fixture
def state() -> Iterator[Path]:
    """A folder of the demo, with a short name for libvirt's socket."""
    folder = Path(tempfile.mkdtemp(prefix="mndemo-"))
    (folder / "minova-demo").touch()
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize("lost", [False, True], ids=["its network is known", "its network is lost"])
def test_stop_of_the_demo_removes_what_a_killed_libvirtd_has_left(state: Path, lost: bool) -> None:
    """Guest, interface, packet rules, bridge and namespace; the last one also where libvirt has lost the network."""
    new_vif, tap = vif(1), f"mnleft{os.getpid() % 10**6}"
    named, bridge = NAMED / network_name(new_vif.network_id), Path("/sys/class/net") / bridge_name(new_vif.network_id)
    folder = state / "libvirt"
    folder.mkdir()
    server = Libvirtd(folder)
    server.open()
    try:
        keeper, pid = server._running_keeper(), server.pid
        assert pid is not None
        with libvirt.open(server.uri) as connection:
            network = connection.networkCreateXML(network_xml(new_vif))
            NetworkNamespaces(owner=server.uri).ensure(network_of(new_vif, metadata=True))
            connection.nwfilterDefineXML(FILTER)
            domain = connection.createXML(GUEST.format(network=network_name(new_vif.network_id), tap=tap))
            assert domain.isActive()
            if lost:
                domain.destroy()
                network.destroy()
        assert named.exists()
        assert lost or (bridge.exists() and rules_of(tap))
        for process in (keeper.pid, pid):
            os.kill(process, signal.SIGKILL)
        keeper.wait(30)
        wait_for("the end of libvirtd", lambda: not psutil.pid_exists(pid), 30)
        subprocess.run(
            [str(DEMO), "--stop"], env={**os.environ, "MINOVA_DEMO_DIR": str(state)}, check=True, timeout=120
        )
        assert (named.exists(), bridge.exists(), Path("/sys/class/net", tap).exists()) == (False, False, False)
        assert (rules_of(tap), state.exists()) == ([], False)
    finally:
        NetworkNamespaces(owner=server.uri).remove(new_vif.network_id)
        server.close()
