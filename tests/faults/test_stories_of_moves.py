"""Servers boot, move in every way, and are deleted while hosts die and return: after each story all books agree.

MINOVA_STORIES: how many (tools/check nightly: 1,000). Each takes some three seconds on a quiet machine. MINOVA_FIRST_STORY: the seed of
the first one, to tell them in parts.
"""

import os
from pathlib import Path

import pytest

from tests.faults.stories import Story

pytestmark = pytest.mark.timeout(300)
STORIES = int(os.environ.get("MINOVA_STORIES", "1"))
FIRST = int(os.environ.get("MINOVA_FIRST_STORY", "0"))


@pytest.mark.parametrize("seed", range(FIRST, FIRST + STORIES))
def test_allocations_rows_and_guests_agree_after_each_story(tmp_path: Path, seed: int) -> None:
    story = Story(seed, tmp_path)
    try:
        story.tell()
        assert story.violations() == [], story.told
        story.decide()
        assert story.violations() == [], story.told
        story.delete_all()
        assert story.violations() == [], story.told
    finally:
        story.close()
