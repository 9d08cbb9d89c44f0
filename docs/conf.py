"""Configuration of Sphinx: `tox -e docs` builds these pages and the API reference, and treats warnings as errors."""

import ast
import importlib
import sys
from importlib import metadata
from pathlib import Path

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS))

project = "minova"
author = "The minova developers"
release = metadata.version("minova")
extensions = ["myst_parser", "sphinx.ext.apidoc", "sphinx.ext.autodoc", "minova_pages"]

html_theme = "alabaster"
html_theme_options = {"description": "A small, faithful OpenStack Nova", "page_width": "1200px", "fixed_sidebar": True}
html_sidebars = {"**": ["about.html", "searchfield.html", "navigation.html"]}
html_show_sourcelink = False

# Headings get the anchors that Git hosts give them, so that a link works in both places.
myst_heading_anchors = 4

# One page for each package, made from the tree as it is at each build. Private modules and members are left out.
apidoc_modules = [
    {
        "path": str(DOCS.parent / "minova"),
        "destination": "reference/api",
        "module_first": True,
        "automodule_options": {"members", "show-inheritance"},
    }
]
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
# The docstrings of libraries' base classes refer to pages of those libraries.
autodoc_inherit_docstrings = False
# An annotation such as `type` that names a builtin and an attribute of several classes: the link is left out.
suppress_warnings = ["ref.python"]


def setup(app: object) -> None:
    """Give modules what they import for type checkers alone: annotations of their classes name it."""
    root = DOCS.parent
    for path in sorted((root / "minova").rglob("*.py")):
        source = path.read_text()
        if "if TYPE_CHECKING:" not in source:
            continue
        module = importlib.import_module(".".join(path.relative_to(root).with_suffix("").parts))
        for node in ast.parse(source).body:
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
                exec(compile(ast.Module(node.body, []), path, "exec"), vars(module))
