"""docs/security.md names each known hole of Nova, and a test of what holds it; tests/unit/docs checks that the links lead to files."""

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "security.md").read_text()
HOLES = [
    *(f"CVE-{name}" for name in ("2015-5162", "2015-7548", "2017-7214", "2017-16239", "2019-14433", "2022-47951")),
    *(f"CVE-{name}" for name in ("2024-32498", "2024-40767", "2026-24708")),
    *(f"OSSN-{name}" for name in ("0007", "0075", "0089")),
]


@pytest.mark.parametrize("hole", HOLES)
def test_each_hole_has_a_row_with_a_test(hole: str) -> None:
    (row,) = re.findall(rf"^\| {hole} \|.*$", PAGE, re.MULTILINE)
    _, _, was, holds, shown, _ = (cell.strip() for cell in row.split("|"))
    assert was
    assert holds
    assert re.search(r"\]\(\.\./tests/[^)]+\)", shown)


@pytest.mark.parametrize("stolen", ["a hypervisor", "the password of a user", "the broker's password", "a backup"])
def test_what_a_thief_gains_is_said(stolen: str) -> None:
    assert f"| {stolen}" in PAGE.partition("## What an attacker gains")[2].partition("\n## ")[0]
