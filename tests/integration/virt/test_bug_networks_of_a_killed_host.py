"""A private libvirtd that was killed with its keeper left the namespaces of its networks, with 169.254.169.254, on the machine."""

import os
import signal
from contextlib import suppress
from pathlib import Path

import libvirt
import psutil
import pytest

from minova.objects.network.vif import bridge_name, network_name
from minova.virt.libvirt.networking.networks import network_xml
from minova.virt.namespaces.host_networks import of_this_host
from minova.virt.namespaces.kernel import NAMED
from minova.virt.namespaces.namespaces import RUN
from minova.virt.namespaces.network import network_of
from tests.benchmarks.local_networks.__main__ import vif
from tests.cluster import wait_for
from tests.servers.libvirtd import Libvirtd

pytestmark = pytest.mark.timeout(180)


def test_next_private_libvirtd_removes_what_a_killed_one_has_left(tmp_path: Path) -> None:
    one = vif(1)
    server = Libvirtd(networks=True)
    server.open()
    keeper, pid = server._running_keeper(), server.pid
    assert pid is not None
    number = Path(f"/proc/{pid}/ns/net").stat().st_ino
    with libvirt.open(server.uri) as connection:
        connection.networkCreateXML(network_xml(one))
        host = of_this_host("", server.proc_net)
        host.ensure(network_of(one, metadata=True))
    left = NAMED / f"{network_name(one.network_id)}@{number}"
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
    one = vif(1)
    bridge = Path("/sys/class/net") / bridge_name(one.network_id)
    with Libvirtd() as server:
        with libvirt.open(server.uri) as connection:
            connection.networkCreateXML(network_xml(one))
        server.kill()
        server.start()
        with libvirt.open(server.uri) as connection:
            (network,) = connection.listAllNetworks()
            assert network.isActive()
            assert bridge.exists()
            network.destroy()
        assert not bridge.exists()
