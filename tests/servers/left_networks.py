"""Networks that the host of a test has left on the machine: it was killed, with its network namespace, before it could remove them. Namespaces
with names live on, and the number of the host's namespace comes back for another one.
"""

import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import libvirt

from minova.objects.network.vif import network_name
from minova.virt.namespaces.kernel import NAMED
from minova.virt.namespaces.namespaces import RUN, NetworkNamespaces
from minova.virt.namespaces.network import is_network_id

PREFIX = "host-"
_GONE = (libvirt.VIR_ERR_NO_DOMAIN, libvirt.VIR_ERR_NO_NETWORK, libvirt.VIR_ERR_OPERATION_INVALID)


def remove_left_networks() -> None:
    """Removes the networks of hosts whose network namespace is gone."""
    hosts = {int(folder.name.removeprefix(PREFIX)): folder for folder in RUN.glob(f"{PREFIX}[0-9]*")}
    dead = hosts.keys() - set(_living(hosts)) if hosts else ()
    if not dead:
        return
    name = f"mnleft-{uuid.uuid4().hex[:8]}"
    # A host without interfaces, whose packet rules are no other's.
    subprocess.run(["ip", "netns", "add", name], check=True)
    try:
        for number in dead:
            left = NetworkNamespaces(hosts[number], NAMED / name, f"@{number}")
            for owner in {record.owner for record in left.all_records().values()}:
                NetworkNamespaces(hosts[number], NAMED / name, f"@{number}", owner=owner).remove_all()
            left.broken()  # ends a resolver without networks
            shutil.rmtree(hosts[number], ignore_errors=True)
    finally:
        subprocess.run(["ip", "netns", "delete", name], check=True)


def _living(hosts: dict[int, Path]) -> Iterator[int]:
    """Yields the numbers of network namespaces of the machine in which more than the resolver of a host works, and of those
    that have a name.
    """
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            number = (process / "ns" / "net").stat().st_ino
            folder = hosts.get(number)
            if folder is None or f"--conf-file={folder}/" not in (process / "cmdline").read_text():
                yield number
    for named in NAMED.glob("*"):
        with suppress(OSError):
            yield named.stat().st_ino


def remove_networks_of(uri: str) -> None:
    """Ends the guests and removes the networks of a private libvirtd that works in the machine's own network namespace. Those of other
    libvirtds stay.
    """
    own = NetworkNamespaces(owner=uri)
    with libvirt.open(uri) as connection:
        for left_object in [*connection.listAllDomains(), *connection.listAllNetworks()]:
            try:
                if left_object.isActive():
                    left_object.destroy()
            except libvirt.libvirtError as error:
                # A libvirtd that has just been started removes what has ended since it was killed.
                if error.get_error_code() not in _GONE:
                    raise
            network_id = left_object.name().removeprefix(network_name(""))
            if isinstance(left_object, libvirt.virNetwork) and is_network_id(network_id):
                own.remove(network_id)
    own.remove_all()


if __name__ == "__main__":
    remove_networks_of(f"qemu+unix:///system?socket={sys.argv[1]}")
