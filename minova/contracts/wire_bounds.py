"""Bounds of every message of a host, beside those of its types. Pure.

The types of a contract bound each field (`minova/objects/hosts/bounds.py`). This is about values that a type cannot exclude, and about fields
of any type: text that a database refuses, numbers that no column or float holds, and depth or length that costs others time.
"""

import math
from collections.abc import Iterable
from itertools import chain
from typing import Any

# Far above the largest real message: marks of 10,000 guests are 130,000 values.
MAX_VALUES = 500_000
MAX_DEPTH = 32
MAX_TEXT = 1 << 20
# Of all texts together: above twenty records of guests with all that one may have.
MAX_ALL_TEXT = 32 << 20
# Inodes of some file systems need all of it.
MAX_INT = 2**64 - 1
# Above nanoseconds of all CPUs of a host in a hundred years.
MAX_FLOAT = 1e24


def fault_of(arguments: Any) -> str | None:
    """Returns why these plain values are not accepted; None if they are. Does not recurse, because they may be nested deeply."""
    waiting: list[tuple[Iterable[Any], int]] = [((arguments,), 0)]
    value_count, characters = 1, 0
    while waiting:
        parts, depth = waiting.pop()
        for value in parts:
            if isinstance(value, str):
                fault = _fault_of_text(value)
                characters += len(value)
                if fault is None and characters > MAX_ALL_TEXT:
                    fault = f"it has texts of more than {MAX_ALL_TEXT} characters together"
            elif isinstance(value, dict | list | tuple):
                inner: Iterable[Any] = chain.from_iterable(value.items()) if isinstance(value, dict) else value
                value_count += 2 * len(value) if isinstance(value, dict) else len(value)
                fault = _fault_of_size(depth, value_count)
                waiting.append((inner, depth + 1))
            else:
                fault = _fault_of_number(value)
            if fault is not None:
                return fault
    return None


def _fault_of_size(depth: int, value_count: int) -> str | None:
    if depth >= MAX_DEPTH:
        return f"it is nested deeper than {MAX_DEPTH} levels"
    return f"it has more than {MAX_VALUES} values" if value_count > MAX_VALUES else None


def _fault_of_number(value: Any) -> str | None:
    if isinstance(value, int):
        return None if -MAX_INT <= value <= MAX_INT else "it has a number of more than 64 bits"
    if isinstance(value, float):
        return None if math.isfinite(value) and abs(value) <= MAX_FLOAT else f"it has the number {value:g}"
    return None


def _fault_of_text(text: str) -> str | None:
    if len(text) > MAX_TEXT:
        return f"it has a text of more than {MAX_TEXT} characters"
    if "\0" in text:
        return "it has a text with a NUL character"
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            return "it has a text that is not valid Unicode"
    return None
