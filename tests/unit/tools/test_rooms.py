"""The picture of the rooms in docs/architecture.md shows what the imports are, and the rooms are built as it says."""

import subprocess
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
PROGRAM = ROOT / "tools" / "rooms"
# A package has so many entries at most; these are flat lists of one kind of thing, which are not read from end to end.
MAX_ENTRIES = 15
LISTS = {
    "minova",
    "minova/conf",
    "minova/db/models",
    "minova/hardware",
    "minova/objects",
    "minova/scheduler/filters",
}


@pytest.fixture(scope="module")
def rooms() -> Any:
    loader = SourceFileLoader("rooms", str(PROGRAM))
    spec = spec_from_loader("rooms", loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


def test_the_picture_is_current() -> None:
    done = subprocess.run([sys.executable, PROGRAM, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, f"run tools/rooms: {done.stderr}"


def test_a_room_stands_above_what_it_imports(rooms: Any) -> None:
    assert rooms.floors({"top": {"middle", "bottom"}, "middle": {"bottom"}, "bottom": set()}) == {
        "top": 2,
        "middle": 1,
        "bottom": 0,
    }


def test_a_circle_is_an_error(rooms: Any) -> None:
    with pytest.raises(rooms.Circle, match="a -> b -> a"):
        rooms.floors({"a": {"b"}, "b": {"a"}})


def test_another_import_changes_the_picture(rooms: Any) -> None:
    before = rooms.drawing("minova", {"a": set(), "b": {"a"}, "c": set()})
    assert before == ["minova", "   1  b -> a", "   0  a", "      c"]
    assert rooms.drawing("minova", {"a": set(), "b": {"a"}, "c": {"a"}}) != before


def test_packages_stay_small() -> None:
    sizes = {
        str(package.parent.relative_to(ROOT)): len(
            [entry for entry in package.parent.iterdir() if entry.suffix == ".py" or (entry / "__init__.py").exists()]
        )
        for package in (ROOT / "minova").rglob("__init__.py")
    }
    assert {name: size - 1 for name, size in sizes.items() if size - 1 > MAX_ENTRIES and name not in LISTS} == {}
