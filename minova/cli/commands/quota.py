"""`minova quota list|show|set|delete`: what projects may use, and what they use."""

import argparse
from collections.abc import Iterable, Sequence
from typing import Any

from minova.cli.base import Command, Lister, ShowOne
from minova.cli.client import COMPUTE, part
from minova.cli.errors import UsageError

QUOTAS = f"{COMPUTE}/os-quota-sets"
CLASS = f"{COMPUTE}/os-quota-class-sets/default"
# Options of `quota set`, by resource.
LIMITS = {
    "instances": "servers",
    "cores": "virtual CPUs of servers",
    "ram": "MB of memory of servers",
    "server_groups": "server groups",
    "server_group_members": "servers of a group",
    "metadata_items": "metadata items of a server",
    "key_pairs": "key pairs of a user",
    "injected_files": "files injected into a server",
    "injected_file_content_bytes": "bytes of an injected file",
    "injected_file_path_bytes": "bytes of the path of an injected file",
    "image_count_total": "images",
    "image_size_total": "MB of images",
}
# (resource, what is used, limit) in the answer about the own project.
OWN = (
    ("cores", "totalCoresUsed", "maxTotalCores"),
    ("instances", "totalInstancesUsed", "maxTotalInstances"),
    ("key_pairs", None, "maxTotalKeypairs"),
    ("metadata_items", None, "maxServerMeta"),
    ("ram", "totalRAMUsed", "maxTotalRAMSize"),
    ("server_group_members", None, "maxServerGroupMembers"),
    ("server_groups", "totalServerGroupsUsed", "maxServerGroups"),
)
Shown = tuple[Sequence[str], Iterable[Any]]


class QuotaList(Lister):
    """List the limits of a project and what it uses of them."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("project", metavar="PROJECT", nargs="?", help="default: the own project")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Shown:
        if parsed_args.project:
            quota_set = self.client.get(f"{QUOTAS}/{part(parsed_args.project)}/detail")["quota_set"]
            rows = [(name, row["in_use"], row["limit"]) for name, row in sorted(quota_set.items()) if name != "id"]
        else:
            absolute = self.client.get(f"{COMPUTE}/limits")["limits"]["absolute"]
            rows = [(name, absolute[used] if used else None, absolute[limit]) for name, used, limit in OWN]
        return ("Resource", "In Use", "Limit"), rows


class QuotaShow(ShowOne):
    """Show the limits of a project. -1: no limit."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("project", metavar="PROJECT", nargs="?")
        parser.add_argument("--default", action="store_true", help="those of projects without limits of their own")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Shown:
        _check_whose(parsed_args)
        path = f"{QUOTAS}/default/defaults" if parsed_args.default else f"{QUOTAS}/{part(parsed_args.project)}"
        return self.dict2columns(self.client.get(path)["quota_set"])


class QuotaSet(Command):
    """Change the limits of a project, or of all projects without limits of their own (administrators)."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("project", metavar="PROJECT", nargs="?")
        parser.add_argument("--default", action="store_true", help="for projects without limits of their own")
        parser.add_argument("--force", action="store_true", help="also below what is used")
        for name, said in LIMITS.items():
            parser.add_argument(f"--{name.replace('_', '-')}", type=_limit, metavar="N", help=f"{said}; -1: no limit")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        limits = {name: getattr(parsed_args, name) for name in LIMITS if getattr(parsed_args, name) is not None}
        if not limits:
            raise UsageError("No limit is given; such as --instances 20.")
        _check_whose(parsed_args)
        if parsed_args.default:
            self.client.put(CLASS, {"quota_class_set": limits})
            return
        body = {**limits, "force": True} if parsed_args.force else limits
        self.client.put(f"{QUOTAS}/{part(parsed_args.project)}", {"quota_set": body})


class QuotaDelete(Command):
    """Give projects the default limits (administrators)."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("projects", nargs="+", metavar="PROJECT")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        for project in parsed_args.projects:
            self.client.delete(f"{QUOTAS}/{part(project)}")


def _check_whose(parsed_args: argparse.Namespace) -> None:
    if parsed_args.default == bool(parsed_args.project):
        raise UsageError("Give either a PROJECT or --default.")


def _limit(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number") from None
    if value < -1:
        raise argparse.ArgumentTypeError(f"{value} is below -1, which is no limit")
    return value
