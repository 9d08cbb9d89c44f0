"""Long lists of values in pieces: an engine takes only so many variables in one statement."""

from collections.abc import Iterable, Sequence
from typing import TypeVar

# Fewer than SQLite's limit.
CHUNK = 1000

T = TypeVar("T")


def chunked(values: Sequence[T], size: int = CHUNK) -> Iterable[Sequence[T]]:
    return (values[start : start + size] for start in range(0, len(values), size))
