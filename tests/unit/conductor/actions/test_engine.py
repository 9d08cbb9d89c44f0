"""The engine of server actions names no kind, and each room calls a family by the same name."""

import ast
from pathlib import Path

import pytest

import minova
from minova.conductor.actions import engine
from minova.objects.actions.action import ServerAction
from minova.objects.actions.table import BY_KIND, FAMILIES

ENGINE = Path(str(engine.__file__)).parent
# The modules of each room, except for what serves all families.
ROOMS = {
    "objects/actions": {"action", "guest_changes", "host_arguments", "power_rules", "table", "transitions"},
    "conductor/actions/kinds": set[str](),
    "compute/actions": {"action_run", "image_fetch", "operations", "reporter", "results", "runner"},
    "api/compute/servers/actions": {"completion", "dispatch", "evacuate"},
    "cli/commands/server/actions": {"action", "evacuate"},
}
FAMILY_NAMES = {family.__name__.rpartition(".")[2] for family in FAMILIES}
ACTION_NAMES = {name for family in FAMILIES for name, value in vars(family).items() if isinstance(value, ServerAction)}


def test_every_action_stands_in_the_module_of_one_family() -> None:
    assert len(ACTION_NAMES) == len(BY_KIND) == sum(len(family.ACTIONS) for family in FAMILIES)


@pytest.mark.parametrize("path", sorted(ENGINE.glob("*.py")), ids=lambda path: path.name)
def test_engine_names_no_kind(path: Path) -> None:
    tree = ast.parse(path.read_text())
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    names |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    modules = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert not names & ACTION_NAMES
    assert not texts & BY_KIND.keys()
    assert not modules & {family.__name__ for family in FAMILIES}


@pytest.mark.parametrize("room", ROOMS)
def test_rooms_call_families_by_the_same_names(room: str) -> None:
    """A family that needs nothing of its own in a room has no module there."""
    modules = {path.stem for path in (Path(minova.__file__).parent / room).glob("*.py")} - {"__init__"}
    assert modules - FAMILY_NAMES == ROOMS[room]
    assert room != "objects/actions" or modules >= FAMILY_NAMES
