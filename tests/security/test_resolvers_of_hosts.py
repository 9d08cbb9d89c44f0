"""A subnet's resolver that is an address of the host: the dnsmasq of the network asks it, and the host does not answer."""

import contextlib
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from minova.virt.namespaces.namespaces import NetworkNamespaces
from minova.virt.namespaces.network import HostSubnet
from tests.security.test_local_networks import add
from tests.servers.veth_host import VethGuest, VethHost

pytestmark = pytest.mark.timeout(120)
NETWORK, MAC = str(uuid.uuid4()), "fa:16:3e:00:00:01"
# Two addresses of the host, and one of the machine beside it.
FIRST, SECOND, BESIDE = "192.0.2.2", "198.51.100.2", "192.0.2.7"
# Answers each question for an address with 203.0.113.9, on these addresses, and prints a line for each.
SERVER = """
import socket, struct, sys, threading
def answer(question):
    end = question.index(b"\\0", 12) + 5
    found = b"\\xc0\\x0c" + struct.pack("!HHIH", 1, 1, 60, 4) + socket.inet_aton("203.0.113.9")
    print("asked", flush=True)
    return question[:2] + b"\\x85\\x80" + b"\\0\\1\\0\\1\\0\\0\\0\\0" + question[12:end] + found
def streams(stream):
    while True:
        client, _ = stream.accept()
        with client:
            said = client.recv(4096)
            if len(said) > 2:
                text = answer(said[2:])
                client.sendall(struct.pack("!H", len(text)) + text)
def datagrams(heard):
    while True:
        said, sender = heard.recvfrom(4096)
        heard.sendto(answer(said), sender)
for address in sys.argv[1:]:
    heard = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    heard.bind((address, 53))
    for work, at in ((streams, socket.create_server((address, 53))), (datagrams, heard)):
        threading.Thread(target=work, args=(at,)).start()
print("ready", flush=True)
"""
# Asks a resolver for the address of a name by a protocol, udp or tcp; prints it, or nothing.
QUESTION = """
import socket, struct, sys
server, name, kind = sys.argv[1:]
question = b"\\x12\\x34\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0" + b"".join(bytes([len(each)]) + each.encode() for each in name.split(".")) + b"\\0\\0\\1\\0\\1"
asking = socket.socket(socket.AF_INET, socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM)
asking.settimeout(5)
try:
    asking.connect((server, 53))
    asking.sendall((struct.pack("!H", len(question)) if kind == "tcp" else b"") + question)
    said = asking.recv(4096)
    if said[-4:] == socket.inet_aton("203.0.113.9"):
        print("203.0.113.9")
except OSError:
    pass
"""


@pytest.fixture
def host() -> Iterator[VethHost]:
    with VethHost() as host:
        yield host


@contextlib.contextmanager
def resolver(place: VethHost | VethGuest, *addresses: str) -> Iterator[list[str]]:
    """The questions are known afterwards."""
    queries: list[str] = []
    command = ["ip", "netns", "exec", place.name, sys.executable, "-c", SERVER, *addresses]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == "ready\n"
        try:
            yield queries
        finally:
            server.terminate()
            queries += server.stdout.read().split()


def test_the_host_answers_no_network_that_names_it_as_resolver(host: VethHost) -> None:
    beside = host.neighbour(f"{BESIDE}/24", f"{FIRST}/24")
    host.run("ip", "address", "add", f"{SECOND}/32", "dev", "lo")
    # Not in pytest's folders: dnsmasq has a user of its own.
    with (
        tempfile.TemporaryDirectory(prefix="minova-dns-") as name,
        resolver(host, FIRST, SECOND) as own,
        resolver(beside, BESIDE) as other,
    ):
        Path(name).chmod(0o755)
        networks = NetworkNamespaces(Path(name) / "run", host.path, f"@{host.name}")
        try:
            _ask_each(host, networks)
        finally:
            networks.remove(NETWORK)
    assert own == []
    assert len(other) >= 2


def _ask_each(host: VethHost, networks: NetworkNamespaces) -> None:
    subnet = HostSubnet(cidr="10.9.0.0/24", gateway="10.9.0.1", dhcp=False, resolvers=(BESIDE,))
    network = add(host, networks, NETWORK, subnet)
    guest = host.guest(NETWORK, MAC, "10.9.0.5/24", subnet.gateway)

    def ask(server: str, kind: str, name: str) -> str:
        return guest.python(QUESTION, server, name, kind).strip()

    for kind in ("udp", "tcp"):
        assert {ask(server, kind, f"{kind}.example") for server in (subnet.gateway, BESIDE)} == {"203.0.113.9"}
    own = msgspec.structs.replace(subnet, resolvers=(SECOND,))
    networks.ensure(msgspec.structs.replace(network, subnets=(own,)))
    questions = [(server, kind) for server in (subnet.gateway, FIRST, SECOND) for kind in ("udp", "tcp")]
    with ThreadPoolExecutor(len(questions)) as pool:
        # Each with a name of its own: dnsmasq keeps answers.
        names = [f"name{number}.example" for number in range(len(questions))]
        assert [*pool.map(ask, *zip(*questions, strict=True), names)] == [""] * len(questions)
