"""`minova help`, and `--help` anywhere."""

import argparse
import shutil
import textwrap
from typing import Any

from minova.cli.base import Command
from minova.cli.errors import UsageError
from minova.cli.registry import SPELLINGS, is_longer_spelling


def print_help(app: Any, words: list[str]) -> int:
    """Prints help on a command, on the commands that begin with these words, or on minova itself."""
    if not words:
        app.stdout.write(app.parser.format_help())
        app.stdout.write("\nCommands:\n")
        _list_commands(app, [])
        return 0
    try:
        factory, name, _ = app.command_manager.find_command(words)
    except ValueError:
        return _help_of_noun(app, words)
    parser = factory(app, app.options, cmd_name=name).get_parser(f"{app.NAME} {name}")
    app.stdout.write(parser.format_help())
    return 0


def _help_of_noun(app: Any, words: list[str]) -> int:
    if not any(name.split()[: len(words)] == words for name, _ in app.command_manager):
        raise UsageError(app.unknown_command(words))
    app.stdout.write(f"Commands of '{app.NAME} {' '.join(words)}':\n")
    _list_commands(app, words)
    return 0


def _list_commands(app: Any, words: list[str]) -> None:
    listed: dict[str, str] = {}
    for name, entry in sorted(app.command_manager):
        left_out = is_longer_spelling(name) if words else name in SPELLINGS
        if name.split()[: len(words)] == words and not left_out:
            listed[name] = (entry.load().__doc__ or "").strip().split("\n")[0].rstrip(".")
    indent = 4 + max(map(len, listed), default=0)
    width = shutil.get_terminal_size().columns if app.stdout.isatty() else 0
    for name, text in listed.items():
        begin = f"  {name}".ljust(indent)
        # On a terminal that has no room for two columns, it wraps the lines itself.
        lines = [begin + text]
        if width >= 2 * indent:
            lines = textwrap.wrap(text, width, initial_indent=begin, subsequent_indent=" " * indent)
        app.stdout.writelines(f"{line}\n" for line in lines)


class Help(Command):
    """Show the help of a command."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("words", nargs="*", metavar="WORD", help="the command's words, or the first of them")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        return print_help(self.app, parsed_args.words)
