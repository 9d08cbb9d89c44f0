"""Reads from domains where libvirt serves the consoles of guests, and assigns the ports of serial consoles."""

import socket
import threading
from collections.abc import Callable, Mapping
from xml.etree import ElementTree as ET

import msgspec

from minova import errors
from minova.objects.guests.console import ConsoleType


class SerialConsoles(msgspec.Struct, frozen=True, kw_only=True):
    """The host's settings of serial consoles. `ports` is the first and the last port."""

    listen: str
    ports: tuple[int, int]


def port_of(domain_xml: str, console_type: ConsoleType) -> int | None:
    """Returns the port of the console. None if the domain has no such console, or, for VNC, if it does not run."""
    domain = ET.fromstring(domain_xml)
    if console_type is ConsoleType.SERIAL:
        return _serial_port(domain)
    graphics = domain.find("devices/graphics[@type='vnc']")
    port = -1 if graphics is None else int(graphics.get("port", "-1"))
    return port if port > 0 else None


def _serial_port(domain: ET.Element) -> int | None:
    source = domain.find("devices/serial[@type='tcp']/source[@mode='bind']")
    return None if source is None else int(source.get("service", "0")) or None


class SerialPorts:
    """The ports of this host's serial consoles: each domain keeps its own, whether it runs or not.

    `read_ports` returns the ports of all existing domains, by instance uuid.
    """

    def __init__(self, consoles: SerialConsoles, read_ports: Callable[[], Mapping[str, int]]) -> None:
        self._consoles = consoles
        self._read_ports = read_ports
        self._lock = threading.Lock()
        self._ports: dict[str, int] | None = None

    def take(self, instance_uuid: str) -> int:
        """Returns a port for the instance; idempotent. Raises ConsolePortsExhausted if all ports are taken."""
        with self._lock:
            if self._ports is None:
                self._ports = dict(self._read_ports())
            if instance_uuid not in self._ports:
                self._ports[instance_uuid] = self._free(set(self._ports.values()))
            return self._ports[instance_uuid]

    def release(self, instance_uuid: str) -> None:
        with self._lock:
            if self._ports is not None:
                self._ports.pop(instance_uuid, None)

    def _free(self, taken: set[int]) -> int:
        first, last = self._consoles.ports
        for port in range(first, last + 1):
            if port not in taken and self._is_free(port):
                return port
        raise errors.ConsolePortsExhausted(
            f"No port is free for a serial console: [serial_console] port_range = {first}:{last}"
        )

    def _is_free(self, port: int) -> bool:
        family = socket.AF_INET6 if ":" in self._consoles.listen else socket.AF_INET
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            # A connection that has ended keeps the port busy for a while, but QEMU can use it all the same.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((self._consoles.listen, port))
            except OSError:
                return False
        return True
