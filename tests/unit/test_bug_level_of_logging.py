"""Logging that the fixture of a module set up stayed for all later tests of the process: those that expect no line of it failed."""

import logging

import pytest


@pytest.fixture(scope="module")
def levels() -> list[int]:
    """Of the root logger in each test. The first test has the level that a command in this process sets."""
    logging.getLogger().setLevel(logging.INFO)
    return []


@pytest.mark.parametrize("turn", range(2))
def test_the_level_of_a_fixture_ends_with_the_test_that_asked_for_it(levels: list[int], turn: int) -> None:
    levels.append(logging.getLogger().level)
    assert levels == [logging.INFO, logging.WARNING][: len(levels)]
