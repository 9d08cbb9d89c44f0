"""`minova network create|list|show|set|unset|delete`."""

import argparse
from collections.abc import Iterable, Sequence
from typing import Any

from minova.cli import find
from minova.cli.base import Command, Lister, ShowOne
from minova.cli.client import NETWORK, Json, part
from minova.cli.commands.network import listing, tags
from minova.cli.errors import UsageError
from minova.cli.output.columns import Words
from minova.cli.parser import add_owner

NETWORKS = f"{NETWORK}/networks"
Shown = tuple[Sequence[str], Iterable[Any]]
# The attribute, the options that set it to true and to false, and the help of the first.
_SWITCHES = (
    ("admin_state_up", "enable", "disable", "it is up"),
    ("shared", "share", "no-share", "every project may use it (administrators)"),
    ("router:external", "external", "internal", "every project sees it (administrators)"),
    ("minova:reachable", "reachable", "no-reachable", "its hosts have routes to it (administrators)"),
    (
        "port_security_enabled",
        "enable-port-security",
        "disable-port-security",
        "of its ports, unless they say otherwise",
    ),
)


class NetworkCreate(ShowOne):
    """Create a network."""

    _description = """Create a network. Its addresses are those of its subnets (subnet create).
Without --provider-network-type it is local: each host has the network, and translates its addresses."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("name", metavar="NAME")
        parser.add_argument("--description", metavar="TEXT")
        parser.add_argument("--mtu", type=int, metavar="BYTES")
        for switch in _SWITCHES:
            listing.add_switch(parser, *switch)
        parser.add_argument("--provider-network-type", metavar="TYPE", help="local, flat or vlan (administrators)")
        parser.add_argument("--provider-physical-network", metavar="NAME", help="whose bridges hosts have")
        parser.add_argument("--provider-segment", type=int, metavar="VLAN", help="the VLAN tag")
        tags.add_tags(parser)
        add_owner(parser, "project", "its owner (administrators)")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Shown:
        network: Json = {
            "name": parsed_args.name,
            "description": parsed_args.description,
            "mtu": parsed_args.mtu,
            **{field: getattr(parsed_args, field) for field, *_ in _SWITCHES},
            "provider:network_type": parsed_args.provider_network_type,
            "provider:physical_network": parsed_args.provider_physical_network,
            "provider:segmentation_id": parsed_args.provider_segment,
            "project_id": find.owner(self.client, parsed_args),
        }
        created_network = self.client.post(NETWORKS, {"network": without_none(network)})["network"]
        return self.dict2columns(fields(tags.add_new(self.client, NETWORKS, created_network, parsed_args)))


class NetworkList(Lister):
    """List networks."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--long", action="store_true", help="also project, state and kind")
        listing.add_filters(parser)
        listing.add_switch(
            parser, "router:external", "external", "internal", "only external ones, of which there are none"
        )
        listing.add_switch(parser, "admin_state_up", "enable", "disable", "only those that are up", "only the others")
        listing.add_switch(parser, "shared", "share", "no-share", "only those of all projects", "only the others")
        parser.add_argument("--status", metavar="STATUS", help="only with this one, such as ACTIVE")
        parser.add_argument(
            "--provider-network-type", metavar="TYPE", help="only local, flat or vlan ones (administrators)"
        )
        parser.add_argument("--provider-physical-network", metavar="NAME", help="only of this one (administrators)")
        parser.add_argument("--provider-segment", metavar="VLAN", help="only with this tag (administrators)")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Shown:
        columns = ["ID", "Name", "Subnets"]
        names = ["id", "name", "subnets"]
        if parsed_args.long:
            columns += ["Status", "Project", "State", "Shared", "Network Type", "Router Type"]
            names += ["status", "project_id", "admin_state_up", "shared", "provider:network_type", "router:external"]
        query = {name: getattr(parsed_args, name) for name in ("router:external", "admin_state_up", "shared", "status")}
        query |= {
            "provider:network_type": parsed_args.provider_network_type,
            "provider:physical_network": parsed_args.provider_physical_network,
            "provider:segmentation_id": parsed_args.provider_segment,
        }
        pages = self.client.pages(NETWORKS, "networks", **listing.filters(self, parsed_args), **query)
        rows = [fields(network) for network in pages]
        return columns, [tuple(shown(row, name) for name in names) for row in rows]


def shown(row: dict[str, Any], name: str) -> Any:
    """Returns the value as OpenStack's client shows it."""
    if name == "admin_state_up":
        return "UP" if row[name] else "DOWN"
    if name == "router:external":
        return "External" if row[name] else "Internal"
    return row.get(name)


class NetworkShow(ShowOne):
    """Show a network."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("network", metavar="NETWORK", help="name or ID")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Shown:
        return self.dict2columns(fields(find.network(self.client, parsed_args.network)))


class NetworkSet(Command):
    """Change a network."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("network", metavar="NETWORK", help="name or ID")
        parser.add_argument("--name", metavar="NAME")
        parser.add_argument("--description", metavar="TEXT")
        parser.add_argument("--mtu", type=int, metavar="BYTES")
        for switch in _SWITCHES:
            listing.add_switch(parser, *switch)
        tags.add_tags(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        names = ("name", "description", "mtu", *(field for field, *_ in _SWITCHES))
        changes = without_none({name: getattr(parsed_args, name) for name in names})
        if not (changes or tags.is_given(parsed_args)):
            raise UsageError("Say what is to be set, such as --name or --reachable.")
        network = find.network(self.client, parsed_args.network)
        if changes:
            self.client.put(f"{NETWORKS}/{part(network['id'])}", {"network": changes})
        tags.change(self.client, NETWORKS, network, parsed_args)


class NetworkUnset(tags.TagUnset):
    """Remove tags from a network."""

    noun, path = "NETWORK", NETWORKS

    def named(self, name: str) -> Json:
        return find.network(self.client, name)


class NetworkDelete(Command):
    """Delete networks with their subnets. A network with ports stays."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("networks", nargs="+", metavar="NETWORK", help="name or ID; if one is unknown, none goes")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        networks = {network["id"] for network in [find.network(self.client, name) for name in parsed_args.networks]}
        for identity in sorted(networks):
            self.client.delete(f"{NETWORKS}/{part(identity)}")


def without_none(document: Json) -> Json:
    return {key: value for key, value in document.items() if value is not None}


def fields(network: Json) -> dict[str, Any]:
    return {**network, "subnets": Words(network.get("subnets") or []), "tags": Words(network["tags"])}
