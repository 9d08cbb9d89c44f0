"""Following a console log of which only the end can be asked for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minova.cli.commands.server.console import harmless, what_is_new


@pytest.mark.parametrize(
    ("before", "now", "new"),
    [
        ("", "boot\n", "boot\n"),
        ("boot\n", "boot\n", ""),
        ("boot\n", "boot\nready\n", "ready\n"),
        ("x" * 70 + "boot\n", "x" * 65 + "boot\nready\n", "ready\n"),
        ("old\n", "all is different\n", "all is different\n"),
        ("long ago\n", "", ""),
    ],
)
def test_what_is_new(before: str, now: str, new: str) -> None:
    assert what_is_new(before, now) == new


@given(
    lines=st.lists(st.text("abc \n", min_size=1, max_size=30), max_size=60),
    at=st.integers(0, 2000),
    window=st.integers(200, 1000),
    more=st.integers(0, 100),
)
def test_a_log_cut_at_the_front_is_joined_without_a_gap_or_repetition(
    lines: list[str], at: int, window: int, more: int
) -> None:
    # Numbered, as a boot's lines are by their times: no two places look the same.
    log = "".join(f"{number:06d} {line}" for number, line in enumerate(lines))
    before, now = log[:at][-window:], log[: at + more][-window:]
    assert what_is_new(before, now) == log[at : at + more]


def test_control_characters_of_a_guest_do_not_reach_a_terminal() -> None:
    assert harmless("\x1b[2J\x07a\tb\r\nä\x9b") == "[2Ja\tb\nä"
