"""Options for the disks of a new server beside its root disk, as in OpenStack's client; options for volumes are
refused, because minova has none.
"""

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from minova.cli.client import Json
from minova.cli.errors import UsageError
from minova.cli.parser import positive

_BLANK = {"source_type": "blank", "destination_type": "local", "boot_index": -1, "delete_on_termination": True}
# The keys of --block-device, with their allowed values; None: any value.
_KEYS: Mapping[str, tuple[str, ...] | None] = {
    "uuid": None,
    "source_type": ("image", "snapshot", "volume", "blank"),
    "destination_type": ("volume", "local"),
    "disk_bus": None,
    "device_type": None,
    "device_name": None,
    "volume_size": None,
    "guest_format": None,
    "boot_index": None,
    "delete_on_termination": None,
    "tag": None,
    "volume_type": None,
}
_TRUE, _FALSE = frozenset({"true", "yes", "on", "1"}), frozenset({"false", "no", "off", "0"})
NO_VOLUMES = (
    "minova has no volumes: a server boots from an image (--image), and --ephemeral and --swap are its other disks"
)


class OfVolume(argparse.Action):
    """An option of OpenStack's client that a cloud without volumes cannot serve."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        parser.error(f"{'/'.join(self.option_strings)}: {NO_VOLUMES}.")


def add_disk_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options for disks. Without them a server has the disks of its flavor."""
    parser.add_argument(
        "--ephemeral",
        action="append",
        default=[],
        type=ephemeral,
        metavar="size=GB[,format=ext4]",
        help="an ephemeral disk, of those that the flavor gives; may be repeated",
    )
    parser.add_argument("--swap", type=positive, metavar="MB", help="swap, at most as large as the flavor's")
    parser.add_argument(
        "--block-device",
        dest="block_devices",
        action="append",
        default=[],
        type=block_device,
        metavar="KEY=VALUE,... | FILE",
        help="a disk by the API's keys (source_type, destination_type, volume_size, guest_format ...), also as JSON in a file: "
        "a blank local one, as --ephemeral and --swap make them; may be repeated",
    )
    unserved = "refused: there are no volumes"
    parser.add_argument("--boot-from-volume", action=OfVolume, metavar="GB", help=unserved)
    parser.add_argument("--delete-on-termination", action=OfVolume, nargs=0, help=unserved)
    parser.add_argument("--block-device-mapping", action=OfVolume, metavar="DEVICE=MAPPING", help=unserved)


def ephemeral(text: str) -> Json:
    pairs = dict(pair.partition("=")[::2] for pair in text.split(","))
    if not {"size"} <= pairs.keys() <= {"size", "format"} or not pairs["size"].isdecimal():
        raise UsageError(f"'{text}' is not a disk such as size=1,format=ext4.")
    guest_format = {"guest_format": pairs["format"]} if pairs.get("format") else {}
    return {**_BLANK, "volume_size": int(pairs["size"]), **guest_format}


def block_device(text: str) -> Json:
    """Returns the device in the form of the API. By default the source is blank, and the destination is local if the
    source is blank or an image.
    """
    pairs = _of_file(Path(text)) if Path(text).is_file() else dict(pair.partition("=")[::2] for pair in text.split(","))
    for key, value in pairs.items():
        _check(text, key, value)
    device = {"source_type": "blank", **{key: _typed(key, value) for key, value in pairs.items()}}
    is_local = device["source_type"] in {"blank", "image"}
    device.setdefault("destination_type", "local" if is_local else "volume")
    if not is_local or device["destination_type"] == "volume":
        raise UsageError(f"--block-device {text}: {NO_VOLUMES}.")
    return {"boot_index": -1, "delete_on_termination": True, **device}


def _of_file(path: Path) -> Json:
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise UsageError(f"Cannot read the block device {path}: {error}.") from None
    if not isinstance(document, dict):
        raise UsageError(f"The block device {path} is not an object of keys and values.")
    return document


def _check(text: str, key: str, value: Any) -> None:
    if key not in _KEYS:
        raise UsageError(f"--block-device {text}: there is no key '{key}'; there are {', '.join(_KEYS)}.")
    choices = _KEYS[key]
    if choices is not None and value not in choices:
        raise UsageError(f"--block-device {text}: {key} is one of {', '.join(choices)}.")


def _typed(key: str, value: Any) -> Any:
    """Converts text to numbers and booleans. Other values stay as they are; the API refuses invalid ones."""
    if not isinstance(value, str):
        return value
    if key in {"boot_index", "volume_size"} and value.removeprefix("-").isdecimal():
        return int(value)
    if key == "delete_on_termination" and value.lower() in _TRUE | _FALSE:
        return value.lower() in _TRUE
    return value


def disks_of(parsed_args: argparse.Namespace) -> Json:
    """Returns the disks as fields of the request."""
    disks = [*parsed_args.ephemeral, *parsed_args.block_devices]
    if parsed_args.swap:
        disks.append({**_BLANK, "guest_format": "swap", "volume_size": parsed_args.swap})
    return {"block_device_mapping_v2": disks} if disks else {}
