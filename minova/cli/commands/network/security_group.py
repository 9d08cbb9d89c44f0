"""`minova security group create|list|show|set|unset|delete` and `minova security group rule create|list|show|delete`."""

import argparse
from collections.abc import Iterable, Sequence
from typing import Any

from minova.cli import find
from minova.cli.base import Command, Lister, ShowOne
from minova.cli.client import COMPUTE, NETWORK, Json, part
from minova.cli.commands.network import listing, tags
from minova.cli.commands.network.network import without_none
from minova.cli.errors import UsageError
from minova.cli.output.columns import Words
from minova.cli.parser import add_owner

GROUPS, RULES = f"{NETWORK}/security-groups", f"{NETWORK}/security-group-rules"
Shown = tuple[Sequence[str], Iterable[Any]]
_STATEFUL = ("stateful", "stateful", "stateless", "follows connections (always)", "minova has no such groups")
# Protocols that openstack takes for IPv6, besides those whose names begin with `ipv6-`.
_OF_IPV6 = frozenset({"icmpv6", "41", "43", "44", "58", "59", "60"})


class SecurityGroupCreate(ShowOne):
    """Create a security group. It lets everything out and nothing in until it has rules."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("name", metavar="NAME")
        parser.add_argument("--description", metavar="TEXT")
        listing.add_switch(parser, *_STATEFUL)
        tags.add_tags(parser)
        add_owner(parser, "project", "its owner (administrators)")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Shown:
        group: Json = {
            "name": parsed_args.name,
            "description": parsed_args.description,
            "stateful": parsed_args.stateful,
            "project_id": find.owner(self.client, parsed_args),
        }
        created_group = self.client.post(GROUPS, {"security_group": without_none(group)})["security_group"]
        return self.dict2columns(fields(tags.add_new(self.client, GROUPS, created_group, parsed_args)))


class SecurityGroupList(Lister):
    """List security groups."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        listing.add_filters(parser, has_name=False)
        listing.add_switch(
            parser,
            "shared",
            "share",
            "no-share",
            "only those of all projects, of which there are none",
            "only the others",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Shown:
        names = ["id", "name", "description", "project_id"]
        query = listing.filters(self, parsed_args)
        rows = self.client.pages(GROUPS, "security_groups", shared=parsed_args.shared, **query)
        return ["ID", "Name", "Description", "Project"], [tuple(row[name] for name in names) for row in rows]


class SecurityGroupShow(ShowOne):
    """Show a security group with its rules."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("group", metavar="GROUP", help="name or ID")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Shown:
        return self.dict2columns(fields(find.security_group(self.client, parsed_args.group)))


class SecurityGroupSet(Command):
    """Change the name or description of a security group."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("group", metavar="GROUP", help="name or ID")
        parser.add_argument("--name", metavar="NAME")
        parser.add_argument("--description", metavar="TEXT")
        listing.add_switch(parser, *_STATEFUL)
        tags.add_tags(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        names = ("name", "description", "stateful")
        changes = without_none({name: getattr(parsed_args, name) for name in names})
        if not (changes or tags.is_given(parsed_args)):
            raise UsageError("Say what is to be set, such as --name or --tag.")
        group = find.security_group(self.client, parsed_args.group)
        if changes:
            self.client.put(f"{GROUPS}/{part(group['id'])}", {"security_group": changes})
        tags.change(self.client, GROUPS, group, parsed_args)


class SecurityGroupUnset(tags.TagUnset):
    """Remove tags from a security group."""

    noun, path = "GROUP", GROUPS

    def named(self, name: str) -> Json:
        return find.security_group(self.client, name)


class SecurityGroupDelete(Command):
    """Delete security groups that no port has."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("groups", nargs="+", metavar="GROUP", help="name or ID; if one is unknown, none goes")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        groups = {group["id"] for group in [find.security_group(self.client, name) for name in parsed_args.groups]}
        for identity in sorted(groups):
            self.client.delete(f"{GROUPS}/{part(identity)}")


class SecurityGroupRuleCreate(ShowOne):
    """Let something in, or out with --egress. Guests that run feel it at once."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("group", metavar="GROUP", help="name or ID")
        direction = parser.add_mutually_exclusive_group()
        direction.add_argument("--ingress", action="store_const", dest="direction", const="ingress", default="ingress")
        direction.add_argument("--egress", action="store_const", dest="direction", const="egress")
        parser.add_argument(
            "--ethertype", choices=("IPv4", "IPv6"), help="default: of the protocol or remote range, else IPv4"
        )
        parser.add_argument("--protocol", metavar="PROTOCOL", help="tcp, udp, icmp, ... or a number; default: any")
        parser.add_argument("--dst-port", type=ports, metavar="PORT[:PORT]", help="ports of tcp, udp and sctp")
        parser.add_argument("--icmp-type", type=int, metavar="TYPE")
        parser.add_argument("--icmp-code", type=int, metavar="CODE")
        remote = parser.add_mutually_exclusive_group()
        remote.add_argument("--remote-ip", metavar="RANGE", help="such as 192.0.2.0/24; default: any")
        remote.add_argument("--remote-group", metavar="GROUP", help="ports that have this group; name or ID")
        remote.add_argument("--remote-address-group", metavar="GROUP", help="its ranges; name or ID")
        parser.add_argument("--description", metavar="TEXT")
        add_owner(parser, "project", "its owner (administrators)")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Shown:
        low, high = parsed_args.dst_port or (parsed_args.icmp_type, parsed_args.icmp_code)
        remote = parsed_args.remote_group and find.security_group(self.client, parsed_args.remote_group)["id"]
        ranges = parsed_args.remote_address_group
        rule: Json = {
            "security_group_id": find.security_group(self.client, parsed_args.group)["id"],
            "direction": parsed_args.direction,
            "ethertype": parsed_args.ethertype or _ethertype(parsed_args.protocol, parsed_args.remote_ip),
            "protocol": parsed_args.protocol,
            "port_range_min": low,
            "port_range_max": high,
            "remote_ip_prefix": parsed_args.remote_ip,
            "remote_group_id": remote,
            "remote_address_group_id": ranges and find.address_group(self.client, ranges)["id"],
            "description": parsed_args.description,
            "project_id": find.owner(self.client, parsed_args),
        }
        created_rule = self.client.post(RULES, {"security_group_rule": without_none(rule)})["security_group_rule"]
        return self.dict2columns(created_rule)


def _ethertype(protocol: str | None, remote_range: str | None) -> str:
    name = (protocol or "").lower()
    is_6 = name in _OF_IPV6 or name.startswith("ipv6-") or ":" in (remote_range or "")
    return "IPv6" if is_6 else "IPv4"


class SecurityGroupRuleList(Lister):
    """List rules, of one security group or of all."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("group", nargs="?", metavar="GROUP", help="name or ID")
        parser.add_argument("--protocol", metavar="PROTOCOL", help="only with this protocol")
        directions = parser.add_mutually_exclusive_group()
        directions.add_argument(
            "--ingress", dest="direction", action="store_const", const="ingress", help="only what comes in"
        )
        directions.add_argument(
            "--egress", dest="direction", action="store_const", const="egress", help="only what goes out"
        )
        parser.add_argument("--ethertype", choices=("IPv4", "IPv6"), help="only of this one")
        parser.add_argument("--long", action="store_true", help="as without it, also in openstack")
        listing.add_filters(parser, has_name=False, has_tags=False)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Shown:
        columns = ["ID", "IP Protocol", "Ethertype", "IP Range", "Port Range", "Direction", "Remote Security Group"]
        group = parsed_args.group and find.security_group(self.client, parsed_args.group)["id"]
        rules = self.client.pages(
            RULES,
            "security_group_rules",
            security_group_id=group or None,
            direction=parsed_args.direction,
            ethertype=parsed_args.ethertype,
            protocol=parsed_args.protocol,
            **listing.filters(self, parsed_args),
        )
        if group:
            return columns, [row_of(rule) for rule in rules]
        return [*columns, "Security Group"], [(*row_of(rule), rule["security_group_id"]) for rule in rules]


class SecurityGroupRuleShow(ShowOne):
    """Show a rule."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("rule", metavar="RULE", help="ID")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Shown:
        return self.dict2columns(self.client.get(f"{RULES}/{part(parsed_args.rule)}")["security_group_rule"])


class SecurityGroupRuleDelete(Command):
    """Delete rules."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("rules", nargs="+", metavar="RULE", help="ID")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        for identity in parsed_args.rules:
            self.client.delete(f"{RULES}/{part(identity)}")


class ServerSecurityGroup(Command):
    """Its subclasses name the action."""

    action = ""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("server", metavar="SERVER", help="name or ID")
        parser.add_argument(
            "groups", nargs="+", metavar="GROUP", help="name or ID; if one is unknown, nothing is changed"
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        server = find.server(self.client, parsed_args.server)
        groups = [find.security_group(self.client, group)["id"] for group in parsed_args.groups]
        for group in dict.fromkeys(groups):
            self.client.post(f"{COMPUTE}/servers/{part(server['id'])}/action", {self.action: {"name": group}})


class ServerAddSecurityGroup(ServerSecurityGroup):
    """Give all interfaces of a server a security group."""

    action = "addSecurityGroup"


class ServerRemoveSecurityGroup(ServerSecurityGroup):
    """Take a security group from all interfaces of a server."""

    action = "removeSecurityGroup"


def ports(text: str) -> tuple[int, int]:
    low, _, high = text.partition(":")
    try:
        return int(low), int(high or low)
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is not a port such as 22 or a range such as 8000:8080") from None


def row_of(rule: Json) -> tuple[Any, ...]:
    """Returns the row of a rule as OpenStack's client shows it."""
    low, high = rule["port_range_min"], rule["port_range_max"]
    if rule["protocol"] in {"icmp", "icmpv6"}:
        port_range = "" if low is None else f"type={low}" + ("" if high is None else f":code={high}")
    else:
        port_range = "" if low is None else f"{low}:{high}"
    anywhere = "0.0.0.0/0" if rule["ethertype"] == "IPv4" else "::/0"
    return (
        rule["id"],
        rule["protocol"],
        rule["ethertype"],
        rule["remote_ip_prefix"] or anywhere,
        port_range,
        rule["direction"],
        rule["remote_group_id"],
    )


def fields(group: Json) -> dict[str, Any]:
    rules = [
        " ".join(f"{name}='{rule[name]}'" for name in sorted(rule) if rule[name] not in (None, ""))
        for rule in group["security_group_rules"]
    ]
    return {**group, "security_group_rules": Words(rules), "tags": Words(group["tags"])}
