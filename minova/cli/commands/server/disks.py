"""The ephemeral disks and the swap of a new server, in the words of OpenStack's client."""

import argparse

from minova.cli.client import Json
from minova.cli.errors import UsageError
from minova.cli.parser import positive

_BLANK = {"source_type": "blank", "destination_type": "local", "boot_index": -1, "delete_on_termination": True}


def add_disk_options(parser: argparse.ArgumentParser) -> None:
    """Without them a server has the disks of its flavor."""
    parser.add_argument(
        "--ephemeral",
        action="append",
        default=[],
        type=ephemeral,
        metavar="size=GB[,format=ext4]",
        help="an ephemeral disk, of those that the flavor gives; may be repeated",
    )
    parser.add_argument("--swap", type=positive, metavar="MB", help="swap, at most as large as the flavor's")


def ephemeral(text: str) -> Json:
    pairs = dict(pair.partition("=")[::2] for pair in text.split(","))
    if not {"size"} <= pairs.keys() <= {"size", "format"} or not pairs["size"].isdecimal():
        raise UsageError(f"'{text}' is not a disk such as size=1,format=ext4.")
    guest_format = {"guest_format": pairs["format"]} if pairs.get("format") else {}
    return {**_BLANK, "volume_size": int(pairs["size"]), **guest_format}


def disks_of(parsed_args: argparse.Namespace) -> Json:
    """As fields of the request."""
    disks = list(parsed_args.ephemeral)
    if parsed_args.swap:
        disks.append({**_BLANK, "guest_format": "swap", "volume_size": parsed_args.swap})
    return {"block_device_mapping_v2": disks} if disks else {}
