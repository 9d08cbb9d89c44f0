"""A host of real guests for the cloud of the Tempest run: minova-compute and a libvirtd with QEMU, in a network namespace of their own,
and a machine outside of it where guests reach one port of this machine. A guest reaches no service of its own host.
"""

import contextlib
import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.cluster import Cluster
from tests.integration.deployment import Executable
from tests.servers.libvirtd import Libvirtd
from tests.servers.namespace import Door, Namespace
from tests.waiting import wait_for

BUILD_GUEST = Path(__file__).parents[3] / "tools" / "build-guest"
NAME = "hv1"
# Of the host towards the machine outside, and of that machine.
HOST, OUTSIDE = "198.51.100.1", "198.51.100.2"


class GuestHost:
    """`add` adds it to a cloud."""

    def __init__(self, libvirtd: Libvirtd, outside: Namespace) -> None:
        self._libvirtd, self._outside = libvirtd, outside
        self._compute: Executable | None = None

    def add(self, stack: contextlib.ExitStack, cluster: Cluster, broker: str, _proxy: int) -> None:
        assert self._libvirtd.pid is not None
        inside = Namespace(self._libvirtd.pid)
        folder = cluster.folder / NAME
        for port in (int(re.findall(r":(\d+)/", broker)[-1]), cluster.api.port):
            stack.enter_context(Door(inside, port))
        options: dict[str, dict[str, Any]] = {
            "DEFAULT": {"host": NAME, "state_path": folder / "state", "transport_url": broker, "my_ip": "127.0.0.1"},
            "glance": {"endpoint_override": cluster.url},
            "libvirt": {"connection_uri": self._libvirtd.uri, "virt_type": "qemu"},
        }
        self._compute = Executable("minova-compute", folder, options)
        self._compute.limit = lambda command: ["nsenter", f"--net=/proc/{inside.pid}/ns/net", *command]
        self._compute.start()
        stack.callback(self._compute.kill)
        wait_for("minova-compute", lambda: self._compute is not None and self._compute.listens, 300)

    def open_to_guests(self, port: int) -> Door:
        """Guests reach 127.0.0.1:`port` of this machine at OUTSIDE."""
        return Door(self._outside, port, OUTSIDE)

    @property
    def log(self) -> str:
        return self._compute.log if self._compute is not None else ""


@contextlib.contextmanager
def guest_host() -> Iterator[GuestHost]:
    with Libvirtd(networks=True) as libvirtd, _outside(f"/proc/{libvirtd.pid}/ns/net") as outside:
        yield GuestHost(libvirtd, outside)


@contextlib.contextmanager
def _outside(host: str) -> Iterator[Namespace]:
    """Of the machine to which the default route of the host's namespace leads."""
    with subprocess.Popen(
        ["setpriv", "--pdeathsig=KILL", "unshare", "--net", "sh", "-c", "echo ready; exec sleep infinity"],
        stdout=subprocess.PIPE,
    ) as keeper:
        try:
            assert keeper.stdout is not None
            keeper.stdout.readline()
            outside = Namespace(keeper.pid)
            inside = ["nsenter", f"--net={host}"]
            _run(
                *inside,
                "ip",
                "link",
                "add",
                "outside",
                "type",
                "veth",
                "peer",
                "name",
                "host",
                "netns",
                str(keeper.pid),
            )
            for enter, link, address in ((inside, "outside", HOST), (outside.enter(), "host", OUTSIDE)):
                _run(*enter, "ip", "address", "add", f"{address}/24", "dev", link)
                _run(*enter, "ip", "link", "set", link, "up")
            _run(*inside, "ip", "route", "add", "default", "via", OUTSIDE)
            yield outside
        finally:
            keeper.kill()


def guest_image() -> bytes:
    """The tests' guest, as a raw image."""
    built = subprocess.run([BUILD_GUEST], check=True, stdout=subprocess.PIPE, text=True, timeout=300)
    with tempfile.TemporaryDirectory(prefix="guest") as folder:
        raw = Path(folder) / "guest.raw"
        _run("qemu-img", "convert", "-O", "raw", built.stdout.strip(), str(raw))
        return raw.read_bytes()


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, (command, done.stderr)
