"""Parses values in flavors and images: booleans, numbers, CPU lists, sizes."""

import math
import re

from minova.hardware import cpu_spec
from minova.hardware.errors import Invalid, MalformedValue
from minova.objects.catalogue.image_properties import flag, whole

# Each text is read in one way only: with `\d*\.?\d+`, a long row of digits that is no size took quadratic time.
_SIZE = re.compile(r"([-+]?(?:\d+(?:\.\d+)?|\.\d+))([KMGTPEZYRQ]?)i?(b|bit|B)")
_PREFIXES = "KMGTPEZYRQ"


def is_true(value: object) -> bool:
    """Every other word counts as false, as in Nova."""
    return flag(str(value))


def number(key: str, value: object) -> int:
    try:
        return whole(str(value))
    except ValueError:
        raise MalformedValue(f"{key}={value}: not a number") from None


def cpus(key: str, value: str) -> frozenset[int]:
    """The result may be empty."""
    try:
        return cpu_spec.members(value)
    except ValueError as error:
        raise Invalid(f"{key}={value}: {error}") from None


def mask(key: str, value: str, vcpus: int) -> frozenset[int]:
    """Returns the CPUs of a mask. A mask that begins with an exclusion excludes from all CPUs."""
    return cpus(key, f"0-{vcpus - 1},{value}" if value.strip().startswith("^") else value)


def size_kib(text: str) -> float | None:
    """Parses a size such as 2MB, 1GB or 16Kib; a number without unit is KiB. Returns None if it is no size."""
    if text.isdigit():
        return int(text)
    match = _SIZE.fullmatch(text)
    if match is None:
        return None
    size: float = float(match[1]) * 1024.0 ** (_PREFIXES.index(match[2]) + 1 if match[2] else 0)
    if math.isinf(size):
        return None
    return math.ceil(size if match[3] == "B" else size / 8) / 1024
