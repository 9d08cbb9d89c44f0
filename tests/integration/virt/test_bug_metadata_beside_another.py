"""A hypervisor of the tests has its metadata service, whatever this machine has at 169.254.169.254: `tools/demo` has the same."""

import subprocess
import sys
from pathlib import Path

from tests.servers.libvirtd import Libvirtd

# A machine with such a service.
MACHINE = 'ip link set lo up; ip address add 169.254.169.254/32 dev lo; exec "$@"'
# Prints where the metadata service listens for guests of a network. Nothing boots: networks are made before that.
PREPARE = """
import socket, sys
from pathlib import Path
from minova.virt.namespaces.host_networks import of_this_host
from tests.integration.virt.test_guest import instance, load
from tests.integration.virt.test_networks import vif

folder, uri, proc_net, image = sys.argv[1:]
with socket.create_server(("169.254.169.254", 80)):
    driver = load(Path(folder), uri, proc_net=Path(proc_net))
    guest = instance(network_info=(vif(15),))
    driver.prepare(guest, driver.available_nodes()[0], 1, Path(image))
    networks = of_this_host("", uri, Path(proc_net))
    (network_id,) = networks.namespaces()
    with networks.listener(network_id) as listening:
        print(*listening.getsockname())
    driver.destroy(guest.uuid)
"""


def test_guests_have_metadata_beside_another_service(tmp_path: Path, guest_image: Path) -> None:
    with Libvirtd(networks=True) as server:
        words = [str(tmp_path), server.uri, str(server.proc_net), str(guest_image)]
        done = subprocess.run(
            ["unshare", "--net", "sh", "-euc", MACHINE, "sh", sys.executable, "-c", PREPARE, *words],
            capture_output=True,
            text=True,
            timeout=120,
            cwd=Path(__file__).parents[3],
        )
    assert (done.returncode, done.stdout) == (0, "169.254.169.254 80\n"), done.stderr
