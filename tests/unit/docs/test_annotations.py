"""The documentation shows annotations that name what only type checkers import: docs/conf.py imports it for them."""

import importlib
import inspect
import runpy
import typing
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_annotations_of_classes_can_be_shown() -> None:
    runpy.run_path(str(ROOT / "docs/conf.py"))["setup"](None)
    names = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for path in (ROOT / "minova").rglob("*.py")
        if "if TYPE_CHECKING:" in path.read_text()
    ]
    shown = [
        typing.get_type_hints(value)
        for module in map(importlib.import_module, names)
        for value in vars(module).values()
        if inspect.isclass(value) and value.__module__ == module.__name__
    ]
    assert any("neutron" in hints for hints in shown)
