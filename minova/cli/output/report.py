"""Reports: a headline and tables on a terminal, the complete record in machine-readable formats."""

import argparse
from collections.abc import Sequence
from typing import Any, NamedTuple, TextIO

from minova.cli.client import Json
from minova.cli.output.columns import printable

Rows = Sequence[tuple[Any, ...]]


class Part(NamedTuple):
    """One table under its title; left out if it has no row."""

    title: str
    columns: Sequence[str]
    rows: Rows


def show(
    formatters: Any,
    out: TextIO,
    parsed_args: argparse.Namespace,
    record: Json,
    headline: str,
    parts: Sequence[Part],
) -> None:
    """Prints a report. `formatters` contain cliff's formatters in `.obj`. Every format other than json and yaml prints
    the tables.
    """
    if parsed_args.formatter in ("json", "yaml"):
        formatters[parsed_args.formatter].obj.emit_one(tuple(record), tuple(record.values()), out, parsed_args)
        return
    out.write(printable(headline) + "\n")
    for part in parts:
        if part.rows:
            out.write(f"\n{part.title}\n")
            rows = [[printable(cell) if isinstance(cell, str) else cell for cell in row] for row in part.rows]
            formatters["table"].obj.emit_list(part.columns, rows, out, parsed_args)
