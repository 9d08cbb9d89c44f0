"""`minova quota list|show|set|delete` and `minova limits show`: what projects may use, and what they use."""

import argparse
from collections.abc import Iterable, Sequence
from typing import Any

from minova.cli.base import Command, Lister, ShowOne
from minova.cli.client import COMPUTE, NETWORK, part
from minova.cli.errors import UsageError
from minova.cli.output.columns import KeyValues

QUOTAS = f"{COMPUTE}/os-quota-sets"
NETWORK_QUOTAS = f"{NETWORK}/quotas"
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
# (resource, field of the usage, field of the limit) in the response for the caller's own project.
OWN = (
    ("cores", "totalCoresUsed", "maxTotalCores"),
    ("instances", "totalInstancesUsed", "maxTotalInstances"),
    ("key_pairs", None, "maxTotalKeypairs"),
    ("metadata_items", None, "maxServerMeta"),
    ("ram", "totalRAMUsed", "maxTotalRAMSize"),
    ("server_group_members", None, "maxServerGroupMembers"),
    ("server_groups", "totalServerGroupsUsed", "maxServerGroups"),
)
# Options of OpenStack's client for a limit, if the name differs.
SPELLINGS = {
    "metadata_items": "--properties",
    "injected_file_content_bytes": "--injected-file-size",
    "injected_file_path_bytes": "--injected-path-size",
}
# Limits of the Network API by OpenStack's options: (its name, what is counted).
NETWORK_LIMITS = {
    "networks": ("network", "networks"),
    "subnets": ("subnet", "subnets"),
    "ports": ("port", "ports"),
    "secgroups": ("security_group", "security groups"),
    "secgroup_rules": ("security_group_rule", "rules of security groups"),
    "subnetpools": ("subnetpool", "subnet pools"),
    "address_groups": ("address_group", "address groups"),
}
Shown = tuple[Sequence[str], Iterable[Any]]


class QuotaList(Lister):
    """List the limits of a project and what it uses of them."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("project", metavar="PROJECT", nargs="?", help="default: the own project")
        services = parser.add_mutually_exclusive_group()
        services.add_argument("--compute", action="store_true", help="of servers and images (default)")
        services.add_argument("--network", action="store_true", help="of networks")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Shown:
        project_name = parsed_args.project
        rows: list[tuple[Any, ...]]
        if parsed_args.network:
            project = self.client.owner("project", project_name) if project_name else self.client.own_project()
            quota = self.client.get(f"{NETWORK_QUOTAS}/{part(project)}/details")["quota"]
            rows = [(name, row["used"], row["limit"]) for name, row in sorted(quota.items())]
        elif project_name:
            project = self.client.owner("project", project_name)
            quota_set = self.client.get(f"{QUOTAS}/{part(project)}/detail")["quota_set"]
            rows = [(name, row["in_use"], row["limit"]) for name, row in sorted(quota_set.items()) if name != "id"]
        else:
            absolute = self.client.get(f"{COMPUTE}/limits")["limits"]["absolute"]
            rows = [(name, absolute[used] if used else None, absolute[limit]) for name, used, limit in OWN]
        return ("Resource", "In Use", "Limit"), rows


class QuotaShow(ShowOne):
    """Show the limits of a project. -1: no limit."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("project", metavar="PROJECT", nargs="?", help="default: the own project")
        parser.add_argument("--default", action="store_true", help="those of projects without limits of their own")
        services = parser.add_mutually_exclusive_group()
        services.add_argument("--all", action="store_true", help="of servers, images and networks (default)")
        services.add_argument("--compute", action="store_true", help="only those of servers and images")
        services.add_argument("--network", action="store_true", help="only those of networks")
        parser.add_argument("--usage", action="store_true", help="with what the project uses and has reserved")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Shown:
        if parsed_args.default and parsed_args.project:
            raise UsageError("Give either a PROJECT or --default.")
        if parsed_args.default and parsed_args.usage:
            raise UsageError("--usage is for a project, not for --default.")
        if parsed_args.default:
            paths = (f"{QUOTAS}/default/defaults", f"{NETWORK_QUOTAS}/{part(self.client.own_project())}/default")
        else:
            project_name = parsed_args.project
            project = part(self.client.owner("project", project_name) if project_name else self.client.own_project())
            paths = (f"{QUOTAS}/{project}", f"{NETWORK_QUOTAS}/{project}")
        if parsed_args.usage:
            paths = (f"{paths[0]}/detail", f"{paths[1]}/details")
        values: dict[str, Any] = {}
        if not parsed_args.network:
            values |= self.client.get(paths[0])["quota_set"]
        if not parsed_args.compute:
            limits = self.client.get(paths[1])["quota"]
            values |= {option: limits[name] for option, (name, _) in NETWORK_LIMITS.items() if name in limits}
        return self.dict2columns(
            {name: KeyValues(value) if isinstance(value, dict) else value for name, value in values.items()}
        )


class LimitsShow(Lister):
    """List the limits of the own project with what it uses. -1: no limit."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        kind = parser.add_mutually_exclusive_group()
        kind.add_argument("--absolute", action="store_true", help="limits of resources, as without the option")
        kind.add_argument("--rate", action="store_true", help="limits of requests; minova has none")
        parser.add_argument(
            "--reserved", action="store_true", help="with what is reserved, which minova counts as used"
        )
        parser.add_argument("--project", metavar="PROJECT", help="of this project (administrators)")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Shown:
        query: dict[str, Any] = {"reserved": 1} if parsed_args.reserved else {}
        if parsed_args.project:
            query["tenant_id"] = self.client.owner("project", parsed_args.project)
        limits = self.client.get(f"{COMPUTE}/limits", **query)["limits"]
        if parsed_args.rate:
            return ("Verb", "URI", "Value", "Remain", "Unit", "Next Available"), []
        return ("Name", "Value"), sorted(limits["absolute"].items())


class QuotaSet(Command):
    """Change the limits of a project, or of all projects without limits of their own (administrators)."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("project", metavar="PROJECT", nargs="?")
        parser.add_argument("--default", action="store_true", help="for projects without limits of their own")
        force = parser.add_mutually_exclusive_group()
        force.add_argument("--force", action="store_true", help="also below what is used")
        force.add_argument("--no-force", action="store_true", help="not below what is used, as without the option")
        for name, text in LIMITS.items():
            words = [f"--{name.replace('_', '-')}", *filter(None, [SPELLINGS.get(name)])]
            parser.add_argument(*words, dest=name, type=_limit, metavar="N", help=f"{text}; -1: no limit")
        for name, (_, text) in NETWORK_LIMITS.items():
            option = f"--{name.replace('_', '-')}"
            parser.add_argument(option, dest=name, type=_limit, metavar="N", help=f"{text}; -1: no limit")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        limits = {name: getattr(parsed_args, name) for name in LIMITS if getattr(parsed_args, name) is not None}
        networks = {
            name: getattr(parsed_args, option)
            for option, (name, _) in NETWORK_LIMITS.items()
            if getattr(parsed_args, option) is not None
        }
        if not (limits or networks):
            raise UsageError("No limit is given; such as --instances 20.")
        if parsed_args.default == bool(parsed_args.project):
            raise UsageError("Give either a PROJECT or --default.")
        if parsed_args.default:
            if networks:
                raise UsageError("--default is not for limits of networks: their defaults are options of the services.")
            self.client.put(CLASS, {"quota_class_set": limits})
            return
        body = {**limits, "force": True} if parsed_args.force else limits
        project = self.client.owner("project", parsed_args.project)
        if limits:
            self.client.put(f"{QUOTAS}/{part(project)}", {"quota_set": body})
        if networks:
            body = {**networks, "check_limit": not parsed_args.force}
            self.client.put(f"{NETWORK_QUOTAS}/{part(project)}", {"quota": body})


class QuotaDelete(Command):
    """Give projects the default limits (administrators)."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("projects", nargs="+", metavar="PROJECT")
        services = parser.add_mutually_exclusive_group()
        services.add_argument("--all", action="store_true", help="of servers, images and networks (default)")
        services.add_argument("--compute", action="store_true", help="only those of servers and images")
        services.add_argument("--network", action="store_true", help="only those of networks")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        for project in [self.client.owner("project", name) for name in parsed_args.projects]:
            if not parsed_args.network:
                self.client.delete(f"{QUOTAS}/{part(project)}")
            if not parsed_args.compute:
                self.client.delete(f"{NETWORK_QUOTAS}/{part(project)}")


def _limit(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number") from None
    if value < -1:
        raise argparse.ArgumentTypeError(f"{value} is below -1, which is no limit")
    return value
