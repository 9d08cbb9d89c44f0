"""Ports of consoles, as domains say them."""

import pytest

from minova.objects.guests.console import ConsoleType
from minova.virt.libvirt.consoles import port_of

SERIAL = """<domain><devices>
  <serial type='tcp'><source mode='bind' host='127.0.0.1' service='10007' tls='no'/><target port='0'/></serial>
</devices></domain>"""
SCREEN = "<domain><devices><graphics type='vnc' port='{}' autoport='yes'/></devices></domain>"
NEITHER = "<domain><devices><serial type='pty'><source path='/dev/pts/1'/></serial></devices></domain>"


@pytest.mark.parametrize(
    ("xml", "console_type", "port"),
    [
        (SERIAL, ConsoleType.SERIAL, 10007),
        (SERIAL, ConsoleType.NOVNC, None),
        (SCREEN.format(5901), ConsoleType.NOVNC, 5901),
        (SCREEN.format(-1), ConsoleType.NOVNC, None),
        (NEITHER, ConsoleType.SERIAL, None),
        (NEITHER, ConsoleType.NOVNC, None),
    ],
)
def test_port_is_read_from_the_domain(xml: str, console_type: ConsoleType, port: int | None) -> None:
    assert port_of(xml, console_type) == port
