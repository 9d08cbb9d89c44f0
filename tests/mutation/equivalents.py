"""The list of changes that have no effect: `path | kind | nth | text of the line | reason` in equivalents.txt."""

from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

from tests.mutation.mutants import Mutant

FILE = Path(__file__).with_suffix(".txt")
SEPARATOR = " ¦ "
Key: TypeAlias = tuple[str, str, str, int]


def read() -> dict[Key, str]:
    """The reason of each."""
    return dict(_entries())


def _entries() -> Iterator[tuple[Key, str]]:
    for line in FILE.read_text().splitlines():
        if line and not line.startswith("#"):
            path, kind, nth, text, reason = line.split(SEPARATOR)
            yield (path, kind, text, int(nth)), reason


def is_check_of_zip(mutant: Mutant) -> bool:
    """Whether the change is of `strict=True`, which only checks the program itself."""
    return mutant.kind == "ReplaceTrueWithFalse" and mutant.text.count("True") == mutant.text.count("strict=True")


def line_of(mutant: Mutant) -> str:
    """As it stands in the file, without the reason."""
    return SEPARATOR.join((mutant.path, mutant.kind, str(mutant.nth), mutant.text))
