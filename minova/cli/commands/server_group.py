"""`minova server group create|list|show|delete`: servers that must run together, or apart."""

import argparse
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

from minova.cli import find
from minova.cli.base import Command, Lister, ShowOne
from minova.cli.client import COMPUTE, Json, part
from minova.cli.errors import UsageError
from minova.cli.output.columns import KeyValues, Words
from minova.cli.parser import add_limit, key_value, natural, positive

GROUPS = f"{COMPUTE}/os-server-groups"
POLICIES = ("affinity", "anti-affinity", "soft-affinity", "soft-anti-affinity")
COLUMNS = ("ID", "Name", "Policy", "Rules", "Members")
Shown = tuple[Sequence[str], Iterable[Any]]


class ServerGroupCreate(ShowOne):
    """Create a server group."""

    _description = """Create a server group. Servers join it when they are created (server create --group).
With affinity all of them are on one host, with anti-affinity each is on another; the soft ones do so as far as they can."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("name", metavar="NAME")
        parser.add_argument("--policy", choices=POLICIES, default="affinity", help="default: affinity")
        parser.add_argument(
            "--max-server-per-host", type=positive, metavar="N", help="with anti-affinity: N servers on a host, not 1"
        )
        parser.add_argument(
            "--rule",
            type=key_value,
            action="append",
            default=[],
            metavar="KEY=VALUE",
            help="the same as max_server_per_host=N, the only rule there is",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Shown:
        group: Json = {"name": parsed_args.name, "policy": parsed_args.policy}
        rules = dict(parsed_args.rule)
        if parsed_args.max_server_per_host is not None:
            if rules:
                raise UsageError("--max-server-per-host and --rule say the same thing: give one.")
            rules = {"max_server_per_host": parsed_args.max_server_per_host}
        if rules:
            group["rules"] = rules
        return self.dict2columns(fields(self.client.post(GROUPS, {"server_group": group})["server_group"]))


class ServerGroupList(Lister):
    """List server groups with their servers."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--all-projects", action="store_true", help="of every project (administrators)")
        parser.add_argument("--long", action="store_true", help="also whose they are")
        add_limit(parser)
        parser.add_argument("--offset", type=natural, default=0, metavar="N", help="without the first N")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Shown:
        columns = (*COLUMNS, "Project ID", "User ID") if parsed_args.long else COLUMNS
        names = [column.lower().replace(" ", "_") for column in columns]
        every = find.server_groups(self.client, every=parsed_args.all_projects, offset=parsed_args.offset)
        groups = islice(every, parsed_args.limit)
        return columns, [tuple(fields(group)[name] for name in names) for group in groups]


class ServerGroupShow(ShowOne):
    """Show a server group."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("group", metavar="GROUP", help="name or ID")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Shown:
        return self.dict2columns(fields(find.server_group(self.client, parsed_args.group)))


class ServerGroupDelete(Command):
    """Delete server groups; their servers stay where they are."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("groups", nargs="+", metavar="GROUP", help="name or ID; if one is unknown, none goes")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        groups = {group["id"] for group in [find.server_group(self.client, name) for name in parsed_args.groups]}
        for identity in sorted(groups):
            self.client.delete(f"{GROUPS}/{part(identity)}")


def fields(group: Json) -> dict[str, Any]:
    """Returns the fields with the names of OpenStack's client; before microversion 2.64 `policies` is a list of one."""
    return {
        "id": group["id"],
        "name": group["name"],
        "policy": group.get("policy") or next(iter(group.get("policies") or []), None),
        "rules": KeyValues(group.get("rules") or {}),
        "members": Words(group.get("members") or []),
        "project_id": group.get("project_id"),
        "user_id": group.get("user_id"),
    }
