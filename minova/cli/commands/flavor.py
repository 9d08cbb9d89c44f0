"""`minova flavor create|list|show|set|unset|delete`."""

import argparse
from collections.abc import Iterable, Sequence
from typing import Any

from minova.cli import find
from minova.cli.base import Command, Lister, ShowOne
from minova.cli.client import COMPUTE, Client, Json, part
from minova.cli.errors import ApiError, CliError, UsageError
from minova.cli.output.columns import KeyValues
from minova.cli.parser import add_key_values, add_owner, add_paging, natural, positive

COLUMNS = ("ID", "Name", "RAM", "Disk", "Ephemeral", "Swap", "VCPUs", "Is Public")
LONG_COLUMNS = ("RXTX Factor", "Description", "Properties")


class FlavorCreate(ShowOne):
    """Create a flavor: a size of server."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("name", metavar="NAME")
        parser.add_argument("--id", default="auto", help="its ID (default: a UUID)")
        parser.add_argument("--ram", type=positive, default=256, metavar="MB", help="memory in MB (default: 256)")
        parser.add_argument(
            "--disk", type=natural, default=0, metavar="GB", help="root disk in GB (default: 0, as image)"
        )
        parser.add_argument("--ephemeral", type=natural, default=0, metavar="GB", help="second disk in GB (default: 0)")
        parser.add_argument("--swap", type=natural, default=0, metavar="MB", help="swap disk in MB (default: 0)")
        parser.add_argument("--vcpus", type=positive, default=1, metavar="N", help="virtual CPUs (default: 1)")
        access = parser.add_mutually_exclusive_group()
        access.add_argument("--public", action="store_true", help="for every project (default)")
        access.add_argument("--private", action="store_true", help="not for every project")
        add_owner(parser, "project", "with --private, the project that may use it")
        parser.add_argument("--rxtx-factor", type=factor, metavar="FACTOR", help="shown with it, and changes nothing")
        parser.add_argument("--description", help="what it is for")
        add_key_values(parser, "--property", "extra spec; may be repeated")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Any]]:
        if parsed_args.project and not parsed_args.private:
            raise UsageError("--project goes with --private: every project may use a public flavor.")
        project = parsed_args.project and self.client.owner("project", parsed_args.project, parsed_args.project_domain)
        flavor: Json = {
            "name": parsed_args.name,
            "id": None if parsed_args.id == "auto" else parsed_args.id,
            "ram": parsed_args.ram,
            "vcpus": parsed_args.vcpus,
            "disk": parsed_args.disk,
            "OS-FLV-EXT-DATA:ephemeral": parsed_args.ephemeral,
            "swap": parsed_args.swap,
            "os-flavor-access:is_public": not parsed_args.private,
        }
        options = {"description": parsed_args.description, "rxtx_factor": parsed_args.rxtx_factor}
        flavor |= {key: value for key, value in options.items() if value is not None}
        if parsed_args.property:
            # An extension of minova: OpenStack sets them by a second request, which may fail and leave a flavor without
            # them.
            flavor["extra_specs"] = dict(parsed_args.property)
        created = self.client.post(f"{COMPUTE}/flavors", {"flavor": flavor})["flavor"]
        if project:
            try:
                _set_access(self.client, created, "addTenantAccess", project)
            except ApiError as error:
                raise CliError(
                    f"Flavor {created['name']} was made, and project {parsed_args.project} may not use it: {error}"
                ) from None
        return self.dict2columns(fields(created))


class FlavorList(Lister):
    """List flavors."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        kinds = parser.add_mutually_exclusive_group()
        for option, value, text in (
            ("--public", "True", "only public ones"),
            ("--private", "False", "only private ones (administrators)"),
            ("--all", "None", "private ones too (administrators)"),
        ):
            kinds.add_argument(option, dest="is_public", action="store_const", const=value, help=text)
        parser.add_argument("--min-disk", type=natural, metavar="GB", help="only with at least this root disk")
        parser.add_argument("--min-ram", type=natural, metavar="MB", help="only with at least this memory")
        parser.add_argument("--long", action="store_true", help="more columns")
        add_paging(parser, "those after this one: its ID", "FLAVOR")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Any]]:
        flavors = self.client.pages(
            f"{COMPUTE}/flavors/detail",
            "flavors",
            limit=parsed_args.limit,
            is_public=parsed_args.is_public,
            minDisk=parsed_args.min_disk,
            minRam=parsed_args.min_ram,
            marker=parsed_args.marker,
        )
        columns = COLUMNS + LONG_COLUMNS if parsed_args.long else COLUMNS
        return columns, [tuple(fields(flavor)[_field(column)] for column in columns) for flavor in flavors]


class FlavorShow(ShowOne):
    """Show a flavor."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("flavor", metavar="FLAVOR", help="name or ID")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Any]]:
        flavor = find.flavor(self.client, parsed_args.flavor)
        return self.dict2columns(fields(flavor))


class FlavorSet(Command):
    """Set properties or the description of a flavor, or let a project use a private one; servers made with it stay as they are."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("flavor", metavar="FLAVOR", help="name or ID")
        add_key_values(parser, "--property", "extra spec; may be repeated")
        parser.add_argument(
            "--no-property",
            action="store_true",
            help="unset all extra specs first; with --property those are the only ones",
        )
        parser.add_argument("--description", help="what it is for")
        add_owner(parser, "project", "a project that may use it from now on")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        chosen = (parsed_args.property, parsed_args.no_property, parsed_args.project)
        if not any(chosen) and parsed_args.description is None:
            raise UsageError("Say what is to be set: --property, --no-property, --project or --description.")
        project = parsed_args.project and self.client.owner("project", parsed_args.project, parsed_args.project_domain)
        flavor = find.flavor(self.client, parsed_args.flavor)
        if parsed_args.description is not None:
            path = f"{COMPUTE}/flavors/{part(flavor['id'])}"
            self.client.at("2.55").put(path, {"flavor": {"description": parsed_args.description}})
        specs = dict(parsed_args.property)
        if specs:
            self.client.post(_specs_of(flavor), {"extra_specs": specs})
        # Old properties are deleted last: a failure leaves too many, and a second try removes them.
        for key in sorted({*(flavor.get("extra_specs") or {})} - specs.keys()) if parsed_args.no_property else ():
            self.client.delete(f"{_specs_of(flavor)}/{part(key)}")
        if project:
            _set_access(self.client, flavor, "addTenantAccess", project)


class FlavorUnset(Command):
    """Unset properties of a flavor, or take a private one from a project."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("flavor", metavar="FLAVOR", help="name or ID")
        parser.add_argument(
            "--property", action="append", default=[], metavar="KEY", help="extra spec to unset; may be repeated"
        )
        add_owner(parser, "project", "a project that may not use it any more")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        if not (parsed_args.property or parsed_args.project):
            raise UsageError("Say what is to be unset: --property or --project.")
        project = parsed_args.project and self.client.owner("project", parsed_args.project, parsed_args.project_domain)
        flavor = find.flavor(self.client, parsed_args.flavor)
        unknown = sorted({*parsed_args.property} - (flavor.get("extra_specs") or {}).keys())
        if unknown:
            raise CliError(f"Flavor {flavor['name']} has no property {', '.join(unknown)}; nothing was unset.")
        for key in sorted({*parsed_args.property}):
            self.client.delete(f"{_specs_of(flavor)}/{part(key)}")
        if project:
            _set_access(self.client, flavor, "removeTenantAccess", project)


class FlavorDelete(Command):
    """Delete flavors; servers made with them stay as they are."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("flavors", nargs="+", metavar="FLAVOR", help="name or ID; if one is unknown, none goes")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        flavors = {flavor["id"] for flavor in [find.flavor(self.client, name) for name in parsed_args.flavors]}
        for identity in sorted(flavors):
            self.client.delete(f"{COMPUTE}/flavors/{part(identity)}")


def _set_access(client: Client, flavor: Json, action: str, project_id: str) -> None:
    client.post(f"{COMPUTE}/flavors/{part(flavor['id'])}/action", {action: {"tenant": project_id}})


def factor(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"'{text}' is not a number above 0")
    return value


def _specs_of(flavor: Json) -> str:
    return f"{COMPUTE}/flavors/{part(flavor['id'])}/os-extra_specs"


def fields(flavor: Json) -> dict[str, Any]:
    """Returns a flavor with the names of OpenStack's client. RAM and swap are in MB, disks in GB."""
    return {
        "id": flavor["id"],
        "name": flavor["name"],
        "ram": flavor["ram"],
        "disk": flavor["disk"],
        "ephemeral": flavor.get("OS-FLV-EXT-DATA:ephemeral", 0),
        "swap": flavor.get("swap") or 0,  # the API's "" means none
        "vcpus": flavor["vcpus"],
        "is_public": flavor.get("os-flavor-access:is_public", True),
        "rxtx_factor": flavor.get("rxtx_factor", 1.0),
        "description": flavor.get("description"),
        "properties": KeyValues(flavor.get("extra_specs") or {}),
    }


def _field(column: str) -> str:
    return column.lower().replace(" ", "_")
