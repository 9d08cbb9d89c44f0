"""The ports that serial consoles get."""

import socket

import pytest

from minova import errors
from minova.virt.libvirt.consoles import SerialConsoles, SerialPorts
from tests.servers.private_server import free_ports


def consoles(first: int, last: int) -> SerialConsoles:
    return SerialConsoles(listen="127.0.0.1", ports=(first, last))


def test_each_domain_keeps_a_port_of_its_own() -> None:
    first, last = range_of(3)
    ports = SerialPorts(consoles(first, last), lambda: {"stopped": first})
    first_port, second_port = ports.take("one"), ports.take("two")
    assert {first_port, second_port} == {first + 1, first + 2}
    assert ports.take("one") == first_port
    with pytest.raises(errors.ConsolePortsExhausted, match=f"{first}:{last}"):
        ports.take("three")
    ports.release("stopped")
    assert ports.take("three") == first


def test_port_of_another_program_is_left_out() -> None:
    first, last = range_of(2)
    with socket.create_server(("127.0.0.1", first)):
        assert SerialPorts(consoles(first, last), dict).take("one") == first + 1


def range_of(size: int) -> tuple[int, int]:
    """Free ports in line."""
    while True:
        (first,) = free_ports(1)
        try:
            for port in range(first, first + size):
                socket.create_server(("127.0.0.1", port)).close()
        except (OSError, OverflowError):
            continue
        return first, first + size - 1
