"""Nova's comparison of a value with what an extra spec requires: `>= 4`, `s== x86_64`, `<in> avx`, `<or> 1 <or> 2`..."""

import operator
from collections.abc import Callable, Sequence

from minova.scheduler.filters.errors import InvalidFilterInput

NUMERIC: dict[str, Callable[[float, float], bool]] = {
    "=": operator.ge,  # as in Nova: at least
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    "<=": operator.le,
}
TEXT: dict[str, Callable[[str, str], bool]] = {
    "s==": operator.eq,
    "s!=": operator.ne,
    "s<": operator.lt,
    "s<=": operator.le,
    "s>": operator.gt,
    "s>=": operator.ge,
    "<in>": operator.contains,
}


def compare(key: str, value: str, requirement: str) -> bool:
    """Raises InvalidFilterInput if the requirement cannot be compared."""
    try:
        return match(value, requirement)
    except (ValueError, IndexError) as error:
        raise InvalidFilterInput(f"Extra spec {key}: {requirement!r} does not compare with {value!r}", error) from error


def comparable(value: str, requirement: str) -> bool:
    """Returns False if the requirement compares numbers, and the value of the host is none. `compare` reports errors of the extra spec itself."""
    first, *words = requirement.split() or [""]
    return first not in NUMERIC or not words or not _is_number(words[0]) or _is_number(value)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def match(value: str, requirement: str) -> bool:
    """Whether `value` meets the requirement. Without a leading operator, both must be equal.

    Raises ValueError if a number is required and one side is not a number, IndexError for `<or>` without values.
    """
    first, *words = requirement.split() or [""]
    if first == "<or>":
        return _one_of(value, words)
    if first not in NUMERIC and first not in TEXT and first != "<all-in>":
        return value == requirement
    if not words:
        return False
    if first == "<all-in>":
        return all(word in value for word in words)
    if first in TEXT:
        return TEXT[first](value, words[0])
    return NUMERIC[first](float(value), float(words[0]))


def _one_of(value: str, words: Sequence[str]) -> bool:
    """`v1 <or> v2 <or> v3`: every second word is a value, whatever the words between are."""
    if not words:
        raise IndexError("<or> names no value")
    return value in words[::2]
