"""`minova network create|list|show|set|delete`."""

import argparse
from collections.abc import Iterable, Sequence
from typing import Any

from minova.cli import find
from minova.cli.base import Command, Lister, ShowOne
from minova.cli.client import NETWORK, Json, part
from minova.cli.errors import UsageError
from minova.cli.output.columns import Words

NETWORKS = f"{NETWORK}/networks"
Shown = tuple[Sequence[str], Iterable[Any]]
# Of `network set`: the attribute, the options that set it to true and to false, and the help of the first.
_SWITCHES = (
    ("admin_state_up", "enable", "disable", "it is up"),
    ("shared", "share", "no-share", "every project may use it (administrators)"),
    ("router:external", "external", "internal", "every project sees it (administrators)"),
    ("minova:reachable", "reachable", "no-reachable", "its hosts have routes to it (administrators)"),
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
        parser.add_argument("--share", action="store_true", help="every project may use it (administrators)")
        parser.add_argument("--external", action="store_true", help="every project sees it (administrators)")
        parser.add_argument("--provider-network-type", metavar="TYPE", help="local, flat or vlan (administrators)")
        parser.add_argument("--provider-physical-network", metavar="NAME", help="whose bridges hosts have")
        parser.add_argument("--provider-segment", type=int, metavar="VLAN", help="the VLAN tag")
        parser.add_argument("--reachable", action="store_true", help="its hosts have routes to it (administrators)")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Shown:
        network: Json = {
            "name": parsed_args.name,
            "description": parsed_args.description,
            "mtu": parsed_args.mtu,
            "shared": parsed_args.share or None,
            "router:external": parsed_args.external or None,
            "provider:network_type": parsed_args.provider_network_type,
            "provider:physical_network": parsed_args.provider_physical_network,
            "provider:segmentation_id": parsed_args.provider_segment,
            "minova:reachable": parsed_args.reachable or None,
        }
        created_network = self.client.post(NETWORKS, {"network": without_none(network)})["network"]
        return self.dict2columns(fields(created_network))


class NetworkList(Lister):
    """List networks."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--long", action="store_true", help="also project, state and kind")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Shown:
        columns = ["ID", "Name", "Subnets"]
        names = ["id", "name", "subnets"]
        if parsed_args.long:
            columns += ["Status", "Project", "State", "Shared", "Network Type", "Router Type"]
            names += ["status", "project_id", "admin_state_up", "shared", "provider:network_type", "router:external"]
        rows = [fields(network) for network in self.client.pages(NETWORKS, "networks")]
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
        for field, on, off, help_text in _SWITCHES:
            switch = parser.add_mutually_exclusive_group()
            switch.add_argument(f"--{on}", dest=field, action="store_const", const=True, help=help_text)
            switch.add_argument(f"--{off}", dest=field, action="store_const", const=False)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        names = ("name", "description", "mtu", *(field for field, *_ in _SWITCHES))
        changes = without_none({name: getattr(parsed_args, name) for name in names})
        if not changes:
            raise UsageError("Say what is to be set, such as --name or --reachable.")
        network = find.network(self.client, parsed_args.network)
        self.client.put(f"{NETWORKS}/{part(network['id'])}", {"network": changes})


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


def add_owner(parser: argparse.ArgumentParser, what: str = "its owner") -> None:
    """Adds the options that `owner` reads."""
    parser.add_argument("--project", metavar="PROJECT", help=f"{what}; name or ID (administrators)")
    parser.add_argument("--project-domain", metavar="DOMAIN", help="of the project, with Keystone; name or ID")


def owner(command: Command | Lister | ShowOne, parsed_args: argparse.Namespace) -> str | None:
    """Returns the ID of the project that is named; None: none is."""
    if parsed_args.project is None:
        return None
    return command.client.owner("project", parsed_args.project, parsed_args.project_domain)


def fields(network: Json) -> dict[str, Any]:
    return {**network, "subnets": Words(network.get("subnets") or [])}
