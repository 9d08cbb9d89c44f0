"""Tests read no private attributes of another module: they go through what the module offers.

private_attributes.txt lists the files that still do, with their most reads. A number there may only fall, and no file may be added.
"""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("unit", "functional", "integration", "security", "faults", "operators", "fakes")
FILES = sorted(file for room in ROOMS for file in (ROOT / "tests" / room).rglob("*.py"))
LISTED = (Path(__file__).parent / "private_attributes.txt").read_text().splitlines()
LEFT = {name: int(number) for number, name in (line.split() for line in LISTED)}
# Of the standard library, in spite of the name.
PUBLIC = {"_asdict", "_exit", "_fields", "_make", "_replace"}


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in {"_", *PUBLIC}


def private_reads(tree: ast.Module) -> list[str]:
    """Attributes of other objects, and imported names. Names that the file itself defines do not count."""
    own = {
        node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    }
    own |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)}
    own |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    reads = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and is_private(node.attr) and node.attr not in own:
            if not (isinstance(node.value, ast.Name) and node.value.id in {"self", "cls"}):
                reads.append(node.attr)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("minova"):
            reads += [alias.name for alias in node.names if is_private(alias.name)]
    return reads


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_tests_read_no_private_attributes(file: Path) -> None:
    reads = private_reads(ast.parse(file.read_text()))
    assert len(reads) <= LEFT.get(str(file.relative_to(ROOT / "tests")), 0), reads
