"""Formats values for a terminal; machine-readable formats get the value itself."""

from typing import Any

from cliff.columns import FormattableColumn


def printable(text: str) -> str:
    """Replaces each control character by a space, since it could act on the terminal."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


class KeyValues(FormattableColumn[dict[str, Any]]):
    """A mapping: `key='value', ...` on a terminal, the mapping itself in machine-readable formats."""

    def human_readable(self) -> str:
        return printable(", ".join(f"{key}={_in_words(value)}" for key, value in sorted(self._value.items())))


def _in_words(value: Any) -> str:
    if isinstance(value, dict):
        return "(" + ", ".join(f"{key}={_in_words(inner)}" for key, inner in sorted(value.items())) + ")"
    return " ".join(map(str, value)) if isinstance(value, list) else f"'{value}'"


class Words(FormattableColumn[list[Any]]):
    """A list: `a, b` on a terminal, the list itself in machine-readable formats."""

    def human_readable(self) -> str:
        return ", ".join(str(word) for word in self._value)
