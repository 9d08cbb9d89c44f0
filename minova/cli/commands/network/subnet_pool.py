"""`minova subnet pool create|list|show|set|unset|delete`: ranges of which subnets get theirs."""

import argparse
from collections.abc import Iterable, Sequence
from typing import Any

from minova.cli import find
from minova.cli.base import Command, Lister, ShowOne
from minova.cli.client import NETWORK, Json, part
from minova.cli.commands.network.network import add_owner, owner, without_none
from minova.cli.errors import UsageError
from minova.cli.output.columns import Words

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
        shared = parser.add_mutually_exclusive_group()
        shared.add_argument(
            "--share", action="store_const", const=True, help="every project may use it (administrators)"
        )
        shared.add_argument(
            "--no-share", dest="share", action="store_const", const=False, help="only its own (default)"
        )
        add_owner(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Shown:
        pool: Json = {
            **_changes(parsed_args),
            "name": parsed_args.name,
            "prefixes": parsed_args.pool_prefix,
            "shared": parsed_args.share,
            "project_id": owner(self, parsed_args),
        }
        created = self.client.post(POOLS, {"subnetpool": without_none(pool)})["subnetpool"]
        if parsed_args.tag:
            created["tags"] = _set_tags(self, created, parsed_args.tag)
        return self.dict2columns(_fields(created))


class SubnetPoolList(Lister):
    """List subnet pools."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--long", action="store_true", help="also the default length, and who may use it")
        parser.add_argument("--name", metavar="NAME", help="only those of this name")
        shared, default = parser.add_mutually_exclusive_group(), parser.add_mutually_exclusive_group()
        shared.add_argument("--share", action="store_const", const="true", help="only those of all projects")
        shared.add_argument("--no-share", dest="share", action="store_const", const="false")
        default.add_argument(
            "--default", action="store_const", const="true", help="only those without which none is named"
        )
        default.add_argument("--no-default", dest="default", action="store_const", const="false")
        add_owner(parser, "only its own")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Shown:
        columns, names = ["ID", "Name", "Prefixes"], ["id", "name", "prefixes"]
        if parsed_args.long:
            columns += ["Default Prefix Length", "Default", "Shared"]
            names += ["default_prefixlen", "is_default", "shared"]
        pools = self.client.pages(
            POOLS,
            "subnetpools",
            name=parsed_args.name,
            shared=parsed_args.share,
            is_default=parsed_args.default,
            project_id=owner(self, parsed_args),
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
        if not (changes or parsed_args.tag or parsed_args.no_tag):
            raise UsageError("Say what is to be set, such as --name or --pool-prefix.")
        if changes:
            self.client.put(f"{POOLS}/{part(pool['id'])}", {"subnetpool": changes})
        if parsed_args.tag or parsed_args.no_tag:
            _set_tags(self, pool, [*([] if parsed_args.no_tag else pool["tags"]), *(parsed_args.tag or ())])


class SubnetPoolUnset(Command):
    """Remove tags from a subnet pool."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = _with_pool(super().get_parser(prog_name))
        tags = parser.add_mutually_exclusive_group(required=True)
        tags.add_argument("--tag", action="append", metavar="TAG", help="may be repeated")
        tags.add_argument("--all-tag", action="store_true", help="all of them")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        pool = find.subnet_pool(self.client, parsed_args.pool)
        _set_tags(
            self, pool, [] if parsed_args.all_tag else [tag for tag in pool["tags"] if tag not in parsed_args.tag]
        )


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
    parser.add_argument("--tag", action="append", metavar="TAG", help="may be repeated")
    parser.add_argument("--no-tag", action="store_true", help="remove its tags first")


def _changes(parsed_args: argparse.Namespace) -> Json:
    return {
        **{field: getattr(parsed_args, f"{name}_prefix_length") for name, field in _LENGTHS.items()},
        "is_default": parsed_args.default,
        "description": parsed_args.description,
        "default_quota": parsed_args.default_quota,
    }


def _set_tags(command: Command | ShowOne, pool: Json, tags: Sequence[str]) -> list[str]:
    path = f"{POOLS}/{part(pool['id'])}/tags"
    answered: list[str] = command.client.put(path, {"tags": [*dict.fromkeys(tags)]})["tags"]
    return answered


def _fields(pool: Json) -> dict[str, Any]:
    return {**pool, "prefixes": Words(pool["prefixes"]), "tags": Words(pool["tags"])}
