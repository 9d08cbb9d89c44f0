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

from minova.virt.namespaces.helper import OF_METADATA, Helper
from minova.virt.namespaces.namespaces import NetworkNamespaces
from minova.virt.namespaces.network import HostSubnet, LocalNetwork
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
        networks = NetworkNamespaces(folder / "run", host.path, f"@{host.name}")
        host.bridge(NETWORK)
        networks.ensure(
            LocalNetwork(network_id=NETWORK, subnets=(HostSubnet(cidr="10.9.0.0/24", gateway="10.9.0.1", dhcp=False),))
        )
        guest = host.guest(NETWORK, "fa:16:3e:00:00:01", "10.9.0.5/24", "10.9.0.1")
        path = folder / "socket" / "network.sock"
        of_metadata = Helper(path.with_name("metadata.sock"), networks, COMPUTE, calls_of_user=OF_METADATA)
        with served(Helper(path, networks, COMPUTE, GROUP)), served(of_metadata), saying(guest, 22, "guest"):
            yield path
        networks.remove(NETWORK)


@contextlib.contextmanager
def served(helper: Helper) -> Iterator[None]:
    listening = helper.listen()

    def serve() -> None:
        with contextlib.suppress(OSError):
            helper.serve(listening)

    thread = threading.Thread(target=serve)
    thread.start()
    yield
    listening.shutdown(socket.SHUT_RDWR)
    thread.join()
    listening.close()


# As ASK, without what a connection says.
HEAD_OF_ANSWER = ASK.partition("    for handle in")[0]


def ask(helper: Path, call: dict[str, Any], user: int, group: int, script: str = ASK) -> str:
    words = [sys.executable, "-c", script, str(helper), json.dumps(call), str(user), str(group)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
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
        ({"network_id": f"{NETWORK}@4026531840"}, "no id of a network"),
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


@pytest.mark.parametrize(
    ("call", "is_served"),
    [
        ({"type": "Namespaces"}, True),
        ({"type": "Listener", "network_id": NETWORK}, True),
        ({"type": "Records"}, False),
        ({"type": "Ensure", "network": {"network_id": NETWORK, "reachable": True}, "mac": ""}, False),
        ({"type": "Remove", "network_id": NETWORK}, False),
        ({"type": "Forget", "network_id": NETWORK, "macs": []}, False),
        ({"type": "Track", "bridges": []}, False),
        ({"type": "Broken"}, False),
        (CONNECT, False),
    ],
)
def test_bug_metadata_service_asks_for_all_calls(helper: Path, call: dict[str, Any], is_served: bool) -> None:
    """A taken-over minova-metadata could stop networks and give its host routes."""
    request_text = HEAD_OF_ANSWER if call["type"] == "Listener" else ASK  # a socket that listens has nothing to say
    done = ask(helper.with_name("metadata.sock"), call, COMPUTE, COMPUTE, request_text)
    assert (done != "refused") is is_served, done


# Opens connections as a user, sends each the same bytes, and prints how many the helper closes at once, and how many within
# the seconds.
HOLD = """
import os, select, socket, sys, time
path, count, user, group, seconds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5])
os.setgroups([group])
os.setgid(user)
os.setuid(user)
held = []
for _ in range(count):
    held.append(socket.socket(socket.AF_UNIX))
    held[-1].connect(path)
    try:
        held[-1].sendall(bytes.fromhex(sys.argv[6]))
    except (BrokenPipeError, ConnectionResetError):
        pass
print("held", flush=True)
closed, until = 0, time.monotonic() + seconds
while held and time.monotonic() < until:
    for each in select.select(held, [], [], 0.1)[0]:
        held.remove(each)
        closed += 1
print(closed, flush=True)
sys.stdin.read()
"""


def hold(helper: Path, count: int, user: int, seconds: float, sent: bytes) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", HOLD, str(helper), str(count), str(user), str(GROUP), str(seconds), sent.hex()]
    return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def closed_of(held: subprocess.Popen[str]) -> int:
    assert held.stdout is not None
    assert held.stdout.readline() == "held\n"
    return int(held.stdout.readline())


def test_bug_members_hold_every_thread_of_the_helper(helper: Path) -> None:
    """Each connection had a thread for as long as its process sent a byte each half minute."""
    before = threading.active_count()
    with hold(helper, 100, MEMBER, 3.0, b"\0") as held:
        assert closed_of(held) >= 100 - 16 - 1
        assert threading.active_count() - before <= 20
        # The compute is served meanwhile.
        assert json.loads(ask(helper, {"type": "Broken"}, COMPUTE, COMPUTE))["broken"] == {}
        held.communicate("", timeout=120)


def test_bug_message_of_a_member_is_read_before_its_user_is_judged(helper: Path) -> None:
    """64 MiB were read, and kept, for a call that members may not ask for."""
    with hold(helper, 1, MEMBER, 20.0, (64 << 20).to_bytes(4, "big")) as held:
        assert closed_of(held) == 1
        held.communicate("", timeout=120)


def test_bug_member_sends_its_message_for_ever(helper: Path) -> None:
    with hold(helper, 1, MEMBER, 30.0, b"\0\0") as held:
        assert closed_of(held) == 1
        held.communicate("", timeout=120)
