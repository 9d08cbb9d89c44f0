"""The table of commands, and how words are read."""

import argparse

import pytest

from minova.cli.parser import did_you_mean, key_value, natural, positive, seconds
from minova.cli.registry import COMMANDS, Commands


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_of_the_table_is_there_and_says_what_it_does(name: str) -> None:
    command, command_name, rest = Commands().find_command(name.split())
    assert (command_name, rest) == (name, [])
    assert command.__doc__


@pytest.mark.parametrize(
    ("words", "name", "rest"),
    [
        ("server show web", "server show", ["web"]),
        ("server console log s", "server console log", ["s"]),
        ("server console log show s", "server console log show", ["s"]),
        ("server delete list show", "server delete", ["list", "show"]),
        ("server list --long", "server list", ["--long"]),
    ],
)
def test_full_words_come_before_abbreviations(words: str, name: str, rest: list[str]) -> None:
    assert Commands().find_command(words.split())[1:] == (name, rest)


@pytest.mark.parametrize("words", ["", "s", "server", "sever list", "--long"])
def test_words_that_name_no_command(words: str) -> None:
    with pytest.raises(ValueError, match="Unknown command"):
        Commands().find_command(words.split())


@pytest.mark.parametrize(("text", "pair"), [("a=b", ("a", "b")), (" a =", ("a", "")), ("a=b=c", ("a", "b=c"))])
def test_key_value(text: str, pair: tuple[str, str]) -> None:
    assert key_value(text) == pair


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (key_value, "a"),
        (key_value, "=b"),
        (positive, "0"),
        (positive, "-1"),
        (positive, "ten"),
        (natural, "-1"),
        (natural, ""),
        (seconds, "0"),
        (seconds, "-1"),
        (seconds, "inf"),
        (seconds, "nan"),
        (seconds, "soon"),
    ],
)
def test_values_that_cannot_be(kind, text: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(argparse.ArgumentTypeError):
        kind(text)


@pytest.mark.parametrize(
    ("word", "hint"),
    [("--flavr", " Did you mean --flavor?"), ("--xyz", ""), ("--imag", " Did you mean --image?")],
)
def test_did_you_mean(word: str, hint: str) -> None:
    assert did_you_mean(word, ["--flavor", "--image"]) == hint
