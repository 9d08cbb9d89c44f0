"""Addresses that a proxy of consoles connects to."""

import msgspec
import pytest

from minova.objects.guests.console import ConsoleAddress, ConsoleType, canonical_address, is_loopback, unavailable


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        *(("10.0.0.1", "10.0.0.1"), ("2001:DB8::1", "2001:db8::1"), ("::ffff:10.0.0.1", "10.0.0.1")),
        *(("127.0.0.1", "127.0.0.1"), ("host1", None), ("", None)),
        *(("0.0.0.0", None), ("::", None), ("224.0.0.1", None), ("ff02::1", None), ("255.255.255.255", None)),
        ("::ffff:0.0.0.0", None),
    ],
)
def test_an_address_is_of_one_machine(text: str, canonical: str | None) -> None:
    assert canonical_address(text) == canonical


def test_loopback() -> None:
    assert [is_loopback(text) for text in ("127.0.0.1", "::1", "10.0.0.1")] == [True, True, False]


@pytest.mark.parametrize(("port", "fine"), [(0, False), (1, True), (65535, True), (65536, False)])
def test_ports(port: int, fine: bool) -> None:
    if fine:
        assert msgspec.convert({"host": "a", "port": port}, ConsoleAddress).port == port
        return
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"host": "a", "port": port}, ConsoleAddress)


@pytest.mark.parametrize(("kind", "group"), [(ConsoleType.NOVNC, "vnc"), (ConsoleType.SERIAL, "serial_console")])
def test_a_console_that_there_is_not_names_its_option(kind: ConsoleType, group: str) -> None:
    assert f"Unavailable console type {kind}. It needs [{group}] enabled = true" in str(unavailable(kind))
