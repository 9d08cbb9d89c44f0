"""Formats values for a terminal; machine-readable formats get the value itself."""

from typing import Any, TextIO

from cliff.columns import FormattableColumn


def printable(text: str) -> str:
    """Replaces each control character by a space, since it could act on the terminal."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def printable_lines(text: str) -> str:
    """As `printable`, but lines stay lines."""
    return "\n".join(map(printable, text.split("\n")))


class PrintableOut:
    """A terminal, to which nothing gets that would act on it."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def write(self, text: str) -> int:
        return self._out.write(printable_lines(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._out, name)


def for_terminal(out: TextIO) -> TextIO:
    """Returns where a format that machines read is written: on a terminal, what other users have named must not act on it."""
    return PrintableOut(out) if out.isatty() else out  # type: ignore[return-value]


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
