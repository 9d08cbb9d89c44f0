"""Tables that fit the terminal: text is wrapped between words, and the last columns are dropped before an ID is
broken.
"""

import argparse
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TextIO

from cliff.columns import FormattableColumn
from cliff.formatters.table import TableFormatter

BORDER = 3  # characters beside each column
# For people: a table without rows looks like a command that did nothing.
EMPTY = "There is nothing to list."


class Table(TableFormatter):
    def emit_list(
        self,
        column_names: Sequence[str],
        data: Iterable[Sequence[Any]],
        stdout: TextIO,
        parsed_args: argparse.Namespace,
    ) -> None:
        rows = [list(row) for row in data]
        if not rows and stdout.isatty():
            stdout.write(f"{EMPTY}\n")
            return
        # Columns and a width that the user chose are used unchanged.
        chosen = bool(getattr(parsed_args, "columns", ())) or parsed_args.max_width > 0
        if chosen or not stdout.isatty():
            super().emit_list(column_names, rows, stdout, parsed_args)
            return
        width = shutil.get_terminal_size().columns
        names, fitted, left_out = fit(column_names, [[_shown(cell) for cell in row] for row in rows], width)
        super().emit_list(names, fitted, stdout, parsed_args)
        if left_out:
            stdout.flush()
            print(f"Not enough room for: {', '.join(left_out)}. See -c COLUMN, or a wider terminal.", file=sys.stderr)


def fit(
    names: Sequence[str], rows: Sequence[Sequence[Any]], width: int
) -> tuple[Sequence[str], list[list[Any]], Sequence[str]]:
    """Returns names and rows of the columns that fit into `width` characters, and the names of those that do not."""
    least = [_widest(name, column, _longest_word) for name, column in _columns(names, rows)]
    kept = len(names)
    while kept > 1 and _total(least[:kept]) > width:
        kept -= 1
    widths = least[:kept]
    # The remaining width goes to the columns in their order, as far as they can use it.
    for index, (name, column) in enumerate(_columns(names[:kept], rows)):
        more = _widest(name, column, _longest_line) - widths[index]
        widths[index] += max(0, min(more, width - _total(widths)))
    wrapped = [[_wrapped(cell, room) for cell, room in zip(row, widths, strict=False)] for row in rows]
    return names[:kept], wrapped, names[kept:]


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


def _shown(cell: Any) -> Any:
    return cell.human_readable() if isinstance(cell, FormattableColumn) else cell


def _wrapped(cell: Any, width: int) -> Any:
    if not isinstance(cell, str) or _longest_line(cell) <= width:
        return cell
    return "\n".join(textwrap.wrap(cell, width, break_long_words=False, break_on_hyphens=False))
