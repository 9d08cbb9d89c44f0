"""`minova image list|show|delete`; `create` has a file of its own."""

import argparse
from collections.abc import Iterable, Sequence
from typing import Any

from minova.cli import find
from minova.cli.base import Command, KeyValues, Lister, ShowOne, Words
from minova.cli.client import IMAGE, Json, part
from minova.cli.parser import positive

# What the Image API has beside a user's own properties.
OWN_FIELDS = (
    "id",
    "name",
    "status",
    "disk_format",
    "container_format",
    "size",
    "virtual_size",
    "min_disk",
    "min_ram",
    "visibility",
    "protected",
    "os_hidden",
    "owner",
    "checksum",
    "os_hash_algo",
    "os_hash_value",
    "created_at",
    "updated_at",
)
NOT_PROPERTIES = {*OWN_FIELDS, "tags", "self", "file", "schema", "locations", "direct_url", "stores"}


class ImageList(Lister):
    """List images."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--name", help="only with this name")
        parser.add_argument("--status", help="only with this status: active, queued ...")
        parser.add_argument("--limit", type=positive, metavar="N", help="at most N of them (default: all)")
        parser.add_argument("--long", action="store_true", help="more columns")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Any]]:
        found = self.client.pages(
            f"{IMAGE}/images",
            "images",
            limit=parsed_args.limit,
            name=parsed_args.name,
            status=parsed_args.status and parsed_args.status.lower(),
        )
        keys = ["id", "name", "status", "disk_format", "size"]
        if parsed_args.long:
            keys += ["virtual_size", "min_disk", "min_ram", "visibility", "created_at"]
        columns = [{"id": "ID"}.get(key, key.replace("_", " ").title()) for key in keys]
        return columns, [tuple(image.get(key) for key in keys) for image in found]


class ImageShow(ShowOne):
    """Show an image."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("image", metavar="IMAGE", help="name or ID")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Any]]:
        return self.dict2columns(fields(find.image(self.client, parsed_args.image)))


class ImageDelete(Command):
    """Delete images; servers made from them stay as they are."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("images", nargs="+", metavar="IMAGE", help="name or ID; if one is unknown, none goes")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        found = {image["id"] for image in [find.image(self.client, name) for name in parsed_args.images]}
        for identity in sorted(found):
            self.client.delete(f"{IMAGE}/images/{part(identity)}")


def fields(image: Json) -> dict[str, Any]:
    """An image by the Image API's names; a user's own properties apart."""
    properties = {key: value for key, value in image.items() if key not in NOT_PROPERTIES}
    return {
        **{key: image.get(key) for key in OWN_FIELDS},
        "tags": Words(image.get("tags") or []),
        "properties": KeyValues(properties),
    }
