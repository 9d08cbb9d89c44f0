"""Base classes of commands: cliff's, without their searches through every installed package."""

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

import cliff.command
import cliff.lister
import cliff.show
from cliff._argparse import SmartHelpFormatter
from cliff.formatters.commaseparated import CSVLister
from cliff.formatters.json_format import JSONFormatter
from cliff.formatters.shell import ShellFormatter
from cliff.formatters.table import TableFormatter
from cliff.formatters.value import ValueFormatter
from cliff.formatters.yaml_format import YAMLFormatter

from minova.cli.output import report
from minova.cli.output.columns import for_terminal
from minova.cli.output.table import Table
from minova.cli.parser import Parser

if TYPE_CHECKING:
    from minova.cli.client import Client


class Formatter:
    """A formatter in the shape that cliff expects of extensions."""

    def __init__(self, obj: Any) -> None:
        self.obj = obj


class Formatters:
    """A fixed table in the shape of cliff's extension manager."""

    def __init__(self, **formatters: Any) -> None:
        self._formatters = {name: Formatter(obj) for name, obj in formatters.items()}

    def each(self) -> dict[str, Any]:
        """The formatters themselves, by name."""
        return {name: formatter.obj for name, formatter in self._formatters.items()}

    def names(self) -> list[str]:
        return list(self._formatters)

    def __iter__(self) -> Iterator[Formatter]:
        return iter(self._formatters.values())

    def __getitem__(self, name: str) -> Formatter:
        return self._formatters[name]


class Command(cliff.command.Command):
    """A command that shows a result and still fails sets `exit_code`."""

    exit_code = 0

    @property
    def client(self) -> "Client":
        client: Client = self.app.client  # type: ignore[attr-defined]
        return client

    def _load_hooks(self) -> None:
        self._hooks = []

    def get_epilog(self) -> str:
        return self._epilog or ""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        return Parser(
            description=self.get_description(),
            epilog=self.get_epilog(),
            prog=prog_name,
            formatter_class=SmartHelpFormatter,
        )

    def run(self, parsed_args: argparse.Namespace) -> int:
        return super().run(parsed_args) or self.exit_code


@contextmanager
def _printable_results(app: Any) -> Iterator[None]:
    """Meanwhile nothing gets to a terminal that would act on it: other users have named much of a result."""
    out, app.stdout = app.stdout, for_terminal(app.stdout)
    try:
        yield
    finally:
        app.stdout = out


class Lister(cliff.lister.Lister, Command):
    """`first_columns`: those that a narrow terminal shows before others, the most needed one first."""

    first_columns: ClassVar[Sequence[str]] = ()

    def _load_formatter_plugins(self) -> Any:
        return Formatters(
            csv=CSVLister(),
            json=JSONFormatter(),
            table=Table(),
            value=ValueFormatter(),
            yaml=YAMLFormatter(),
        )

    def run(self, parsed_args: argparse.Namespace) -> int:
        parsed_args.first_columns = self.first_columns
        with _printable_results(self.app):
            return super().run(parsed_args) or self.exit_code

    def _generate_columns_and_selector(
        self, parsed_args: argparse.Namespace, column_names: Sequence[str]
    ) -> tuple[list[str], list[bool] | None]:
        """As cliff does, which leaves out unknown columns without a word as long as it knows one."""
        chosen = super()._generate_columns_and_selector(parsed_args, column_names)
        known_columns = {self._normalize_column_name(name) for name in column_names}
        unknown = [name for name in parsed_args.columns if self._normalize_column_name(name) not in known_columns]
        if unknown:
            more = " --long has more." if getattr(parsed_args, "long", None) is False else ""
            self.app.stderr.write(f"No column {', '.join(unknown)} among {', '.join(column_names)}.{more}\n")
        return chosen


class ShowOne(cliff.show.ShowOne, Command):
    def _load_formatter_plugins(self) -> Any:
        return Formatters(
            json=JSONFormatter(),
            shell=ShellFormatter(),
            table=Table(),
            value=ValueFormatter(),
            yaml=YAMLFormatter(),
        )

    def run(self, parsed_args: argparse.Namespace) -> int:
        with _printable_results(self.app):
            return super().run(parsed_args) or self.exit_code


class ReportCommand(Command):
    """A command that shows a report: `-f table|json|yaml`."""

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

    def show(
        self, parsed_args: argparse.Namespace, record: dict[str, Any], headline: str, parts: Sequence[report.Part]
    ) -> None:
        report.show(self._formatters, self.app.stdout, parsed_args, record, headline, parts)
