"""Tests that run at night only: `@pytest.mark.nightly("the reason")`. `--nightly` runs them, as tools/check nightly does.

The reason says what they add to the tests of each day, which must notice the usual defects of the same law.
"""

from collections.abc import Collection, Iterable
from typing import Any

import pytest

MARK = "nightly"


def add_option(parser: pytest.Parser) -> None:
    parser.addoption("--nightly", action="store_true", help="run the tests with the mark nightly, too")


def configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", f"{MARK}(reason): runs with --nightly only, for this reason")


def skip(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Raises UsageError if a mark has no reason."""
    for item in items:
        mark = item.get_closest_marker(MARK)
        if mark is None:
            continue
        if len(mark.args) != 1 or not mark.args[0]:
            raise pytest.UsageError(f"{item.nodeid}: the mark {MARK} needs a reason")
        if not config.getoption("--nightly"):
            item.add_marker(pytest.mark.skip(reason=f"nightly: {mark.args[0]}"))


def daily(values: Iterable[Any], daily_values: Collection[Any], reason: str) -> list[Any]:
    """Values for `parametrize` of which only `daily_values` run each day. `reason`: why these are enough. A tuple has one value for each
    argument.
    """
    return [
        value
        if value in daily_values
        else pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=pytest.mark.nightly(reason))
        for value in values
    ]
