"""docs/reference/guest-hardware.md says of every key of flavors and images what becomes of it."""

import runpy
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs/reference/guest-hardware.md"
TOOL = runpy.run_path(str(ROOT / "tools/guest-hardware"))


def test_the_page_is_what_the_table_says() -> None:
    assert PAGE.read_text() == TOOL["page"](), "tools/guest-hardware > docs/reference/guest-hardware.md"
