"""`minova flavor create|list|show|set|unset|delete`."""

import argparse
from collections.abc import Iterable, Sequence
from typing import Any

from minova.cli import find
from minova.cli.base import Command, Lister, ShowOne
from minova.cli.client import COMPUTE, Json, part
from minova.cli.errors import CliError, UsageError
from minova.cli.output.columns import KeyValues
from minova.cli.parser import key_value, natural, positive

COLUMNS = ("ID", "Name", "RAM", "Disk", "Ephemeral", "Swap", "VCPUs", "Is Public")


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
        parser.add_argument("--private", action="store_true", help="not for every project")
        parser.add_argument("--description", help="what it is for")
        parser.add_argument(
            "--property",
            type=key_value,
            action="append",
            default=[],
            metavar="KEY=VALUE",
            help="extra spec; may be repeated",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Any]]:
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
        if parsed_args.description is not None:
            flavor["description"] = parsed_args.description
        if parsed_args.property:
            # minova's own: OpenStack sets them by a second request, which may fail and leave another flavor than asked.
            flavor["extra_specs"] = dict(parsed_args.property)
        created = self.client.post(f"{COMPUTE}/flavors", {"flavor": flavor})["flavor"]
        return self.dict2columns(fields(created))


class FlavorList(Lister):
    """List flavors."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--all", action="store_true", help="private ones too (administrators)")
        parser.add_argument("--limit", type=positive, metavar="N", help="at most N of them (default: all)")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Any]]:
        flavors = self.client.pages(
            f"{COMPUTE}/flavors/detail",
            "flavors",
            limit=parsed_args.limit,
            is_public="None" if parsed_args.all else None,
        )
        return COLUMNS, [tuple(fields(flavor)[_field(column)] for column in COLUMNS) for flavor in flavors]


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
    """Set properties or the description of a flavor; servers made with it stay as they are."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("flavor", metavar="FLAVOR", help="name or ID")
        parser.add_argument(
            "--property",
            type=key_value,
            action="append",
            default=[],
            metavar="KEY=VALUE",
            help="extra spec; may be repeated",
        )
        parser.add_argument("--description", help="what it is for")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        if not parsed_args.property and parsed_args.description is None:
            raise UsageError("Say what is to be set: --property or --description.")
        flavor = find.flavor(self.client, parsed_args.flavor)
        if parsed_args.description is not None:
            path = f"{COMPUTE}/flavors/{part(flavor['id'])}"
            self.client.at("2.55").put(path, {"flavor": {"description": parsed_args.description}})
        if parsed_args.property:
            self.client.post(_specs_of(flavor), {"extra_specs": dict(parsed_args.property)})


class FlavorUnset(Command):
    """Unset properties of a flavor."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("flavor", metavar="FLAVOR", help="name or ID")
        parser.add_argument(
            "--property", action="append", required=True, metavar="KEY", help="extra spec to unset; may be repeated"
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        flavor = find.flavor(self.client, parsed_args.flavor)
        unknown = sorted({*parsed_args.property} - (flavor.get("extra_specs") or {}).keys())
        if unknown:
            raise CliError(f"Flavor {flavor['name']} has no property {', '.join(unknown)}; nothing was unset.")
        for key in sorted({*parsed_args.property}):
            self.client.delete(f"{_specs_of(flavor)}/{part(key)}")


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


def _specs_of(flavor: Json) -> str:
    return f"{COMPUTE}/flavors/{part(flavor['id'])}/os-extra_specs"


def fields(flavor: Json) -> dict[str, Any]:
    """A flavor by the names of OpenStack's client. RAM and swap in MB, disks in GB."""
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
