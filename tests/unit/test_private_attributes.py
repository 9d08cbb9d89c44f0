"""Tests use no private attributes of another module: they go through what the module offers.

private_attributes.txt lists the files that still do, with their most uses. A number there may only fall, and no file may be added.
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


def private_uses(tree: ast.Module) -> list[str]:
    """Attributes of other objects that are read, set or replaced, and imported names. Names that the file itself defines do not count."""
    own = {
        node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    }
    own |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    own |= {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and is_own(node.value)
    }
    uses = []
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=value, attr=name) if name not in own and not is_own(value):
                uses.append(name)
            # setattr and getattr, those of monkeypatch too, and patch.object.
            case ast.Call(
                func=ast.Name(id=function) | ast.Attribute(attr=function), args=[_, ast.Constant(value=str(name)), *_]
            ) if function in {"setattr", "getattr", "delattr", "object"}:
                uses.append(name)
            case ast.ImportFrom(module=module, names=names) if (module or "").startswith("minova"):
                uses += [alias.name for alias in names]
    return [name for name in uses if is_private(name)]


def is_own(value: ast.expr) -> bool:
    return isinstance(value, ast.Name) and value.id in {"self", "cls"}


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_tests_use_no_private_attributes(file: Path) -> None:
    uses = private_uses(ast.parse(file.read_text()))
    assert len(uses) <= LEFT.get(str(file.relative_to(ROOT / "tests")), 0), uses
