"""Who may ask minova-network-helper for what: members of its group connect to guests of local networks, and do nothing else."""

import contextlib
import json
import socket
import subprocess
import sys
import tempfile
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from minova.virt.namespaces.helper import Helper
from minova.virt.namespaces.namespaces import Namespaces
from minova.virt.namespaces.network import LocalNetwork, Subnet
from tests.security.test_local_networks import saying
from tests.servers.veth_host import VethHost

pytestmark = pytest.mark.timeout(120)
NETWORK = str(uuid.uuid4())
COMPUTE, MEMBER, STRANGER, GROUP = 64001, 64002, 64003, 64004
CONNECT = {"type": "Connect", "network_id": NETWORK, "address": "10.9.0.5", "port": 22}
# Asks as a user and a group that root takes first; prints the answer and what the connection says.
ASK = """
import os, socket, struct, sys
path, body, user, group = sys.argv[1], sys.argv[2].encode(), int(sys.argv[3]), int(sys.argv[4])
os.setgroups([group])
os.setgid(user)
os.setuid(user)
with socket.socket(socket.AF_UNIX) as asking:
    asking.settimeout(30)
    try:
        asking.connect(path)
    except PermissionError:
        sys.exit("closed")
    asking.sendall(struct.pack("!I", len(body)) + body)
    head, handles, _, _ = socket.recv_fds(asking, 4, 1)
    if not head:
        sys.exit("refused")
    print(asking.recv(1 << 16).decode())
    for handle in handles:
        with socket.socket(fileno=handle) as guest:
            print(guest.recv(100).decode())
"""


@pytest.fixture(scope="module")
def helper() -> Iterator[Path]:
    """The helper's socket, on a host with one network and one guest, whose port 22 says `guest`."""
    # Not in pytest's folders: each start of pytest closes them for other users.
    with tempfile.TemporaryDirectory(prefix="minova-helper-") as name, VethHost() as host:
        folder = Path(name)
        folder.chmod(0o755)
        networks = Namespaces(folder / "run", host.path, f"@{host.name}")
        host.bridge(NETWORK)
        networks.ensure(
            LocalNetwork(network_id=NETWORK, subnets=(Subnet(cidr="10.9.0.0/24", gateway="10.9.0.1", dhcp=False),))
        )
        guest = host.guest(NETWORK, "fa:16:3e:00:00:01", "10.9.0.5/24", "10.9.0.1")
        path = folder / "socket" / "network.sock"
        made = Helper(path, networks, COMPUTE, GROUP)
        listening = made.listen()

        def serve() -> None:
            with contextlib.suppress(OSError):
                made.serve(listening)

        thread = threading.Thread(target=serve)
        thread.start()
        with saying(guest, 22, "guest"):
            yield path
        listening.shutdown(socket.SHUT_RDWR)
        thread.join()
        listening.close()
        networks.remove(NETWORK)


def ask(helper: Path, call: dict[str, Any], user: int, group: int) -> str:
    words = [sys.executable, "-c", ASK, str(helper), json.dumps(call), str(user), str(group)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    return (done.stdout + done.stderr).strip()


def test_members_of_the_group_connect_to_guests(helper: Path) -> None:
    for user, group in ((COMPUTE, COMPUTE), (MEMBER, GROUP)):
        assert ask(helper, CONNECT, user, group).splitlines()[-1] == "guest"
    assert ask(helper, CONNECT, STRANGER, STRANGER) == "closed"


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"address": "10.9.1.5"}, "no address of a guest"),
        ({"address": "10.9.0.1"}, "no address of a guest"),
        ({"address": "127.0.0.1"}, "no address of a guest"),
        ({"address": "169.254.169.254"}, "no address of a guest"),
        ({"address": "guest"}, "guest"),
        ({"network_id": "../../x"}, "no id of a network"),
        ({"network_id": str(uuid.uuid4())}, "not on this host"),
        ({"port": 70000}, "port"),
    ],
)
def test_a_connection_leads_to_a_guest_of_the_network_alone(helper: Path, changed: dict[str, Any], reason: str) -> None:
    answer = json.loads(ask(helper, CONNECT | changed, MEMBER, GROUP))
    assert reason in answer["refused"]


@pytest.mark.parametrize(
    "call",
    [
        {"type": "Records"},
        {"type": "Remove", "network_id": NETWORK},
        {"type": "Listener", "network_id": NETWORK},
        {"type": "Forget", "network_id": NETWORK, "macs": []},
        {"type": "Track", "bridges": []},
        {"type": "Broken"},
        {"type": "Namespaces"},
    ],
)
def test_members_of_the_group_ask_for_nothing_else(helper: Path, call: dict[str, Any]) -> None:
    assert ask(helper, call, MEMBER, GROUP) == "refused"
    assert ask(helper, CONNECT, MEMBER, GROUP).splitlines()[-1] == "guest"
