"""What Sphinx needs beside its own extensions to build minova's pages.

- Links to files outside `docs/` (code, tests) work on a Git host. The built pages show their text, because the files are
  not part of them. `tests/unit/docs/test_documents.py` checks that the files exist.
- The README of each package becomes a page of the reference.
- Docstrings are plain text: paragraphs, lists, `code` and indented drawings. They become reStructuredText here, so that a
  `*` or a `|` in a sentence is no markup.
"""

import os
import re
import shutil
from pathlib import Path

from sphinx.application import Sphinx

DOCS = Path(__file__).parent
ROOT = DOCS.parent
API = DOCS / "reference" / "api"
PACKAGES = DOCS / "reference" / "packages"

LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
CODE = re.compile(r"(`+)([^`]+)\1")
MARKUP = re.compile(r"([\\*|`_])")
# A drawing or a table, beside what is indented.
DRAWING = re.compile(r"\s|[|+=>^─│┌└├]|:\w+:|\.\. |--")
ITEM = re.compile(r"(?:[-*]|\d+[.)]) ")


def relink(text: str, source: Path, target: Path) -> str:
    """The Markdown of a file in the folder `source`, for a page in the folder `target` of the documentation."""

    def link(match: re.Match[str]) -> str:
        label, address = match.groups()
        path, hash_, anchor = address.partition("#")
        if "://" in address or not path:
            return match[0]
        file = Path(os.path.normpath(source / path))
        page = (
            PACKAGES / f"{package(file)}.md" if file.name == "README.md" and ROOT / "minova" in file.parents else file
        )
        if DOCS not in page.parents or page.suffix != ".md":
            return label
        return f"[{label}]({os.path.relpath(page, target)}{hash_}{anchor})"

    return LINK.sub(link, text)


def package(readme: Path) -> str:
    """`minova.scheduler` for `minova/scheduler/README.md`."""
    return ".".join(readme.parent.relative_to(ROOT).parts)


def make_package_pages(app: Sphinx) -> None:
    """Write a page for the README of each package, and drop the pages of modules that have gone."""
    del app
    shutil.rmtree(PACKAGES, ignore_errors=True)
    PACKAGES.mkdir(parents=True)
    for readme in sorted((ROOT / "minova").rglob("README.md")):
        text = relink(readme.read_text(), readme.parent, PACKAGES)
        (PACKAGES / f"{package(readme)}.md").write_text(text)
    for page in API.glob("minova*.rst"):
        if not (ROOT / page.stem.replace(".", "/")).is_dir():
            page.unlink()


def read_page(app: Sphinx, name: str, source: list[str]) -> None:
    """Turn links to files outside the documentation into their text."""
    page = Path(app.env.doc2path(name))
    if page.suffix == ".md" and PACKAGES not in page.parents:
        source[0] = relink(source[0], page.parent, page.parent)


def inline(text: str) -> str:
    """A paragraph of plain text with `code`, as reStructuredText."""
    parts = []
    end = 0
    for match in CODE.finditer(text):
        parts.append(MARKUP.sub(r"\\\1", text[end : match.start()]))
        before = "\\ " if text[: match.start()][-1:].isalnum() else ""
        after = "\\ " if text[match.end() :][:1].isalnum() else ""
        parts.append(f"{before}``{match[2].strip()}``{after}")
        end = match.end()
    parts.append(MARKUP.sub(r"\\\1", text[end:]))
    return "".join(parts).replace("::", ":\\:")


def kind_of(line: str, before: str) -> str:
    """What a line of a docstring is, after a line of the kind `before`."""
    if not line.strip():
        return "drawing" if before == "drawing" else "blank"
    if ITEM.match(line):
        return "item"
    if before == "item" and line.startswith(" "):
        return "continued"
    return "drawing" if DRAWING.match(line) else "text"


def blocks(lines: list[str]) -> list[tuple[str, list[str]]]:
    """The paragraphs, list items and drawings of a docstring."""
    found: list[tuple[str, list[str]]] = []
    before = "blank"
    for line in lines:
        kind = kind_of(line, before)
        if kind == "continued" or (kind == before and kind != "item"):
            found[-1][1].append(line)
        elif kind != "blank" or found:
            found.append((kind, [line]))
        before = found[-1][0] if found else "blank"
    return found


def as_rst(lines: list[str]) -> list[str]:
    """A docstring as reStructuredText: what is indented or drawn is shown as it stands."""
    out: list[str] = []
    for kind, block in blocks(lines):
        if kind == "drawing":
            out += ["::", "", *(f"    {line}" for line in block), ""]
        elif kind == "text":
            out += [*inline("\n".join(line.strip() for line in block)).split("\n"), ""]
        elif kind == "item":
            text = inline(ITEM.sub("", "\n".join(line.strip() for line in block), count=1)).split("\n")
            out += [f"- {text[0]}", *(f"  {line}" for line in text[1:]), ""]
    return out


def read_docstring(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Replace a docstring in place, as Sphinx expects."""
    del app, what, name, obj, options
    lines[:] = as_rst(lines)


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect the above to Sphinx's events."""
    app.connect("builder-inited", make_package_pages, priority=900)
    app.connect("source-read", read_page)
    app.connect("autodoc-process-docstring", read_docstring)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
