"""The `minova` program: its global options, the dispatch of commands, and the format of errors."""

import argparse
import logging
import os
import sys
import traceback
from functools import cached_property
from typing import Any

from cliff.app import App

from minova.cli.errors import CliError, UsageError
from minova.cli.output.columns import printable
from minova.cli.parser import Parser, did_you_mean
from minova.cli.registry import Commands, is_longer_spelling

DEFAULT_URL = "http://127.0.0.1:8774"
DESCRIPTION = """Run virtual machines with minova. A command takes the ID of a thing wherever it takes its name.
'minova help COMMAND' or 'minova COMMAND --help' tells more."""
# More of them are a wall of words in the line of an error.
FEW_COMMANDS = 12


class Shell(App):
    NAME = "minova"

    def __init__(self) -> None:
        super().__init__(DESCRIPTION, None, Commands(), deferred_help=True)

    def build_option_parser(
        self,
        description: str | None,
        version: str | None,
        argparse_kwargs: dict[str, Any] | None = None,
    ) -> argparse.ArgumentParser:
        # Abbreviations are off: `--user-data` of a command is not `--username`.
        parser = Parser(
            prog=self.NAME,
            usage="minova [options] COMMAND ...",
            description=description,
            add_help=False,
            allow_abbrev=False,
        )
        parser.add_argument("-h", "--help", action="store_true", dest="wants_help", help="show this help")
        parser.add_argument("--version", action="store_true", dest="wants_version", help="show the version")
        parser.add_argument(
            "--url",
            help=f"where minova-api listens; or MINOVA_URL, else {DEFAULT_URL}",
        )
        parser.add_argument(
            "--os-cloud",
            metavar="NAME",
            help="a cloud of clouds.yaml, with a login at Keystone; or OS_CLOUD, or OS_AUTH_URL and the other OS_* variables, "
            "where neither --url, --username nor MINOVA_URL is given",
        )
        parser.add_argument(
            "--username",
            metavar="NAME",
            help="for HTTP basic; or MINOVA_USERNAME. The password comes from MINOVA_PASSWORD or is asked for",
        )
        parser.add_argument(
            "--cacert",
            metavar="FILE",
            default=os.environ.get("MINOVA_CACERT"),
            help="certificates (PEM) to trust for https; or MINOVA_CACERT",
        )
        parser.add_argument("--debug", action="store_true", help="show HTTP requests, and tracebacks of errors")
        return parser

    @cached_property
    def client(self) -> Any:
        """The client of minova-api, created when a command first uses it."""
        from minova.cli.client import Client  # noqa: PLC0415 - imports urllib3, which `help` does without

        options = self.options
        username = options.username
        url = os.environ.get("MINOVA_URL") or None if options.url is None else options.url
        if options.os_cloud and (options.url is not None or username):
            raise UsageError(
                "--os-cloud names address and user, and so do --url and --username: give one or the other."
            )
        in_environment = os.environ.get("OS_CLOUD") or os.environ.get("OS_AUTH_URL")
        if options.os_cloud or (in_environment and url is None and username is None):
            from minova.cli.cloud import CloudSession  # noqa: PLC0415 - openstacksdk takes most of a second

            return Client.of_cloud(CloudSession(options.os_cloud), debug=options.debug)
        username = username or os.environ.get("MINOVA_USERNAME")
        return Client(
            DEFAULT_URL if url is None else url,
            username=username,
            password=_password(username) if username else None,
            cacert=options.cacert,
            debug=options.debug,
        )

    def run(self, argv: list[str]) -> int:
        """Parse the global options at any position, and run the command that the other words name."""
        self.options, words = self.parser.parse_known_args(argv)
        logging.getLogger().addHandler(logging.NullHandler())
        try:
            return self._dispatch(words)
        except CliError as error:
            if self.options.debug:
                traceback.print_exc()
            print("minova:", "\n".join(map(printable, str(error).split("\n"))), file=sys.stderr)
            return 2 if isinstance(error, UsageError) else 1

    def _dispatch(self, words: list[str]) -> int:
        if self.options.wants_version:
            from minova.cli import show_version  # noqa: PLC0415

            return show_version()
        if self.options.wants_help or not words:
            from minova.cli.help import print_help  # noqa: PLC0415

            return print_help(self, words)
        return self.run_subcommand(words)

    def run_subcommand(self, argv: list[str]) -> int:
        """Run one command; a bug in it ends in one line too, unless --debug."""
        try:
            factory, name, rest = self.command_manager.find_command(argv)
        except ValueError:
            raise UsageError(self.unknown_command(argv)) from None
        command = factory(self, self.options, cmd_name=name)
        arguments = command.get_parser(f"{self.NAME} {name}").parse_args(rest)
        try:
            return int(command.run(arguments))
        except (CliError, BrokenPipeError):
            raise
        except Exception as error:
            if isinstance(error, ValueError) and "column names" in str(error):  # cliff's error about -c
                raise UsageError(str(error)) from None
            raise CliError(_unexpected(error)) from error

    def unknown_command(self, argv: list[str]) -> str:
        """Returns the error text for words that name no command: similar commands, or commands that begin with these
        words.
        """
        words = []
        for word in argv:
            if word.startswith("-"):
                break
            words.append(word)
        if not words:
            return f"unknown option {argv[0]}.{did_you_mean(argv[0], self.parser._option_string_actions)}"
        names = [name for name, _ in self.command_manager if not is_longer_spelling(name)]
        begun = sorted(name for name in names if name.split()[: len(words)] == words)
        if begun:
            typed = " ".join(words)
            if len(begun) > FEW_COMMANDS:
                return f"'{typed}' is not complete. 'minova help {typed}' lists its {len(begun)} commands."
            return f"'{typed}' is not complete. Its commands: {', '.join(begun)}."
        typed = " ".join(words[:3])
        hint = next(filter(None, (did_you_mean(" ".join(words[:n]), names) for n in (3, 2, 1))), "")
        return f"'{typed}' is not a command.{hint or self._of_noun(words[0], names)} See 'minova --help'."

    @staticmethod
    def _of_noun(noun: str, names: list[str]) -> str:
        same = sorted(name for name in names if name.split()[0] == noun)
        return f" There are: {', '.join(same)}." if same else ""


def _unexpected(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    return f"unexpected {type(error).__name__}: {error} (--debug shows where)"


def _password(username: str) -> str:
    """Returns the password from MINOVA_PASSWORD or the terminal; never from the command line, which every user of the
    machine can read.
    """
    password = os.environ.get("MINOVA_PASSWORD")
    if password is not None:
        return password
    if not sys.stdin.isatty():
        raise CliError(f"No password for user {username}: set MINOVA_PASSWORD.")
    from getpass import getpass  # noqa: PLC0415 - only with a terminal

    return getpass(f"Password of {username}: ")
