"""DHCP options of a port, beside those of its subnets. Pure; each refusal is a BadRequest with the reason."""

from collections.abc import Iterable

import msgspec

from minova import errors

MAX_OPTIONS = 32
MAX_VALUE = 255
# Neutron knows options by dnsmasq's names; a number stands for any other one.
_NAMES_4 = (
    "netmask time-offset router dns-server log-server lpr-server boot-file-size domain-name swap-server root-path "
    "extension-path ip-forward-enable non-local-source-routing policy-filter max-datagram-reassembly default-ttl mtu "
    "all-subnets-local router-discovery router-solicitation static-route trailer-encapsulation arp-timeout "
    "ethernet-encap tcp-ttl tcp-keepalive nis-domain nis-server ntp-server netbios-ns netbios-dd netbios-nodetype "
    "netbios-scope x-windows-fs x-windows-dm T1 T2 vendor-class nis+-domain nis+-server tftp-server bootfile-name "
    "mobile-ip-home smtp-server pop3-server nntp-server irc-server user-class rapid-commit client-arch "
    "client-interface-id client-machine-id posix-timezone tzdb-timezone domain-search sip-server "
    "classless-static-route vendor-id-encap tftp-server-address server-ip-address client-id"
)
_NAMES_6 = (
    "sip-server-domain sip-server dns-server domain-search nis-server nis+-server nis-domain nis+-domain sntp-server "
    "information-refresh-time posix-timezone tzdb-timezone ntp-server bootfile-url bootfile-param"
)
NAMES = {4: frozenset(_NAMES_4.split()), 6: frozenset(_NAMES_6.split())}
_LARGEST = {4: 254, 6: 65535}
# The options that may have an empty value: a guest then gets none of its subnet.
_MAY_BE_EMPTY = ("router", "classless-static-route")


class DhcpOption(msgspec.Struct, frozen=True, kw_only=True):
    """`opt_name`: a name of dnsmasq, or a number. `opt_value`: one line of printable ASCII."""

    opt_name: str
    opt_value: str
    ip_version: int = 4


class OptionChange(msgspec.Struct, frozen=True, kw_only=True):
    """`opt_value` None: the port no longer has the option."""

    opt_name: str
    opt_value: str | None
    ip_version: int = 4


def changed(options: Iterable[DhcpOption], changes: Iterable[OptionChange]) -> tuple[DhcpOption, ...]:
    """Returns the options after these changes; options that none of them names stay. Raises BadRequest."""
    after = {(option.opt_name, option.ip_version): option for option in options}
    for change in changes:
        _check(change)
        key = (change.opt_name, change.ip_version)
        if change.opt_value is None:
            after.pop(key, None)
        else:
            after[key] = DhcpOption(opt_name=key[0], opt_value=change.opt_value, ip_version=key[1])
    if len(after) > MAX_OPTIONS:
        raise _invalid(f"a port may have {MAX_OPTIONS}")
    return tuple(after[key] for key in sorted(after))


def _check(change: OptionChange) -> None:
    name, value, version = change.opt_name, change.opt_value, change.ip_version
    is_number = name.isascii() and name.isdigit() and len(name) <= 5 and 1 <= int(name) <= _LARGEST[version]
    if not is_number and name not in NAMES[version]:
        raise _invalid(
            f"'{name[:64]}' is no DHCP option of IPv{version}: {', '.join(sorted(NAMES[version]))}, or a number"
        )
    if value is None:
        return
    if not value.strip() and name not in _MAY_BE_EMPTY:
        raise _invalid(f"the value of {name} is empty")
    if len(value) > MAX_VALUE or not (value.isascii() and value.isprintable()):
        raise _invalid(f"the value of {name} must be one line of {MAX_VALUE} printable ASCII characters at most")


def _invalid(reason: str) -> errors.BadRequest:
    return errors.BadRequest(f"Invalid input for extra_dhcp_opts. Reason: {reason}.")
