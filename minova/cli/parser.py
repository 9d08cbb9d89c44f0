"""The argument parser of every command. Wrong usage ends with one line that says what is right."""

import argparse
import sys
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from cliff import _argparse


def did_you_mean(word: str, words: Iterable[str]) -> str:
    """Returns ` Did you mean X or Y?`, or an empty string if no word is similar."""
    from difflib import get_close_matches  # noqa: PLC0415 - only after a typing error

    near = get_close_matches(word, list(words), n=3, cutoff=0.6)
    return f" Did you mean {' or '.join(near)}?" if near else ""


class Parser(_argparse.ArgumentParser):
    """`rest` is the name of a list argument that also receives all words after --, unchanged."""

    rest: str | None = None

    def error(self, message: str) -> NoReturn:
        """Print one line, and how to learn more; exit code 2."""
        print(f"{self.prog}: {message}", file=sys.stderr)
        print(f"See '{self.prog} --help'.", file=sys.stderr)
        raise SystemExit(2)

    def parse_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        """As argparse, but an unknown option is reported before arguments that are missing because of it."""
        for argument in args or ():
            if argument == "--":
                break
            self._refuse_unknown(argument.partition("=")[0])
        if self.rest is None or args is None or "--" not in args:
            return super().parse_args(args, namespace)
        # argparse treats a list of words as empty if options come before them.
        end = list(args).index("--")
        parsed = super().parse_args(args[:end], namespace)
        setattr(parsed, self.rest, [*getattr(parsed, self.rest), *args[end + 1 :]])
        return parsed

    def _refuse_unknown(self, option: str) -> None:
        option_strings = self._option_string_actions
        if option.startswith("--") and not any(name.startswith(option) for name in option_strings):
            self.error(f"unknown option {option}.{did_you_mean(option, option_strings)}")


def add_paging(parser: argparse.ArgumentParser, after: str, of: str) -> None:
    """Adds `--limit` and `--marker` of a listing. `after` is the help of the marker, `of` its metavar."""
    add_limit(parser)
    parser.add_argument("--marker", metavar=of, help=after)


def add_limit(parser: argparse.ArgumentParser) -> None:
    # OpenStack's client has two options, one of them for the size of a page; here pages are not visible.
    parser.add_argument("--limit", "--max-items", type=positive, metavar="N", help="at most N of them (default: all)")


def add_owner(parser: argparse.ArgumentParser, kind: str, text: str) -> None:
    """Adds `--project` or `--user`, and the option of the domain that distinguishes several with the same name."""
    parser.add_argument(f"--{kind}", metavar=kind.upper(), help=f"{text}: name or ID with Keystone, else its name")
    add_domain(parser, kind)


def add_domain(parser: argparse.ArgumentParser, kind: str) -> None:
    parser.add_argument(
        f"--{kind}-domain", metavar="DOMAIN", help=f"where the {kind} is, if several domains of Keystone have its name"
    )


def add_key_values(parser: argparse.ArgumentParser, option: str, text: str) -> None:
    """Adds an option such as `--property KEY=VALUE`, a list of pairs."""
    parser.add_argument(option, type=key_value, action="append", default=[], metavar="KEY=VALUE", help=text)


def add_wait(parser: argparse.ArgumentParser, until: str, limit: float) -> None:
    """Adds `--wait`, and `--timeout` with `limit` seconds as its default."""
    parser.add_argument("--wait", action="store_true", help=until)
    parser.add_argument(
        "--timeout",
        type=seconds,
        default=limit,
        metavar="SECONDS",
        help=f"how long --wait waits (default: {limit:g})",
    )


def key_value(text: str) -> tuple[str, str]:
    """The type of `--property k=v`."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise argparse.ArgumentTypeError(f"'{text}' is not KEY=VALUE")
    return key.strip(), value


def positive(text: str) -> int:
    """The type of a count or size that must be 1 or more."""
    return _at_least(text, 1)


def natural(text: str) -> int:
    """The type of a size that may be 0."""
    return _at_least(text, 0)


def seconds(text: str) -> float:
    """The type of a time limit: a finite number above 0."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of seconds above 0")
    return value


def _at_least(text: str, least: int) -> int:
    try:
        value = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number") from None
    if value < least:
        raise argparse.ArgumentTypeError(f"{value} is below {least}")
    return value
