"""`minova image stage|import|import info`: bytes that become an image by an import, from a file or from an address that the cloud reads."""

import argparse
import os
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Any

from minova.cli import find
from minova.cli.base import Command, ShowOne
from minova.cli.client import IMAGE, Json, part
from minova.cli.commands.image import UploadFile, fields, open_image, send
from minova.cli.errors import CliError, UsageError
from minova.cli.output.columns import Words
from minova.cli.parser import add_wait

DIRECT, WEB = "glance-direct", "web-download"
# The property with the reason of a failed import.
FAILURE = "os_glance_import_failure"
POLL = 0.5  # seconds
WITHIN = 3600.0


class ImageStage(Command):
    """Upload the bytes of an image that has none yet, for a later import."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("image", metavar="IMAGE", help="name or ID")
        parser.add_argument("--file", required=True, metavar="PATH", help="the image's bytes")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        image = find.image(self.client, parsed_args.image)
        with open_image(parsed_args.file, str(image.get("disk_format"))) as data:
            size = os.fstat(data.fileno()).st_size
            upload = UploadFile(data, size, parsed_args.file, sys.stderr)
            send(self.client, f"{IMAGE}/images/{part(image['id'])}/stage", upload, size)


class ImageImport(ShowOne):
    """Make an image of the bytes that were staged, or of those at an address."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("image", metavar="IMAGE", help="name or ID")
        parser.add_argument("--method", default=DIRECT, help=f"default: {DIRECT}; see `image import info`")
        parser.add_argument("--uri", metavar="URI", help=f"where the cloud downloads it ({WEB})")
        add_wait(parser, "until the image can be used", WITHIN)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Any]]:
        if (parsed_args.method == WEB) != bool(parsed_args.uri):
            raise UsageError(f"--method {WEB} and --uri belong together.")
        method = {"name": parsed_args.method} | ({"uri": parsed_args.uri} if parsed_args.uri else {})
        image = find.image(self.client, parsed_args.image)
        path = f"{IMAGE}/images/{part(image['id'])}"
        self.client.post(f"{path}/import", {"method": method})
        until = time.monotonic() + parsed_args.timeout
        image = self.client.get(path)
        while parsed_args.wait and not _has_ended(image):
            if time.monotonic() > until:
                raise CliError(f"Image {image['id']} is {image['status']} after {parsed_args.timeout:g} s.")
            time.sleep(POLL)
            image = self.client.get(path)
        return self.dict2columns(fields(image))


def _has_ended(image: Json) -> bool:
    """Raises CliError if the import has failed."""
    if image["status"] == "queued" and image.get(FAILURE):
        raise CliError(f"The import failed: {image[FAILURE]}")
    return bool(image["status"] == "active")


class ImageImportInfo(ShowOne):
    """Show the methods of imports that the cloud has."""

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Any]]:
        methods = self.client.get(f"{IMAGE}/info/import")["import-methods"]
        return self.dict2columns({"import-methods": Words(methods["value"])})
