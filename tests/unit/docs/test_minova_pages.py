"""How Markdown and docstrings become pages of the documentation."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def pages() -> ModuleType:
    """`docs/minova_pages.py`, which no package holds."""
    spec = importlib.util.spec_from_file_location("minova_pages", ROOT / "docs" / "minova_pages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("see [install](install.md)", "see [install](../operators/install.md)"),
        ("see [install](install.md#ports)", "see [install](../operators/install.md#ports)"),
        ("[RFC](https://example.org/rfc.md)", "[RFC](https://example.org/rfc.md)"),
        ("[here](#ports)", "[here](#ports)"),
        ("[the code](../../minova/service.py)", "the code"),
        ("[placement](../../minova/placement/README.md)", "[placement](../reference/packages/minova.placement.md)"),
        ("[a `[list]`](install.md)", "[a `[list]`](../operators/install.md)"),
    ],
)
def test_links_lead_from_the_page_or_become_text(pages: ModuleType, text: str, expected: str) -> None:
    assert pages.relink(text, pages.DOCS / "operators", pages.DOCS / "developers") == expected


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["One of `conf`: 2 * 3 | 4."], [r"One of ``conf``: 2 \* 3 \| 4.", ""]),
        (["`name`s"], ["``name``\\ s", ""]),
        (["a::b"], ["a:\\:b", ""]),
        (["Text,", "more.", "", "Next."], ["Text,", "more.", "", "Next.", ""]),
        (["- one", "  two", "- three"], ["- one", "  two", "", "- three", ""]),
        (["  A --> B", "      C"], ["::", "", "      A --> B", "          C", ""]),
        ([], []),
    ],
)
def test_docstrings_become_restructured_text(pages: ModuleType, lines: list[str], expected: list[str]) -> None:
    assert pages.as_rst(lines) == expected


def test_a_docstring_is_replaced_in_place(pages: ModuleType) -> None:
    lines = ["`conf` is", "read."]
    pages.read_docstring(None, "module", "minova", None, None, lines)
    assert lines == ["``conf`` is", "read.", ""]


def test_each_readme_of_a_package_has_a_page(
    pages: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = tmp_path / "api"
    api.mkdir()
    for name in ("minova.placement", "minova.gone"):
        (api / f"{name}.rst").touch()
    monkeypatch.setattr(pages, "PACKAGES", tmp_path / "packages")
    monkeypatch.setattr(pages, "API", api)
    pages.make_package_pages(None)
    readmes = {pages.package(readme) for readme in (ROOT / "minova").rglob("README.md")}
    assert {page.stem for page in (tmp_path / "packages").iterdir()} == readmes
    assert [page.stem for page in api.iterdir()] == ["minova.placement"]
