"""Two minova-computes of one machine, of which one works in a network namespace of its own, removed each other's networks: both kept their
records in one folder, and neither sees the bridges of the other one. So guests of a test had no DHCP while the cloud of the demo ran.
"""

import subprocess
import sys

import libvirt
import msgspec

from minova.objects.network.vif import network_name
from minova.virt.libvirt.networking.networks import network_xml
from minova.virt.namespaces.host_networks import of_this_host
from minova.virt.namespaces.kernel import NAMED
from minova.virt.namespaces.network import network_of
from tests.benchmarks.local_networks.__main__ import vif
from tests.servers.libvirtd import Libvirtd

PROGRAM = """\
import sys

import msgspec

from minova.virt.namespaces.host_networks import of_this_host
from minova.virt.namespaces.network import LocalNetwork

of_this_host("").ensure(msgspec.json.decode(sys.argv[1], type=LocalNetwork))
"""


def test_records_of_a_host_in_a_namespace_stand_apart() -> None:
    new_vif = vif(1)
    network_id, network = new_vif.network_id, network_of(new_vif, metadata=True)
    with Libvirtd(networks=True) as server:
        with libvirt.open(server.uri) as connection:
            connection.networkCreateXML(network_xml(new_vif))
        enter = ["nsenter", f"--net=/proc/{server.pid}/ns/net"]
        subprocess.run([*enter, sys.executable, "-c", PROGRAM, msgspec.json.encode(network)], check=True, timeout=120)
        host = of_this_host("", server.proc_net)
        try:
            assert [*host.records()] == [network_id]
            assert network_id not in of_this_host("").records()
            assert not (NAMED / network_name(network_id)).exists()
        finally:
            host.remove(network_id)
