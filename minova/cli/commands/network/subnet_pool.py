"""`minova subnet pool create|list|show|set|unset|delete`: ranges of which subnets get theirs."""

import argparse
from collections.abc import Iterable, Sequence
from typing import Any

from minova.cli import find
from minova.cli.base import Command, Lister, ShowOne
from minova.cli.client import NETWORK, Json, part
from minova.cli.commands.network import listing, tags
from minova.cli.commands.network.network import without_none
from minova.cli.errors import UsageError
from minova.cli.output.columns import Words
from minova.cli.parser import add_owner

POOLS = f"{NETWORK}/subnetpools"
Shown = tuple[Sequence[str], Iterable[Any]]
# The options of lengths, and their fields.
_LENGTHS = {"default": "default_prefixlen", "min": "min_prefixlen", "max": "max_prefixlen"}


class SubnetPoolCreate(ShowOne):
    """Create a subnet pool."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("name", metavar="NAME")
        parser.add_argument("--pool-prefix", action="append", required=True, metavar="CIDR", help="may be repeated")
        _add_changes(parser)
        help_texts = ("every project may use it (administrators)", "only its own (default)")
        listing.add_switch(parser, "share", "share", "no-share", *help_texts)
        add_owner(parser, "project", "its owner (administrators)")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Shown:
        pool: Json = {
            **_changes(parsed_args),
            "name": parsed_args.name,
            "prefixes": parsed_args.pool_prefix,
            "shared": parsed_args.share,
            "project_id": find.owner(self.client, parsed_args),
        }
        created = self.client.post(POOLS, {"subnetpool": without_none(pool)})["subnetpool"]
        return self.dict2columns(_fields(tags.add_new(self.client, POOLS, created, parsed_args)))


class SubnetPoolList(Lister):
    """List subnet pools."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--long", action="store_true", help="also the default length, and who may use it")
        listing.add_filters(parser)
        listing.add_switch(parser, "shared", "share", "no-share", "only those of all projects", "only the others")
        listing.add_switch(
            parser, "is_default", "default", "no-default", "only those without which none is named", "only the others"
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Shown:
        columns, names = ["ID", "Name", "Prefixes"], ["id", "name", "prefixes"]
        if parsed_args.long:
            columns += ["Default Prefix Length", "Default", "Shared"]
            names += ["default_prefixlen", "is_default", "shared"]
        pools = self.client.pages(
            POOLS,
            "subnetpools",
            shared=parsed_args.shared,
            is_default=parsed_args.is_default,
            **listing.filters(self, parsed_args),
        )
        return columns, [tuple(_fields(pool)[name] for name in names) for pool in pools]


class SubnetPoolShow(ShowOne):
    """Show a subnet pool."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        return _with_pool(super().get_parser(prog_name))

    def take_action(self, parsed_args: argparse.Namespace) -> Shown:
        return self.dict2columns(_fields(find.subnet_pool(self.client, parsed_args.pool)))


class SubnetPoolSet(Command):
    """Change a subnet pool. Ranges and tags are added to those that it has. Subnets keep their ranges."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = _with_pool(super().get_parser(prog_name))
        parser.add_argument("--name", metavar="NAME")
        parser.add_argument("--pool-prefix", action="append", metavar="CIDR", help="to add; may be repeated")
        _add_changes(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        pool = find.subnet_pool(self.client, parsed_args.pool)
        changes = without_none({**_changes(parsed_args), "name": parsed_args.name})
        if parsed_args.pool_prefix:
            changes["prefixes"] = [*dict.fromkeys((*pool["prefixes"], *parsed_args.pool_prefix))]
        if not (changes or tags.is_given(parsed_args)):
            raise UsageError("Say what is to be set, such as --name or --pool-prefix.")
        if changes:
            self.client.put(f"{POOLS}/{part(pool['id'])}", {"subnetpool": changes})
        tags.change(self.client, POOLS, pool, parsed_args)


class SubnetPoolUnset(tags.TagUnset):
    """Remove tags from a subnet pool."""

    noun, path = "POOL", POOLS

    def named(self, name: str) -> Json:
        return find.subnet_pool(self.client, name)


class SubnetPoolDelete(Command):
    """Delete subnet pools of which no subnet has its range."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("pools", nargs="+", metavar="POOL", help="name or ID; if one is unknown, none goes")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        pools = {pool["id"] for pool in [find.subnet_pool(self.client, name) for name in parsed_args.pools]}
        for identity in sorted(pools):
            self.client.delete(f"{POOLS}/{part(identity)}")


def _with_pool(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    parser.add_argument("pool", metavar="POOL", help="name or ID")
    return parser


def _add_changes(parser: argparse.ArgumentParser) -> None:
    for name in _LENGTHS:
        text = "of subnets that name none" if name == "default" else f"the {name}imum of subnets"
        parser.add_argument(f"--{name}-prefix-length", type=int, metavar="BITS", help=f"length, {text}")
    default = parser.add_mutually_exclusive_group()
    default.add_argument(
        "--default", action="store_const", const=True, help="subnets may use it without naming it (administrators)"
    )
    default.add_argument("--no-default", dest="default", action="store_const", const=False)
    parser.add_argument("--description", metavar="TEXT")
    parser.add_argument(
        "--default-quota",
        type=int,
        metavar="N",
        help="addresses that each project may have of it; of IPv6, ranges of /64",
    )
    tags.add_tags(parser)


def _changes(parsed_args: argparse.Namespace) -> Json:
    return {
        **{field: getattr(parsed_args, f"{name}_prefix_length") for name, field in _LENGTHS.items()},
        "is_default": parsed_args.default,
        "description": parsed_args.description,
        "default_quota": parsed_args.default_quota,
    }


def _fields(pool: Json) -> dict[str, Any]:
    return {**pool, "prefixes": Words(pool["prefixes"]), "tags": Words(pool["tags"])}
