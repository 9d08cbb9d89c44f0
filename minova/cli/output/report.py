"""Answers that are more than one table: a line and some tables for people, the whole record for programs."""

import argparse
from collections.abc import Sequence
from typing import Any, NamedTuple, TextIO

from cliff.formatters.json_format import JSONFormatter
from cliff.formatters.table import TableFormatter
from cliff.formatters.yaml_format import YAMLFormatter

from minova.cli.base import Command, Formatters
from minova.cli.client import Json
from minova.cli.output.text import printable

Rows = Sequence[tuple[Any, ...]]


class Part(NamedTuple):
    """One table under its title; left out when it has no row."""

    title: str
    columns: Sequence[str]
    rows: Rows


class WholeRecord(Command):
    """A command with `-f table|json|yaml`."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "-f",
            "--format",
            choices=["json", "table", "yaml"],
            default="table",
            dest="formatter",
            help="json and yaml give the whole record (default: table)",
        )
        self._formatters = Formatters(json=JSONFormatter(), table=TableFormatter(), yaml=YAMLFormatter())
        for formatter in self._formatters:
            formatter.obj.add_argument_group(parser)
        return parser

    def show(self, parsed_args: argparse.Namespace, record: Json, headline: str, parts: Sequence[Part]) -> None:
        show(self._formatters, self.app.stdout, parsed_args, record, headline, parts)


def show(
    formatters: Any,
    out: TextIO,
    parsed_args: argparse.Namespace,
    record: Json,
    headline: str,
    parts: Sequence[Part],
) -> None:
    """`formatters` has cliff's under `.obj`; any but json and yaml gives the tables."""
    if parsed_args.formatter in ("json", "yaml"):
        formatters[parsed_args.formatter].obj.emit_one(tuple(record), tuple(record.values()), out, parsed_args)
        return
    out.write(printable(headline) + "\n")
    for part in parts:
        if part.rows:
            out.write(f"\n{part.title}\n")
            rows = [[printable(cell) if isinstance(cell, str) else cell for cell in row] for row in part.rows]
            formatters["table"].obj.emit_list(part.columns, rows, out, parsed_args)
