"""`minova image create|save|list|show|delete`. A failed upload leaves neither bytes nor record."""

import argparse
import os
import stat
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from minova.cli import find
from minova.cli.base import Command, Lister, ShowOne
from minova.cli.client import IMAGE, Client, Json, part
from minova.cli.errors import ApiError, CliError
from minova.cli.output.columns import KeyValues, Words
from minova.cli.parser import add_key_values, add_owner, add_paging, natural, positive

QCOW2_MAGIC = b"QFI\xfb"
REPORT_INTERVAL = 0.2  # seconds
# Fields of the Image API other than a user's own properties.
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

# Options that each stand for a value: (attribute, {option: value}).
FLAGS: Sequence[tuple[str, dict[str, Any]]] = (
    ("protected", {"protected": True, "unprotected": False}),
    ("os_hidden", {"hidden": True, "unhidden": False}),
    ("visibility", {name: name for name in ("public", "private", "community", "shared")}),
)
_HELP = {
    "protected": "it cannot be deleted",
    "unprotected": "it can be deleted",
    "hidden": "it is listed only if hidden ones are asked for",
    "unhidden": "it is listed",
    "public": "everybody sees it (administrators)",
    "private": "only its project sees it",
    "community": "everybody may use it, and it is not listed",
    "shared": "its project and its members see it",
}


def add_flags(parser: argparse.ArgumentParser) -> None:
    for _, options in FLAGS:
        group = parser.add_mutually_exclusive_group()
        for option in options:
            group.add_argument(f"--{option}", action="store_true", help=_HELP[option])


def flags_of(parsed_args: argparse.Namespace) -> Json:
    """Returns the attributes for which the options of `add_flags` stand."""
    return {
        attribute: value
        for attribute, options in FLAGS
        for option, value in options.items()
        if getattr(parsed_args, option)
    }


class ImageList(Lister):
    """List images."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--name", help="only with this name")
        parser.add_argument("--status", help="only with this status: active, queued ...")
        add_paging(parser, "only those after this one", "ID")
        parser.add_argument("--page-size", dest="limit", type=positive, help=argparse.SUPPRESS)
        parser.add_argument("--long", action="store_true", help="more columns")
        visibility = parser.add_mutually_exclusive_group()
        for word in ("public", "private", "community", "shared", "all"):
            text = (
                "also those of communities (administrators: of all projects)" if word == "all" else f"only {word} ones"
            )
            visibility.add_argument(f"--{word}", dest="visibility", action="store_const", const=word, help=text)
        parser.add_argument("--hidden", action="store_const", const="true", help="only hidden ones")
        parser.add_argument(
            "--member-status", metavar="STATUS", help="only shared ones: accepted, pending, rejected, all"
        )
        parser.add_argument("--tag", action="append", help="only with this one; may be repeated")
        add_key_values(parser, "--property", "only with this one; may be repeated")
        parser.add_argument(
            "--sort", metavar="KEY[:asc|desc][,...]", help="such as name:desc (default: the newest first)"
        )
        add_owner(parser, "project", "only its own")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Any]]:
        images = self.client.pages(
            f"{IMAGE}/images",
            "images",
            limit=parsed_args.limit,
            marker=parsed_args.marker,
            name=parsed_args.name,
            status=parsed_args.status and parsed_args.status.lower(),
            visibility=parsed_args.visibility,
            os_hidden=parsed_args.hidden,
            member_status=parsed_args.member_status,
            tag=parsed_args.tag,
            sort=parsed_args.sort,
            owner=find.owner(self.client, parsed_args),
            **dict(parsed_args.property),
        )
        keys = ["id", "name", "status", "disk_format", "size"]
        if parsed_args.long:
            keys += ["virtual_size", "min_disk", "min_ram", "visibility", "created_at"]
        columns = [{"id": "ID"}.get(key, key.replace("_", " ").title()) for key in keys]
        return columns, [tuple(image.get(key) for key in keys) for image in images]


class ImageShow(ShowOne):
    """Show an image."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("image", metavar="IMAGE", help="name or ID")
        parser.add_argument("--human-readable", action="store_true", help="sizes with a unit, such as 1.5 GiB")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Any]]:
        image = fields(find.image(self.client, parsed_args.image))
        if parsed_args.human_readable:
            image |= {key: with_unit(image[key]) for key in ("size", "virtual_size") if image[key] is not None}
        return self.dict2columns(image)


def with_unit(size: int) -> str:
    """Returns a number of bytes in the largest unit of which there is one."""
    amount = float(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{amount:.4g} {unit}"
        amount /= 1024
    return f"{amount:.4g} TiB"


class ImageDelete(Command):
    """Delete images; servers made from them stay as they are."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("images", nargs="+", metavar="IMAGE", help="name or ID; if one is unknown, none goes")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        images = {image["id"] for image in [find.image(self.client, name) for name in parsed_args.images]}
        for identity in sorted(images):
            self.client.delete(f"{IMAGE}/images/{part(identity)}")


class ImageSave(Command):
    """Save the bytes of an image in a file."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("image", metavar="IMAGE", help="name or ID")
        parser.add_argument("--file", metavar="PATH", help="default: standard output")
        parser.add_argument("--chunk-size", type=positive, default=1 << 20, metavar="BYTES", help="default: 1 MiB")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        image = find.image(self.client, parsed_args.image)
        path = f"{IMAGE}/images/{part(image['id'])}/file"
        if parsed_args.file is None:
            if sys.stdout.isatty():
                raise CliError("The bytes of an image are not for a terminal: say --file.")
            self.client.download(path, sys.stdout.buffer, parsed_args.chunk_size)
            return
        part_file = Path(f"{parsed_args.file}.part")
        try:
            with part_file.open("wb") as data:
                self.client.download(path, data, parsed_args.chunk_size)
            part_file.replace(parsed_args.file)
        except OSError as error:
            raise CliError(f"Cannot write {parsed_args.file}: {error.strerror}.") from None
        finally:
            part_file.unlink(missing_ok=True)


def fields(image: Json) -> dict[str, Any]:
    """Returns an image with the Image API's names; a user's own properties are separate."""
    properties = {key: value for key, value in image.items() if key not in NOT_PROPERTIES}
    return {
        **{key: image.get(key) for key in OWN_FIELDS},
        "tags": Words(image.get("tags") or []),
        "properties": KeyValues(properties),
    }


# -- create --------------------------------------------------------------------------------------------------------------


class ImageCreate(ShowOne):
    """Create an image from a file, or a record whose bytes come later."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("name", metavar="NAME")
        parser.add_argument(
            "--file", metavar="PATH", help="the image's bytes (default: none yet; see `image stage`, `import`)"
        )
        parser.add_argument("--disk-format", choices=["qcow2", "raw"], required=True, help="what the file is")
        parser.add_argument("--container-format", choices=["bare"], default="bare", help="default: bare")
        parser.add_argument("--min-disk", type=natural, default=0, metavar="GB", help="smallest root disk it boots on")
        parser.add_argument("--min-ram", type=natural, default=0, metavar="MB", help="least memory it boots with")
        parser.add_argument("--id", metavar="UUID", help="its ID (default: a new one)")
        add_flags(parser)
        add_owner(parser, "project", "its owner (administrators)")
        parser.add_argument("--tag", action="append", default=[], help="may be repeated")
        add_key_values(parser, "--property", "such as hw_machine_type=q35; may be repeated")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Any]]:
        if parsed_args.file is None:
            return self.dict2columns(fields(self._made(parsed_args)))
        with open_image(parsed_args.file, parsed_args.disk_format) as data:
            image = self._made(parsed_args)
            size = os.fstat(data.fileno()).st_size
            _upload(self.client, image["id"], UploadFile(data, size, parsed_args.file, sys.stderr), size)
        stored = self.client.get(f"{IMAGE}/images/{part(image['id'])}")
        return self.dict2columns(fields(stored))

    def _made(self, parsed_args: argparse.Namespace) -> Json:
        """Makes the record."""
        return self.client.post(f"{IMAGE}/images", self._record(parsed_args, find.owner(self.client, parsed_args)))

    @staticmethod
    def _record(parsed_args: argparse.Namespace, owner: str | None) -> Json:
        options = {"id": parsed_args.id, "owner": owner, "tags": parsed_args.tag}
        return {
            "name": parsed_args.name,
            "disk_format": parsed_args.disk_format,
            "container_format": parsed_args.container_format,
            "min_disk": parsed_args.min_disk,
            "min_ram": parsed_args.min_ram,
            **flags_of(parsed_args),
            **{key: value for key, value in options.items() if value},
            **dict(parsed_args.property),
        }


def open_image(path: str, disk_format: str) -> BinaryIO:
    """Opens the file, and checks it as far as possible before anything is sent. Raises CliError if something is wrong
    with it.
    """
    try:
        # Opening a named pipe would block forever.
        if not stat.S_ISREG(Path(path).stat().st_mode):
            kind = "a folder" if Path(path).is_dir() else "not a regular file"
            raise CliError(f"Cannot upload {path}: it is {kind}.")
        data = Path(path).open("rb")  # noqa: SIM115 - the caller closes it
    except OSError as error:
        raise CliError(f"Cannot read {path}: {error.strerror}.") from None
    magic = data.read(len(QCOW2_MAGIC))
    data.seek(0)
    wrong = ""
    if not magic:
        wrong = "it is empty."
    elif disk_format == "qcow2" and magic != QCOW2_MAGIC:
        wrong = "it is not a qcow2 image. If it is a plain disk, say --disk-format raw."
    elif disk_format == "raw" and magic == QCOW2_MAGIC:
        wrong = "it is a qcow2 image: say --disk-format qcow2."
    if wrong:
        data.close()
        raise CliError(f"Cannot upload {path}: {wrong}")
    return data


class UploadFile:
    """A file that shows on a terminal how much of it was read. Raises an error if the file shrinks meanwhile."""

    def __init__(self, data: BinaryIO, size: int, name: str, out: TextIO) -> None:
        self._data = data
        self._left = size
        self._size = size
        self._name = name
        self._out = out if out.isatty() else None
        self._reported = 0.0

    def read(self, amount: int = -1) -> bytes:
        byte_count = self._left if amount < 0 else min(amount, self._left)
        block = self._data.read(byte_count)
        if not block and self._left:
            raise CliError(f"{self._name} became shorter while it was read.")
        self._left -= len(block)
        self._report()
        return block

    def end(self) -> None:
        if self._out:
            self._out.write("\r\x1b[2K")
            self._out.flush()

    def _report(self) -> None:
        now = time.monotonic()
        if self._out and (now - self._reported >= REPORT_INTERVAL or not self._left):
            self._reported = now
            sent_bytes = self._size - self._left
            checking = ", being checked" if not self._left else ""
            self._out.write(
                f"\r\x1b[2KUploading: {sent_bytes >> 20} of {self._size >> 20} MiB ({sent_bytes * 100 // self._size} %){checking}"
            )
            self._out.flush()


def send(client: Client, path: str, data: UploadFile, size: int) -> None:
    """Sends the bytes. Raises CliError with the reason if the API refuses them."""
    try:
        client.upload(path, data, size)  # type: ignore[arg-type] # reads like a file
    except ApiError as error:
        if error.status == 400:
            raise CliError(f"The image was refused: {error}") from error
        raise
    finally:
        data.end()


def _upload(client: Client, image_id: str, data: UploadFile, size: int) -> None:
    path = f"{IMAGE}/images/{part(image_id)}"
    try:
        send(client, f"{path}/file", data, size)
    except BaseException:
        # After Ctrl-C too: an image without bytes is useless.
        with suppress(CliError):
            client.delete(path)
        raise
