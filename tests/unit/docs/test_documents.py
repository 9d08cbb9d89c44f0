"""Pages for people: links and anchors exist, decision pages have numbers of their own, and an index names every page."""

import configparser
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
DECISIONS = sorted((DOCS / "decisions").glob("[0-9]*.md"))
# Made from the READMEs of the packages when the documentation is built.
GENERATED = DOCS / "reference" / "packages"
PAGES = [
    *ROOT.glob("*.md"),
    *(page for page in DOCS.glob("**/*.md") if GENERATED not in page.parents),
    *ROOT.glob("minova/**/README.md"),
    *ROOT.glob("tests/**/*.md"),
]
LINK = re.compile(r"\]\(([^)\s]+)\)")
ROOMS = "api|cli|cmd|compute|conductor|contracts|db|hardware|objects|placement|scheduler|simulate|virt"
FILE = re.compile(rf"`((?:minova|tests|tools|migrations|etc)/[\w./-]+|(?:{ROOMS})/[\w/]+\.py)`")
# Files that the walk-throughs of the developer's guide make.
EXAMPLES = {
    "minova/scheduler/filters/failed_builds.py",
    "minova/scheduler/weights/half_full.py",
    "migrations/versions/NNNN_what.py",
}
# It names files of other projects.
OTHERS = DOCS / "decisions" / "0025-layouts-of-placement-and-nomad.md"


def local_links(page: Path) -> list[tuple[Path, str]]:
    """The files of the repository that a page links to, each with the anchor in it or an empty string."""
    split = [link.partition("#") for link in LINK.findall(page.read_text()) if "://" not in link]
    return [((page.parent / path).resolve() if path else page, anchor) for path, _, anchor in split]


def links(page: Path) -> list[Path]:
    """The files of the repository that a page links to."""
    return [target for target, _ in local_links(page)]


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as Git hosts and Sphinx make them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ +(.*)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files(page: Path) -> None:
    assert [str(target) for target in links(page) if not target.exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_anchors_of_links_are_headings(page: Path) -> None:
    named = [(target, anchor) for target, anchor in local_links(page) if anchor and target.suffix == ".md"]
    assert [f"{target}#{anchor}" for target, anchor in named if anchor not in anchors(target)] == []


def test_decision_pages_are_numbered_without_gaps_or_doubles() -> None:
    numbers = [page.name[:4] for page in DECISIONS]
    assert numbers == [f"{number:04}" for number in range(1, len(numbers) + 1)]
    titles = [page.read_text().partition("\n")[0] for page in DECISIONS]
    assert [title[:8] for title in titles] == [f"# {number}: " for number in numbers]


def test_each_index_names_every_page_of_its_folder() -> None:
    missing = []
    for index in DOCS.glob("**/index.md"):
        text = index.read_text()
        pages = {page.stem for page in index.parent.glob("*.md")} - {"index"}
        missing += [] if ":glob:\n" in text and "\n*\n" in text else [page for page in pages if page not in text]
    assert missing == []


def test_the_newest_section_of_the_changelog_is_of_this_version() -> None:
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest is not None
    assert newest[1] == setup["metadata"]["version"]


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page != OTHERS], ids=lambda page: str(page.relative_to(ROOT))
)
def test_named_files_exist(page: Path) -> None:
    named = set(FILE.findall(page.read_text())) - EXAMPLES
    assert [name for name in sorted(named) if not any((base / name).exists() for base in (ROOT, ROOT / "minova"))] == []
