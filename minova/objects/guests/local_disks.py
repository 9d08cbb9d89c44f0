"""A server's ephemeral disks and its swap: those of its flavor, or a division of them by `block_device_mapping_v2`.
Pure.

A server's own division, and the tag of its root disk, are stored in its `system_metadata`. Placement always counts the
flavor's sizes.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from oslo_utils import units

from minova import errors
from minova.codecs import Decoder
from minova.objects.catalogue.flavor import DEFAULT_FORMAT, SWAP, Flavor, LocalDisk, flavor_disks
from minova.objects.catalogue.guest_hardware import DISK_BUSES
from minova.objects.servers.instance import Instance

KEY = "local_disks"
ROOT_TAG = "root_disk_tag"
# The file systems that hosts can create, with e2fsprogs.
FORMATS = ("ext2", "ext3", "ext4")
# Fields of a mapping to a local disk. device_name is accepted and ignored, as by Nova's libvirt driver.
_FIELDS = frozenset(
    [
        "source_type",
        "destination_type",
        "uuid",
        "volume_size",
        "guest_format",
        "device_type",
        "disk_bus",
        "device_name",
        "boot_index",
        "delete_on_termination",
        "no_device",
        "tag",
    ]
)
_MAX_SIZE = 0x7FFFFFFF
_TAG = re.compile("[^,/]{1,60}")


class InvalidMapping(errors.BadRequest):
    nova_name = "InvalidBDM"


_DISKS = Decoder(tuple[LocalDisk, ...])


def local_disks(instance: Instance) -> tuple[LocalDisk, ...]:
    """Returns the disks in their order: ephemeral disks, then swap."""
    text = instance.system_metadata.get(KEY)
    return flavor_disks(instance.flavor) if text is None else _DISKS.from_json(text.encode())


def to_metadata(disks: Sequence[LocalDisk], root_tag: str | None = None) -> dict[str, str]:
    """`disks` empty: those of the flavor."""
    divided = {KEY: msgspec.json.encode(disks).decode()} if disks else {}
    return divided if root_tag is None else {**divided, ROOT_TAG: root_tag}


def root_tag_of(instance: Instance) -> str | None:
    return instance.system_metadata.get(ROOT_TAG)


def requested_root_tag(mappings: Sequence[Mapping[str, Any]], image_id: str) -> str | None:
    """Call it after `requested_disks`, which rejects invalid tags."""
    return next((mapping.get("tag") for mapping in mappings if _is_root(mapping, image_id)), None)


def requested_disks(
    mappings: Sequence[Mapping[str, Any]], image_id: str, flavor: Flavor, most: int
) -> tuple[LocalDisk, ...] | None:
    """Returns the division that a request asks for; None: the flavor's own.

    `most`: the maximum number of local disks including the root disk; -1: no limit.

    Raises InvalidMapping as Nova rejects it, and for volumes, which are not supported.
    """
    roots = [mapping for mapping in mappings if _is_root(mapping, image_id)]
    blanks = [_blank(mapping, flavor) for mapping in mappings if mapping not in roots]
    for mapping in roots:
        _require_tag(mapping)
        _require_size(mapping)
    _check_boot_order([*mappings] if roots else [{"boot_index": 0}, *mappings])
    ephemeral, swap = [disk for disk in blanks if not disk.is_swap], [disk for disk in blanks if disk.is_swap]
    if len(swap) > 1:
        raise InvalidMapping("Block Device Mapping is Invalid: More than one swap drive requested.")
    if sum(disk.size_mb for disk in ephemeral) > flavor.ephemeral_gb * units.Ki:
        raise InvalidMapping(
            "Ephemeral disks requested are larger than the instance type allows. If no size is given in one block device "
            "mapping, flavor ephemeral size will be used."
        )
    if swap and swap[0].size_mb > flavor.swap:
        raise InvalidMapping("Swap drive requested is larger than instance type allows.")
    of_flavor = flavor_disks(flavor)
    all_disks = (
        *(ephemeral or [disk for disk in of_flavor if not disk.is_swap]),
        *(swap or [disk for disk in of_flavor if disk.is_swap]),
    )
    if 0 <= most < 1 + len(all_disks):
        raise InvalidMapping(
            "Block Device Mapping is Invalid: You specified more local devices than the limit allows: "
            f"{1 + len(all_disks)} > {most} (max_local_block_devices)"
        )
    return all_disks if blanks else None


def _is_root(mapping: Mapping[str, Any], image_id: str) -> bool:
    """Whether the mapping describes the root disk. Clients may list it although a server has it anyway. As in Nova,
    `volume_size` and `device_name` have no effect: the flavor has the size.
    """
    root_fields = {"source_type": "image", "destination_type": "local", "boot_index": 0, "uuid": image_id}
    free = {"delete_on_termination", "tag", "volume_size", "device_name"}
    described = {key: value for key, value in mapping.items() if key not in free}
    return described == root_fields and _is_true(mapping.get("delete_on_termination", True))


def _blank(mapping: Mapping[str, Any], flavor: Flavor) -> LocalDisk:
    kinds = (mapping.get("source_type"), mapping.get("destination_type", "local"))
    if kinds != ("blank", "local"):
        raise InvalidMapping(
            "Not served: block_device_mapping_v2. There is no volume service; a server boots from its image, and other disks of it "
            "have source_type blank and destination_type local."
        )
    for key in sorted(mapping.keys() - _FIELDS):
        raise InvalidMapping(f"Invalid input for field block_device_mapping_v2: {key!r} is not served.")
    _require_tag(mapping)
    for key, fine in _checks(mapping):
        if not fine:
            raise InvalidMapping(
                f"Invalid input for field block_device_mapping_v2.{key}. Value: {str(mapping.get(key))[:64]}."
            )
    guest_format = mapping.get("guest_format") or DEFAULT_FORMAT
    size = _size(mapping.get("volume_size"))
    size_mb = (size or flavor.swap) if guest_format == SWAP else (size or flavor.ephemeral_gb) * units.Ki
    if not size_mb:
        what = "swap" if guest_format == SWAP else "ephemeral disk"
        raise InvalidMapping(f"Block Device Mapping is Invalid: the flavor {flavor.name} has no {what}.")
    return LocalDisk(size_mb=size_mb, guest_format=guest_format, bus=mapping.get("disk_bus"), tag=mapping.get("tag"))


def _require_tag(mapping: Mapping[str, Any]) -> None:
    tag = mapping.get("tag")
    if "tag" in mapping and not (isinstance(tag, str) and _TAG.fullmatch(tag)):
        raise InvalidMapping(
            f"Invalid input for field block_device_mapping_v2.tag. Value: {str(tag)[:64]}. It has 1 to 60 characters, without / and ,."
        )


def _require_size(mapping: Mapping[str, Any]) -> None:
    size = mapping.get("volume_size")
    if size not in (None, "") and _size(size) is None:
        raise InvalidMapping(f"Invalid input for field block_device_mapping_v2.volume_size. Value: {str(size)[:64]}.")


def _checks(mapping: Mapping[str, Any]) -> Iterator[tuple[str, bool]]:
    """Yields the values that a blank local disk may have, by key. The sizes are Nova's: GB, and MB of swap."""
    yield "uuid", not mapping.get("uuid")
    yield "no_device", not _is_true(mapping.get("no_device", False))
    yield "delete_on_termination", _is_true(mapping.get("delete_on_termination", True))
    yield "device_type", mapping.get("device_type") in (None, "disk")
    yield "disk_bus", mapping.get("disk_bus") is None or str(mapping["disk_bus"]) in DISK_BUSES
    yield "guest_format", mapping.get("guest_format") in (None, "", SWAP, *FORMATS)
    yield "volume_size", mapping.get("volume_size") in (None, "") or _size(mapping["volume_size"]) is not None
    yield "boot_index", _boot_index(mapping) is not False


def _size(value: object) -> int | None:
    """Returns None if there is no size, or the value is not a size."""
    text = str(value) if isinstance(value, int | str) and not isinstance(value, bool) else ""
    if not (text.isascii() and text.isdecimal() and len(text) <= 10 and int(text) <= _MAX_SIZE):
        return None
    return int(text)


def _check_boot_order(mappings: Sequence[Mapping[str, Any]]) -> None:
    """As in Nova: 0, 1 and so on, each once. A negative index, or no index, is no boot device."""
    order = sorted(index for mapping in mappings if isinstance(index := _boot_index(mapping), int) and index >= 0)
    if order != [*range(len(order))]:
        raise InvalidMapping(
            "Block Device Mapping is Invalid: Boot sequence for the instance and image/block device mapping combination is not "
            "valid."
        )


def _boot_index(mapping: Mapping[str, Any]) -> int | bool | None:
    """Returns False if the value is not a number."""
    value = mapping.get("boot_index")
    text = str(value).strip()
    if value is None or text.lower() in {"", "none"}:
        return None
    digits = text.removeprefix("-")
    if isinstance(value, bool) or not (digits.isascii() and digits.isdecimal() and len(digits) <= 10):
        return False
    return int(text)


def _is_true(value: object) -> bool:
    return value is True or str(value).strip().lower() in {"true", "1", "on", "yes"}
