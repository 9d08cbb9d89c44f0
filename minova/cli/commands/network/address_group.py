"""`minova address group create|list|show|set|unset|delete`: ranges that rules of security groups name."""

import argparse
import ipaddress
from collections.abc import Iterable, Sequence
from typing import Any

from minova.cli import find
from minova.cli.base import Command, Lister, ShowOne
from minova.cli.client import NETWORK, Json, part
from minova.cli.commands.network import listing
from minova.cli.commands.network.network import without_none
from minova.cli.errors import UsageError
from minova.cli.output.columns import Words
from minova.cli.parser import add_owner

GROUPS = f"{NETWORK}/address-groups"
COLUMNS = ("ID", "Name", "Description", "Project", "Addresses")
Shown = tuple[Sequence[str], Iterable[Any]]


class AddressGroupCreate(ShowOne):
    """Create an address group."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("name", metavar="NAME")
        parser.add_argument("--description", metavar="TEXT")
        _add_addresses(parser, "may be repeated")
        add_owner(parser, "project", "its owner (administrators)")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Shown:
        group: Json = {
            "name": parsed_args.name,
            "description": parsed_args.description,
            "addresses": parsed_args.address or [],
            "project_id": find.owner(self.client, parsed_args),
        }
        created = self.client.post(GROUPS, {"address_group": without_none(group)})["address_group"]
        return self.dict2columns(_fields(created))


class AddressGroupList(Lister):
    """List address groups."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        listing.add_filters(parser, has_tags=False)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Shown:
        rows = self.client.pages(GROUPS, "address_groups", **listing.filters(self, parsed_args))
        names = ("id", "name", "description", "project_id", "addresses")
        return COLUMNS, [tuple(_fields(row)[name] for name in names) for row in rows]


class AddressGroupShow(ShowOne):
    """Show an address group."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        return _with_group(super().get_parser(prog_name))

    def take_action(self, parsed_args: argparse.Namespace) -> Shown:
        return self.dict2columns(_fields(find.address_group(self.client, parsed_args.group)))


class AddressGroupSet(Command):
    """Change the name or description of an address group, or add ranges. Guests that run feel it at once."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = _with_group(super().get_parser(prog_name))
        parser.add_argument("--name", metavar="NAME")
        parser.add_argument("--description", metavar="TEXT")
        _add_addresses(parser, "to add; may be repeated")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        changes = without_none({"name": parsed_args.name, "description": parsed_args.description})
        if not (changes or parsed_args.address):
            raise UsageError("Say what is to be set: --name, --description or --address.")
        path = f"{GROUPS}/{part(find.address_group(self.client, parsed_args.group)['id'])}"
        if changes:
            self.client.put(path, {"address_group": changes})
        if parsed_args.address:
            self.client.put(f"{path}/add_addresses", {"addresses": parsed_args.address})


class AddressGroupUnset(Command):
    """Remove ranges from an address group. Guests that run feel it at once."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = _with_group(super().get_parser(prog_name))
        _add_addresses(parser, "to remove; may be repeated")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        if not parsed_args.address:
            raise UsageError("Say what is to be removed: --address.")
        group = find.address_group(self.client, parsed_args.group)
        self.client.put(f"{GROUPS}/{part(group['id'])}/remove_addresses", {"addresses": parsed_args.address})


class AddressGroupDelete(Command):
    """Delete address groups that no rule names."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("groups", nargs="+", metavar="GROUP", help="name or ID; if one is unknown, none goes")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        groups = {group["id"] for group in [find.address_group(self.client, name) for name in parsed_args.groups]}
        for identity in sorted(groups):
            self.client.delete(f"{GROUPS}/{part(identity)}")


def _add_addresses(parser: argparse.ArgumentParser, help_text: str) -> None:
    parser.add_argument("--address", action="append", type=address, metavar="ADDRESS", help=f"or a range; {help_text}")


def address(text: str) -> str:
    """Returns the range of one address or the range itself."""
    try:
        return text if "/" in text else str(ipaddress.ip_network(text))
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is not an address, and no range such as 192.0.2.0/24") from None


def _with_group(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    parser.add_argument("group", metavar="GROUP", help="name or ID")
    return parser


def _fields(group: Json) -> dict[str, Any]:
    return {**group, "addresses": Words(group["addresses"])}
