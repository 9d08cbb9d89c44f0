"""DHCP options of a port."""

import pytest

from minova import errors
from minova.objects.network.dhcp_options import NAMES, DhcpOption, OptionChange, changed

MTU = DhcpOption(opt_name="mtu", opt_value="1400")


def change(name: str, value: str | None = "x", ip_version: int = 4) -> OptionChange:
    return OptionChange(opt_name=name, opt_value=value, ip_version=ip_version)


def test_options_come_change_and_go_and_the_others_stay() -> None:
    two = changed([MTU], [change("T1", "5")])
    assert two == (DhcpOption(opt_name="T1", opt_value="5"), MTU)
    assert changed(two, [change("T1", "6"), change("mtu", None)]) == (DhcpOption(opt_name="T1", opt_value="6"),)
    assert changed(two, [change("42", None)]) == two
    of_both = changed([], [change("dns-server", "a", 4), change("dns-server", "b", 6)])
    assert [(option.ip_version, option.opt_value) for option in of_both] == [(4, "a"), (6, "b")]
    assert (MTU.ip_version, OptionChange(opt_name="mtu", opt_value=None).ip_version) == (4, 4)


@pytest.mark.parametrize(
    ("name", "value", "version"),
    [
        *(("1", "x", 4), ("254", "x", 4), ("65535", "x", 6), ("255", "x", 6)),
        *(("router", "", 4), ("classless-static-route", " ", 4), ("bootfile-url", "x", 6)),
        *(("mtu", "x" * 255, 4), ("mtu", "~", 4)),
    ],
)
def test_what_an_option_may_be(name: str, value: str, version: int) -> None:
    (option,) = changed([], [change(name, value, version)])
    assert (option.opt_name, option.opt_value, option.ip_version) == (name, value, version)


@pytest.mark.parametrize(
    ("name", "value", "version", "why"),
    [
        ("0", "x", 4, "'0' is no DHCP option of IPv4: T1, T2, all-subnets-local, "),
        ("255", "x", 4, "or a number"),
        ("65536", "x", 6, "no DHCP option of IPv6"),
        ("000001", "x", 6, "no DHCP option"),
        ("\u0663", "x", 4, "no DHCP option"),
        ("router", "x", 6, "no DHCP option"),
        ("bootfile-url", "x", 4, "no DHCP option"),
        ("n" * 99, "x", 4, f"'{'n' * 64}' is"),
        ("n" * 99, None, 4, "no DHCP option"),
        ("mtu", " ", 4, "the value of mtu is empty"),
        ("mtu", "x" * 256, 4, "one line of 255 printable ASCII characters at most"),
        ("mtu", "a\nb", 4, "one line"),
        ("mtu", "\u00e4", 4, "one line"),
    ],
)
def test_what_an_option_cannot_be(name: str, value: str | None, version: int, why: str) -> None:
    with pytest.raises(errors.BadRequest, match="Invalid input for extra_dhcp_opts") as refused:
        changed([MTU], [change(name, value, version)])
    assert why in str(refused.value)


def test_a_port_has_so_many_options() -> None:
    assert len(changed([], [change(f"{number}") for number in range(1, 33)])) == 32
    with pytest.raises(errors.BadRequest, match="a port may have 32"):
        changed([], [change(f"{number}") for number in range(1, 34)])


def test_names_are_dnsmasqs() -> None:
    assert {"dns-server", "domain-search", "ntp-server"} <= NAMES[4] & NAMES[6]
