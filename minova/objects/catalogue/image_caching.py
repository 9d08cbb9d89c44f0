"""Images that hosts fetch before a server needs them, and what has become of each: Nova's words."""

from enum import StrEnum

import msgspec

from minova.objects.catalogue.image import Image


class CacheStatus(StrEnum):
    """`EXISTING`: the host had the image. `UNSUPPORTED`: the compute of the host is of an older release. `SKIPPED`: the host
    is down.
    """

    FETCHING = "fetching"
    CACHED = "cached"
    EXISTING = "existing"
    ERROR = "error"
    UNSUPPORTED = "unsupported"
    SKIPPED = "skipped"


THERE = frozenset({CacheStatus.CACHED, CacheStatus.EXISTING})


class WantedImage(msgspec.Struct, frozen=True, kw_only=True):
    """`tokens`: for the download of the image, its kernel and its ramdisk, by their IDs; empty: the host has a password."""

    image: Image
    tokens: dict[str, str] = {}
