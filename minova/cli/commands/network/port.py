"""`minova port create|list|show|set|unset|delete`: the connections of servers to networks."""

import argparse
import json
from collections.abc import Iterable, Sequence
from functools import reduce
from operator import or_
from typing import Any

from minova.cli import find
from minova.cli.base import Command, Lister, ShowOne
from minova.cli.client import NETWORK, Client, Json, part
from minova.cli.commands.network import listing, tags
from minova.cli.commands.network.network import without_none
from minova.cli.errors import CliError, UsageError
from minova.cli.output.columns import Words
from minova.cli.parser import add_owner

PORTS = f"{NETWORK}/ports"
_PROFILE = "binding:profile"
Shown = tuple[Sequence[str], Iterable[Any]]
_OPTION = "name=NAME[,value=VALUE][,ip-version=4|6]"
# The attribute, the options that set it to true and to false, and their help.
_SWITCHES = (
    ("admin_state_up", "enable", "disable", "the link is up", "it is down"),
    (
        "port_security_enabled",
        "enable-port-security",
        "disable-port-security",
        "it has security groups",
        "the guest may send from any address",
    ),
)


class PortCreate(ShowOne):
    """Create a port."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("name", metavar="NAME")
        parser.add_argument("--network", required=True, metavar="NETWORK", help="name or ID")
        parser.add_argument(
            "--fixed-ip",
            action="append",
            type=fixed_ip,
            metavar="subnet=SUBNET,ip-address=ADDRESS",
            help="an address, or the next free one of a subnet; may be repeated (default: one of each IP version)",
        )
        parser.add_argument("--no-fixed-ip", action="store_true", help="no address")
        groups = parser.add_mutually_exclusive_group()
        groups.add_argument(
            "--security-group",
            dest="security_groups",
            action="append",
            metavar="GROUP",
            help="name or ID; may be repeated (default: the project's group default)",
        )
        groups.add_argument("--no-security-group", action="store_const", dest="security_groups", const=[])
        for switch in _SWITCHES:
            listing.add_switch(parser, *switch)
        parser.add_argument(
            "--allowed-address",
            type=address_pair,
            action="append",
            metavar="ip-address=ADDRESS[,mac-address=MAC]",
            help="from which the guest may send beside its own; may be repeated",
        )
        parser.add_argument("--mac-address", metavar="MAC")
        parser.add_argument("--device", metavar="ID")
        parser.add_argument("--device-owner", metavar="OWNER")
        parser.add_argument("--description", metavar="TEXT")
        _add_details(parser)
        tags.add_tags(parser)
        add_owner(parser, "project", "its owner (administrators)")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Shown:
        fixed_ips = [named(self.client, address) for address in parsed_args.fixed_ip or []]
        groups = parsed_args.security_groups
        if groups:
            groups = [find.security_group(self.client, name)["id"] for name in groups]
        elif parsed_args.port_security_enabled is False:
            groups = []
        port: Json = {
            "name": parsed_args.name,
            "network_id": find.network(self.client, parsed_args.network)["id"],
            "description": parsed_args.description,
            "mac_address": parsed_args.mac_address,
            "device_id": parsed_args.device,
            "device_owner": parsed_args.device_owner,
            "fixed_ips": [] if parsed_args.no_fixed_ip else fixed_ips or None,
            "security_groups": groups,
            **{field: getattr(parsed_args, field) for field, *_ in _SWITCHES},
            "allowed_address_pairs": parsed_args.allowed_address,
            **_details(parsed_args, {}),
            "project_id": find.owner(self.client, parsed_args),
        }
        created_port = self.client.post(PORTS, {"port": without_none(port)})["port"]
        return self.dict2columns(fields(tags.add_new(self.client, PORTS, created_port, parsed_args)))


class PortList(Lister):
    """List ports with their addresses."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--network", metavar="NETWORK", help="only of this one; name or ID")
        parser.add_argument("--device-owner", metavar="OWNER")
        parser.add_argument("--long", action="store_true", help="also whose they are")
        listing.add_filters(parser)
        device = parser.add_mutually_exclusive_group()
        device.add_argument("--server", metavar="SERVER", help="only its own; name or ID")
        device.add_argument("--device-id", metavar="ID", help="only those of this device")
        parser.add_argument("--mac-address", metavar="MAC", help="only with this one")
        parser.add_argument(
            "--fixed-ip",
            action="append",
            type=fixed_ip,
            metavar="subnet=SUBNET,ip-address=ADDRESS",
            help="only with an address of the subnet, or this address; may be repeated",
        )
        parser.add_argument(
            "--security-group",
            dest="security_groups",
            action="append",
            metavar="GROUP",
            help="only with this one; name or ID",
        )
        parser.add_argument("--host", metavar="HOST", help="only those on this one (administrators)")
        parser.add_argument("--status", metavar="STATUS", help="only with this one: ACTIVE, DOWN")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Shown:
        columns = ["ID", "Name", "MAC Address", "Fixed IP Addresses", "Status"]
        names = ["id", "name", "mac_address", "fixed_ips", "status"]
        if parsed_args.long:
            columns += ["Network", "Device", "Device Owner", "Project"]
            names += ["network_id", "device_id", "device_owner", "project_id"]
        network = find.network(self.client, parsed_args.network)["id"] if parsed_args.network else None
        server = find.server(self.client, parsed_args.server)["id"] if parsed_args.server else None
        addresses = [named(self.client, entry) for entry in parsed_args.fixed_ip or []]
        groups = [find.security_group(self.client, name)["id"] for name in parsed_args.security_groups or []]
        pages = self.client.pages(
            PORTS,
            "ports",
            network_id=network,
            device_owner=parsed_args.device_owner,
            device_id=server or parsed_args.device_id,
            mac_address=parsed_args.mac_address,
            fixed_ips=[f"{key}={value}" for entry in addresses for key, value in entry.items()] or None,
            security_groups=groups or None,
            status=parsed_args.status,
            **{"binding:host_id": parsed_args.host},
            **listing.filters(self, parsed_args),
        )
        rows = [fields(port) for port in pages]
        return columns, [tuple(row[name] for name in names) for row in rows]


class PortShow(ShowOne):
    """Show a port."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("port", metavar="PORT", help="name or ID")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Shown:
        return self.dict2columns(fields(find.port(self.client, parsed_args.port)))


def _add_lists(parser: argparse.ArgumentParser) -> None:
    """Adds the options that `set` and `unset` have in common."""
    parser.add_argument("port", metavar="PORT", help="name or ID")
    parser.add_argument(
        "--fixed-ip",
        action="append",
        type=fixed_ip,
        metavar="subnet=SUBNET,ip-address=ADDRESS",
        help="an address; may be repeated",
    )
    parser.add_argument(
        "--security-group", dest="security_groups", action="append", metavar="GROUP", help="name or ID; may be repeated"
    )
    parser.add_argument(
        "--allowed-address",
        type=address_pair,
        action="append",
        metavar="ip-address=ADDRESS[,mac-address=MAC]",
        help="from which the guest may send beside its own; may be repeated",
    )


class PortSet(Command):
    """Change a port. A server that has it feels it at once. Addresses, groups and pairs are added to those that it has."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        _add_lists(parser)
        parser.add_argument("--no-fixed-ip", action="store_true", help="without the addresses that it has")
        parser.add_argument("--no-security-group", action="store_true", help="without the groups that it has")
        parser.add_argument("--no-allowed-address", action="store_true", help="without the pairs that it has")
        parser.add_argument("--no-binding-profile", action="store_true", help="without the profile that it has")
        parser.add_argument("--name", metavar="NAME")
        parser.add_argument("--description", metavar="TEXT")
        parser.add_argument("--mac-address", metavar="MAC", help="of a port that no server has")
        parser.add_argument("--device", metavar="ID")
        parser.add_argument("--device-owner", metavar="OWNER")
        for switch in _SWITCHES:
            listing.add_switch(parser, *switch)
        _add_details(parser)
        tags.add_tags(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        port = find.port(self.client, parsed_args.port)
        former_profile = {} if parsed_args.no_binding_profile else port.get(_PROFILE, {})
        changes = without_none(
            {
                "name": parsed_args.name,
                "description": parsed_args.description,
                "mac_address": parsed_args.mac_address,
                "device_id": parsed_args.device,
                "device_owner": parsed_args.device_owner,
                **{field: getattr(parsed_args, field) for field, *_ in _SWITCHES},
                **_details(parsed_args, former_profile),
            }
        )
        if parsed_args.no_binding_profile:
            changes.setdefault(_PROFILE, {})
        lists = {
            "fixed_ips": (parsed_args.no_fixed_ip, [named(self.client, entry) for entry in parsed_args.fixed_ip or []]),
            "security_groups": (
                parsed_args.no_security_group,
                [find.security_group(self.client, name)["id"] for name in parsed_args.security_groups or []],
            ),
            "allowed_address_pairs": (parsed_args.no_allowed_address, parsed_args.allowed_address or []),
        }
        for field, (without, more) in lists.items():
            if without or more:
                former_entries = [] if without else port[field]
                changes[field] = [*former_entries, *(entry for entry in more if entry not in former_entries)]
        if not (changes or tags.is_given(parsed_args)):
            raise UsageError("Say what is to be set, such as --name or --fixed-ip.")
        if changes:
            self.client.put(f"{PORTS}/{part(port['id'])}", {"port": changes})
        tags.change(self.client, PORTS, port, parsed_args)


class PortUnset(Command):
    """Take addresses, groups, pairs or tags from a port. A server that has it feels it at once."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        _add_lists(parser)
        parser.add_argument("--device", action="store_true", help="it is of no device")
        parser.add_argument("--device-owner", action="store_true", help="it has no owner")
        parser.add_argument("--host", action="store_true", help="it is on no host (administrators)")
        parser.add_argument(
            "--binding-profile",
            action="append",
            metavar="KEY",
            help="an entry of its profile; may be repeated (administrators)",
        )
        tags.add_removal(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        port = find.port(self.client, parsed_args.port)
        lists: dict[str, list[Any]] = {
            "fixed_ips": [named(self.client, address) for address in parsed_args.fixed_ip or []],
            "security_groups": [
                find.security_group(self.client, name)["id"] for name in parsed_args.security_groups or []
            ],
            "allowed_address_pairs": parsed_args.allowed_address or [],
        }
        changes: Json = {
            field: _without_entries(field, port[field], entries_to_remove)
            for field, entries_to_remove in lists.items()
            if entries_to_remove
        }
        changes |= {"device_id": ""} if parsed_args.device else {}
        changes |= {"device_owner": ""} if parsed_args.device_owner else {}
        changes |= {"binding:host_id": ""} if parsed_args.host else {}
        if parsed_args.binding_profile:
            changes[_PROFILE] = _without_keys(port.get(_PROFILE, {}), parsed_args.binding_profile)
        if changes:
            self.client.put(f"{PORTS}/{part(port['id'])}", {"port": changes})
        if not (tags.remove(self.client, PORTS, port, parsed_args) or changes):
            raise UsageError("Say what is to go, such as --fixed-ip or --security-group.")


def _without_keys(profile: Json, keys: list[str]) -> Json:
    """Raises CliError if the profile lacks a key."""
    if missing := [key for key in keys if key not in profile]:
        raise CliError(f"The port has no such binding profile: {missing[0]}.")
    return {key: value for key, value in profile.items() if key not in keys}


def _without_entries(field: str, has: list[Any], gone: list[Any]) -> list[Any]:
    """Returns the values without those to remove. Any part of an address or pair selects it. Raises CliError if the
    port has no such value.
    """
    other_entries = list(has)
    for selector in gone:
        matching = [
            entry
            for entry in other_entries
            if entry == selector or (isinstance(entry, dict) and selector.items() <= entry.items())
        ]
        if not matching:
            raise CliError(f"The port has no such {field.replace('_', ' ')}: {selector}.")
        other_entries = [entry for entry in other_entries if entry not in matching]
    return other_entries


class PortDelete(Command):
    """Delete ports; their addresses are free again."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("ports", nargs="+", metavar="PORT", help="name or ID; if one is unknown, none goes")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        ports = {port["id"] for port in [find.port(self.client, name) for name in parsed_args.ports]}
        for identity in sorted(ports):
            self.client.delete(f"{PORTS}/{part(identity)}")


def _add_details(parser: argparse.ArgumentParser) -> None:
    """Adds the options that `_details` reads."""
    parser.add_argument("--host", metavar="HOST", help="on which it is (administrators)")
    parser.add_argument(
        "--extra-dhcp-option",
        action="append",
        type=dhcp_option,
        metavar=_OPTION,
        help="which DHCP gives the guest; may be repeated; without a value it is removed",
    )
    parser.add_argument(
        "--binding-profile",
        action="append",
        type=profile,
        metavar="KEY=VALUE",
        help="an entry of its profile, or several as JSON; may be repeated (administrators)",
    )


def _details(parsed_args: argparse.Namespace, former_profile: Json) -> Json:
    entries = parsed_args.binding_profile
    return {
        "binding:host_id": parsed_args.host,
        "extra_dhcp_opts": parsed_args.extra_dhcp_option,
        _PROFILE: None if entries is None else reduce(or_, entries, former_profile),
    }


def profile(text: str) -> Json:
    """Parses `KEY=VALUE`, or a JSON object, as OpenStack's client does."""
    try:
        entries = json.loads(text)
    except ValueError:
        key, equals, value = text.partition("=")
        entries = {key: value} if key and equals else None
    if not isinstance(entries, dict):
        raise UsageError(f"'{text}' is neither KEY=VALUE nor a JSON object.")
    return entries


def dhcp_option(text: str) -> Json:
    """Parses `name=NAME,value=VALUE,ip-version=4`, as in OpenStack's client. A value may have commas."""
    option: Json = {"opt_value": None}
    key = ""
    for piece in text.split(","):
        name, equals, value = piece.partition("=")
        if equals and name in ("name", "value", "ip-version"):
            key = {"name": "opt_name", "value": "opt_value", "ip-version": "ip_version"}[name]
            option[key] = value
        elif key == "opt_value":
            option[key] += f",{piece}"
        else:
            raise UsageError(f"'{text}' is not an option such as {_OPTION}.")
    if not option.get("opt_name") or option.get("ip_version", "4") not in ("4", "6"):
        raise UsageError(f"'{text}' is not an option such as {_OPTION}.")
    return option | ({"ip_version": int(option["ip_version"])} if "ip_version" in option else {})


def fixed_ip(text: str) -> dict[str, str]:
    """Parses `subnet=SUBNET,ip-address=ADDRESS`, as in OpenStack's client; one of them suffices."""
    pairs = dict(pair.partition("=")[::2] for pair in text.split(","))
    if not pairs or not pairs.keys() <= {"subnet", "ip-address"}:
        raise UsageError(f"'{text}' is not an address such as subnet=NAME,ip-address=192.0.2.10.")
    return pairs


def address_pair(text: str) -> dict[str, str]:
    pairs = dict(pair.partition("=")[::2] for pair in text.split(","))
    if "ip-address" not in pairs or not pairs.keys() <= {"ip-address", "mac-address"}:
        raise UsageError(f"'{text}' is not an address such as ip-address=192.0.2.10.")
    return {name.replace("-", "_"): value for name, value in pairs.items()}


def named(client: Client, address: dict[str, str]) -> Json:
    request: Json = {}
    if "subnet" in address:
        request["subnet_id"] = find.subnet(client, address["subnet"])["id"]
    if "ip-address" in address:
        request["ip_address"] = address["ip-address"]
    return request


def fields(port: Json) -> dict[str, Any]:
    addresses = [
        f"ip_address='{address['ip_address']}', subnet_id='{address['subnet_id']}'" for address in port["fixed_ips"]
    ]
    pairs = [
        f"ip_address='{address['ip_address']}', mac_address='{address['mac_address']}'"
        for address in port["allowed_address_pairs"]
    ]
    options = [f"{option['opt_name']}={option['opt_value']}" for option in port["extra_dhcp_opts"]]
    lists = {"fixed_ips": Words(addresses), "security_groups": Words(port["security_groups"])}
    lists |= {"extra_dhcp_opts": Words(options), "tags": Words(port["tags"])}
    return {**port, **lists, "allowed_address_pairs": Words(pairs)}
