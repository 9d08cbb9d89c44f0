"""Two minova-computes of one machine, of which one works in a network namespace of its own, removed each other's networks: both kept their
records in one folder, and neither sees the bridges of the other one. So guests of a test had no DHCP while the cloud of the demo ran.
"""

import subprocess
import sys
from pathlib import Path

import libvirt
import msgspec
import pytest

from minova.conf.libvirt import SYSTEM_URI
from minova.objects.network.vif import network_name
from minova.virt.libvirt.networking.networks import network_xml
from minova.virt.namespaces.host_networks import of_this_host
from minova.virt.namespaces.kernel import NAMED
from minova.virt.namespaces.network import network_of
from minova.virt.namespaces.remote import RemoteNamespaces
from tests.benchmarks.local_networks.__main__ import vif
from tests.servers.libvirtd import Libvirtd
from tests.servers.sandbox import UNITS, settings
from tests.waiting import wait_for

PROGRAM = """\
import sys

import msgspec

from minova.virt.namespaces.host_networks import of_this_host
from minova.virt.namespaces.network import LocalNetwork

of_this_host("", "").ensure(msgspec.json.decode(sys.argv[1], type=LocalNetwork))
"""


def capabilities() -> list[str]:
    """So it may not see in which namespace the first process of the machine is."""
    kept = settings(UNITS / "minova-network-helper.service")["CapabilityBoundingSet"]
    return ["setpriv", ",".join(["--bounding-set=-all", *(f"+{each.removeprefix('CAP_').lower()}" for each in kept)])]


def test_records_of_a_host_in_a_namespace_stand_apart() -> None:
    new_vif = vif(1)
    network_id, network = new_vif.network_id, network_of(new_vif, metadata=True)
    with Libvirtd(networks=True) as server:
        with libvirt.open(server.uri) as connection:
            connection.networkCreateXML(network_xml(new_vif))
        enter = ["nsenter", f"--net=/proc/{server.pid}/ns/net"]
        subprocess.run([*enter, sys.executable, "-c", PROGRAM, msgspec.json.encode(network)], check=True, timeout=120)
        host = of_this_host("", "", server.proc_net)
        try:
            assert [*host.records()] == [network_id]
            assert network_id not in of_this_host("", "").records()
            assert not (NAMED / network_name(network_id)).exists()
        finally:
            host.remove(network_id)


@pytest.mark.parametrize("limited", [False, True], ids=["as root", "with the capabilities of its unit"])
def test_records_of_a_helper_in_a_namespace_stand_apart(tmp_path: Path, limited: bool) -> None:
    new_vif = vif(2)
    network_id, network = new_vif.network_id, network_of(new_vif, metadata=True)
    helper, of_metadata = tmp_path / "helper" / "sock", tmp_path / "metadata" / "sock"
    words = ("--user", "0", "--socket", helper, "--metadata-socket", of_metadata, "--config-file", "/dev/null")
    with Libvirtd(networks=True) as server:
        with libvirt.open(server.uri) as connection:
            connection.networkCreateXML(network_xml(new_vif))
        program = "from minova.cmd.network_helper import main; main()"
        enter = ["nsenter", f"--net=/proc/{server.pid}/ns/net", *(capabilities() if limited else ())]
        command = [*enter, sys.executable, "-c", program, *map(str, words)]
        with subprocess.Popen(command) as process:
            try:
                wait_for("the helper serves", helper.exists)
                remote = RemoteNamespaces(helper)
                remote.ensure(network)
                assert [*of_this_host("", SYSTEM_URI, server.proc_net).records()] == [network_id]
                assert network_id not in of_this_host("", SYSTEM_URI).records()
                remote.remove(network_id)
            finally:
                process.terminate()
