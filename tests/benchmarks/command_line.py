"""One command line for all benchmarks: `python -m tests.benchmarks.NAME [--help] [--smallest] [--OPTION VALUE]...`."""

import argparse
import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from minova.cmd.manage import at_least_one, sizes


class Option(NamedTuple):
    """`usual`: the default, whose type is the option's: a number, numbers with commas between, a word, or False for a switch.

    `smallest`: the default with `--smallest`.
    `choices`: words; several with commas between if `usual` is a list.
    """

    name: str
    usual: Any
    smallest: Any
    help: str
    choices: Sequence[str] = ()


def parse(name: str, doc: str | None, *options: Option, words: Sequence[str] | None = None) -> argparse.Namespace:
    """Returns the values of all options. `doc`: of the program, for its help text."""
    parser = argparse.ArgumentParser(
        prog=f"python -m tests.benchmarks.{name}",
        description=inspect.cleandoc(doc or ""),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--smallest", action="store_true", help="the smallest sizes: they show that it works, and no figures"
    )
    for option in options:
        flag = f"--{option.name}"
        if option.usual is False:
            parser.add_argument(flag, action="store_true", help=option.help)
            continue
        shown = ",".join(map(str, option.usual)) if isinstance(option.usual, list) else option.usual
        parser.add_argument(flag, type=_reader(option), metavar="VALUE", help=f"{option.help} ({shown})")
    arguments = parser.parse_args(words)
    for option in options:
        field = option.name.replace("-", "_")
        if getattr(arguments, field) is None:
            setattr(arguments, field, option.smallest if arguments.smallest else option.usual)
    return arguments


def _reader(option: Option) -> Callable[[str], Any]:
    if option.choices:

        def chosen(text: str) -> Any:
            parts = text.split(",")
            if not set(parts) <= set(option.choices):
                raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(option.choices)}")
            return parts if isinstance(option.usual, list) else text

        return chosen
    return sizes if isinstance(option.usual, list) else at_least_one
