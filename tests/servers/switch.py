"""A switch to which private libvirtds are connected, and a machine beside them that sees their guests."""

from __future__ import annotations

import itertools
import os
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from tests.servers.libvirtd_peers import PeerLibvirtd
from tests.servers.namespace import Namespace

# The bridge of each host, and the range of the network on it. The machine has the first address.
BRIDGE = "brlan"
RANGE = "192.0.2.0/24"
ADDRESS = "192.0.2.1"
_ECHO, _ECHO_REPLY = 8, 0


class Switch:
    """`machine`: the namespace of the machine."""

    def __init__(self, machine: Namespace) -> None:
        self.machine = machine

    @contextmanager
    def pings(self, address: str, every: float = 0.1) -> Iterator[Pings]:
        new_pings = Pings(self.machine.socket(_icmp), address, every)
        try:
            yield new_pings
        finally:
            new_pings.end()

    def connect(self, address: str, port: int, within: float = 3.0) -> socket.socket:
        """Raises OSError if nothing answers there."""

        def make() -> socket.socket:
            return socket.create_connection((address, port), within)

        return self.machine.socket(make)

    def is_open(self, address: str, port: int) -> bool:
        try:
            self.connect(address, port).close()
        except OSError:
            return False
        return True


class Pings:
    """Sends echo requests again and again, and notes when they are answered."""

    def __init__(self, sending: socket.socket, address: str, every: float) -> None:
        self._socket, self._address, self._every = sending, address, every
        self._sent: dict[int, float] = {}
        self._answered: dict[int, float] = {}
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._send, self._receive)]
        for thread in self._threads:
            thread.start()

    @property
    def answered(self) -> int:
        return len(self._answered)

    def longest_gap(self) -> float:
        """Seconds between the sending of two requests that were answered, at most."""
        times = sorted(self._sent[number] for number in self._answered)
        return max((later - earlier for earlier, later in itertools.pairwise(times)), default=0.0)

    def end(self) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()
        self._socket.close()

    def _send(self) -> None:
        for number in itertools.count():
            if self._ended.wait(self._every):
                return
            self._sent[number & 0xFFFF] = time.monotonic()
            try:
                self._socket.sendto(_echo(number & 0xFFFF), (self._address, 0))
            except OSError:  # no host has the address now
                continue

    def _receive(self) -> None:
        self._socket.settimeout(0.2)
        while not self._ended.is_set():
            try:
                packet = self._socket.recv(2048)
            except TimeoutError:
                continue
            kind, identity, number = packet[20], *struct.unpack("!HH", packet[24:28])
            if kind == _ECHO_REPLY and identity == _IDENTITY and number in self._sent:
                self._answered.setdefault(number, time.monotonic())


_IDENTITY = os.getpid() & 0xFFFF


def _icmp() -> socket.socket:
    return socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)


def _echo(number: int) -> bytes:
    packet = struct.pack("!BBHHH", _ECHO, 0, 0, _IDENTITY, number) + bytes(56)
    total = sum(struct.unpack(f"!{len(packet) // 2}H", packet))
    total = (total >> 16) + (total & 0xFFFF)
    return packet[:2] + struct.pack("!H", ~(total + (total >> 16)) & 0xFFFF) + packet[4:]


@contextmanager
def switch(hosts: Sequence[PeerLibvirtd]) -> Iterator[Switch]:
    with ExitStack() as stack:
        name = f"minova-{os.getpid()}-lan"
        _ip("netns", "add", name)
        stack.callback(_ip, "netns", "delete", name)
        _bridge(name, ADDRESS)
        for host in hosts:
            _bridge(host.namespace)
            _ip("link", "add", host.host, "netns", name, "type", "veth", "peer", "name", "lan", "netns", host.namespace)
            for space, link in ((name, host.host), (host.namespace, "lan")):
                _ip("-n", space, "link", "set", link, "master", BRIDGE, "up")
        keeper = subprocess.Popen(["setpriv", "--pdeathsig=KILL", "ip", "netns", "exec", name, "sleep", "infinity"])
        stack.callback(keeper.wait)
        stack.callback(keeper.kill)
        yield Switch(Namespace(keeper.pid))


def _bridge(namespace: str, address: str = "") -> None:
    _ip("-n", namespace, "link", "add", BRIDGE, "type", "bridge", "forward_delay", "0")
    if address:
        _ip("-n", namespace, "address", "add", f"{address}/24", "dev", BRIDGE)
    _ip("-n", namespace, "link", "set", BRIDGE, "up")


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, timeout=120)
