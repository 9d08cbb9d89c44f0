"""Pages for people: links lead somewhere, decision pages have numbers of their own, and the README names every page."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("*.md"))
PAGES = [ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("minova/**/README.md"), *ROOT.glob("tests/**/*.md")]
LINK = re.compile(r"\]\(([^)\s]+)\)")


def links(page: Path) -> list[Path]:
    """The files of the repository that a page links to."""
    found = [link.partition("#")[0] for link in LINK.findall(page.read_text()) if "://" not in link]
    return [(page.parent / link).resolve() for link in found if link]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files(page: Path) -> None:
    assert [str(target) for target in links(page) if not target.exists()] == []


def test_decision_pages_are_numbered_without_gaps_or_doubles() -> None:
    numbers = [page.name[:4] for page in DECISIONS]
    assert numbers == [f"{number:04}" for number in range(1, len(numbers) + 1)]
    titles = [page.read_text().partition("\n")[0] for page in DECISIONS]
    assert [title[:8] for title in titles] == [f"# {number}: " for number in numbers]


def test_the_readme_names_every_page() -> None:
    named = links(ROOT / "README.md")
    assert [page.name for page in (ROOT / "docs").glob("*.md") if page.resolve() not in named] == []
