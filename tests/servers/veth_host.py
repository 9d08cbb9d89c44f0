"""A host and its guests without hypervisor: network namespaces, on bridges as libvirt makes them."""

from __future__ import annotations

import subprocess
import uuid
from pathlib import Path
from types import TracebackType
from typing import Self

from minova.objects.network.vif import bridge_name


class VethHost:
    """A network namespace that stands for a host. `path`: of the namespace. `guest` adds a guest to a network.

    `process`: the host is the namespace of this process.
    """

    def __init__(self, process: str = "") -> None:
        self._process = process
        self.name = f"mnhost-{uuid.uuid4().hex[:8]}"
        self._names: list[str] = []

    @property
    def path(self) -> Path:
        return Path("/run/netns") / self.name

    def __enter__(self) -> Self:
        if self._process:
            _run("ip", "netns", "attach", self.name, self._process)
            self._names.append(self.name)
        else:
            self._add(self.name)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in self._names:
            subprocess.run(["ip", "netns", "delete", name], check=True)

    def bridge(self, network_id: str, name: str = "") -> None:
        """As libvirt makes the bridge of a network. `name`: of a bridge that the administrator of the host makes."""
        name = name or bridge_name(network_id)
        self.run("ip", "link", "add", name, "type", "bridge", "forward_delay", "0")
        self.run("sh", "-c", f"echo 1 >/proc/sys/net/ipv6/conf/{name}/disable_ipv6")
        self.run("ip", "link", "set", name, "up")

    def guest(
        self, network_id: str, mac: str, address: str = "", gateway: str = "", *, bridge: str = "", tap: str = ""
    ) -> VethGuest:
        """`address`: with its prefix; empty: the guest has none yet. `bridge`: of the host; `tap`: the name of its device."""
        name, tap = f"{self.name}-{mac[-5:].replace(':', '')}-{len(self._names)}", tap or f"tap{uuid.uuid4().hex[:8]}"
        self._add(name)
        self.run("ip", "link", "add", tap, "type", "veth", "peer", "name", "eth0", "netns", name)
        self.run("ip", "link", "set", tap, "master", bridge or bridge_name(network_id), "up")
        guest = VethGuest(name, tap)
        guest.run("ip", "link", "set", "eth0", "address", mac, "up")
        if address:
            guest.run("ip", "address", "add", address, "dev", "eth0")
        if gateway:
            guest.run("ip", "route", "add", "default", "via", gateway)
        return guest

    def neighbour(self, address: str, own: str) -> VethGuest:
        """A machine beside the host, on a link of their own. Both addresses with their prefix."""
        name, link = f"{self.name}-beside-{len(self._names)}", f"eth{len(self._names)}"
        self._add(name)
        self.run("ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", name)
        self.run("ip", "address", "add", own, "dev", link)
        self.run("ip", "link", "set", link, "up")
        machine = VethGuest(name, link)
        machine.run("ip", "address", "add", address, "dev", "eth0")
        machine.run("ip", "link", "set", "eth0", "up")
        return machine

    def run(self, *command: str) -> str:
        return _run("ip", "netns", "exec", self.name, *command)

    def python(self, script: str, *words: str) -> str:
        return self.run("python3", "-c", script, *words)

    def _add(self, name: str) -> None:
        _run("ip", "netns", "add", name)
        self._names.append(name)
        _run("ip", "-netns", name, "link", "set", "lo", "up")


class VethGuest:
    def __init__(self, name: str, tap: str) -> None:
        self.name = name
        self.tap = tap

    def run(self, *command: str) -> str:
        return _run("ip", "netns", "exec", self.name, *command)

    def python(self, script: str, *words: str) -> str:
        return self.run("python3", "-c", script, *words)


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout
