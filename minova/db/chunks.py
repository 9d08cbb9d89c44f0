"""Long lists of values in pieces: an engine takes only so many variables in one statement."""

from collections.abc import Iterable, Sequence
from typing import TypeVar

# Fewer than SQLite's limit.
CHUNK = 1000

T = TypeVar("T")


def chunked(values: Sequence[T]) -> Iterable[Sequence[T]]:
    return (values[start : start + CHUNK] for start in range(0, len(values), CHUNK))
