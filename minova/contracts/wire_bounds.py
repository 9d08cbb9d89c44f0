"""Bounds of every message of a host, beside those of its types. Pure.

The types of a contract bound each field (`minova/objects/hosts/bounds.py`). This is about values that a type cannot exclude, and about fields
of any type: text that a database refuses, numbers that no column or float holds, and depth or length that costs others time.
"""

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
    """Returns why these plain values are not accepted; None if they are. Does not recurse, because they may be nested deeply.

    A report of a host has thousands of values, so types are compared by identity, and all texts are judged together.
    """
    containers: list[Any] = [[arguments]]
    texts: list[str] = []
    numbers: list[float] = []
    value_count = 0
    for _ in range(MAX_DEPTH + 1):
        inner: list[Any] = []
        for container in containers:
            values = [*container, *container.values()] if type(container) is dict else container
            value_count += len(values)
            if value_count > MAX_VALUES:
                return f"it has more than {MAX_VALUES} values"
            for value in values:
                kind = type(value)
                if kind is str:
                    texts.append(value)
                elif kind is dict or kind is list or kind is tuple:
                    inner.append(value)
                elif kind is int or kind is float:
                    numbers.append(value)
        if not inner:
            return _fault_of_texts(texts) or _fault_of_numbers(numbers)
        containers = inner
    return f"it is nested deeper than {MAX_DEPTH} levels"


def _fault_of_numbers(numbers: list[float]) -> str | None:
    for value in numbers:
        if type(value) is int:
            if not -MAX_INT <= value <= MAX_INT:
                return "it has a number of more than 64 bits"
        elif not -MAX_FLOAT <= value <= MAX_FLOAT:  # nor NaN
            return f"it has the number {value:g}"
    return None


def _fault_of_texts(texts: list[str]) -> str | None:
    if max(map(len, texts), default=0) > MAX_TEXT:
        return f"it has a text of more than {MAX_TEXT} characters"
    if sum(map(len, texts)) > MAX_ALL_TEXT:
        return f"it has texts of more than {MAX_ALL_TEXT} characters together"
    together = "".join(texts)
    if "\0" in together:
        return "it has a text with a NUL character"
    if not together.isascii():
        try:
            together.encode()
        except UnicodeEncodeError:
            return "it has a text that is not valid Unicode"
    return None
