"""Tables that fit the terminal: text is wrapped between words, and columns are left out before an ID is broken: those without any
value first, then the last ones of those that the command does not name in `first_columns`. Times have no microseconds.
"""

import argparse
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TextIO

from cliff.columns import FormattableColumn
from cliff.formatters.table import TableFormatter

from minova.cli.output.columns import printable_lines

BORDER = 3  # characters beside each column
# For people: a table without rows looks like a command that did nothing.
EMPTY = "There is nothing to list."
_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.\d+(Z|[+-]\d\d:?\d\d)?")


class Table(TableFormatter):
    def emit_list(
        self,
        column_names: Sequence[str],
        data: Iterable[Sequence[Any]],
        stdout: TextIO,
        parsed_args: argparse.Namespace,
    ) -> None:
        rows = [list(map(_cell_text, row)) for row in data]
        if not rows and stdout.isatty():
            stdout.write(f"{EMPTY}\n")
            return
        # Columns and a width that the user chose are used unchanged.
        chosen = bool(getattr(parsed_args, "columns", ())) or parsed_args.max_width > 0
        if chosen or not stdout.isatty():
            super().emit_list(column_names, rows, stdout, parsed_args)
            return
        width = shutil.get_terminal_size().columns
        names, fitted, left_out = fit(column_names, rows, width, getattr(parsed_args, "first_columns", ()))
        super().emit_list(names, fitted, stdout, parsed_args)
        if left_out:
            stdout.flush()
            print(f"Not enough room for: {', '.join(left_out)}. See -c COLUMN, or a wider terminal.", file=sys.stderr)

    def emit_one(
        self,
        column_names: Sequence[str],
        data: Sequence[Any],
        stdout: TextIO,
        parsed_args: argparse.Namespace,
    ) -> None:
        super().emit_one(column_names, list(map(_cell_text, data)), stdout, parsed_args)


def fit(
    names: Sequence[str], rows: Sequence[Sequence[Any]], width: int, first_columns: Sequence[str] = ()
) -> tuple[Sequence[str], list[list[Any]], Sequence[str]]:
    """Returns names and rows of the columns that fit into `width` characters, and the names of those that do not. `first_columns`: those
    that the others give way to, the most needed one first.
    """
    columns = list(_columns(names, rows))
    least = [_widest(name, column, _longest_word) for name, column in columns]
    fitting_widths: list[int] = []
    needed = {name: rank for rank, name in enumerate(first_columns)}

    def order(index: int) -> tuple[bool, int]:
        return bool(rows) and _is_empty(columns[index][1]), needed.get(names[index], len(needed))

    for index in sorted(range(len(names)), key=order):
        if not fitting_widths or _total([least[each] for each in (*fitting_widths, index)]) <= width:
            fitting_widths.append(index)
    fitting_widths.sort()
    widths = {index: least[index] for index in fitting_widths}
    # The remaining width goes to the columns in their order, as far as they can use it.
    for index in fitting_widths:
        more = _widest(*columns[index], _longest_line) - widths[index]
        widths[index] += max(0, min(more, width - _total(list(widths.values()))))
    wrapped = [[_wrapped(row[index], widths[index]) for index in fitting_widths] for row in rows]
    left_out = [name for index, name in enumerate(names) if index not in widths]
    return [names[index] for index in fitting_widths], wrapped, left_out


def _is_empty(column: Sequence[Any]) -> bool:
    return all(str(cell) in {"", "None"} for cell in column)


def _columns(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> Iterable[tuple[str, list[Any]]]:
    return ((name, [row[index] for row in rows]) for index, name in enumerate(names))


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + BORDER * len(widths) + 1


def _widest(name: str, column: Sequence[Any], measure: Callable[[str], int]) -> int:
    return max(len(name), *(measure(str(cell)) for cell in column), 0)


def _longest_word(text: str) -> int:
    return max(map(len, text.split()), default=0)


def _longest_line(text: str) -> int:
    return max(map(len, text.splitlines()), default=0)


def _cell_text(cell: Any) -> Any:
    """Returns what a person sees of a value. Other users have named some of it, with characters that could act on the terminal."""
    readable = cell.human_readable() if isinstance(cell, FormattableColumn) else cell
    if not isinstance(readable, str):
        return readable
    time = _TIME.fullmatch(readable)
    return f"{time[1]}{time[2] or ''}" if time else printable_lines(readable)


def _wrapped(cell: Any, width: int) -> Any:
    if not isinstance(cell, str) or _longest_line(cell) <= width:
        return cell
    return "\n".join(textwrap.wrap(cell, width, break_long_words=False, break_on_hyphens=False))
