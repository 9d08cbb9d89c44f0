"""A driver raised the error by which a conductor ends an attempt, when another host had the disks. Hosts report nothing after that error:
the guest was off already, and its move, shelve or evacuation was asked for again and again, without an end.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import minova
from minova import errors
from minova.objects.servers.failures import TEXTS, kind_of

ROOT = Path(minova.__file__).parent / "virt"
# A host that meets one of these in its work reports nothing.
OF_A_CONDUCTOR = {
    name for name, error in vars(errors).items() if isinstance(error, type) and issubclass(error, errors.StaleAttempt)
}


def raised(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Raise) and node.exc is not None:
            yield ast.unparse(node.exc).partition("(")[0].rpartition(".")[2]


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT)))
def test_no_driver_speaks_for_a_conductor(path: Path) -> None:
    assert OF_A_CONDUCTOR.isdisjoint(raised(path.read_text()))


@pytest.mark.parametrize("error", [errors.DisksOfAnotherHost("x"), errors.GuestIsNewer("x")])
def test_what_drivers_raise_instead_is_reported(error: errors.MinovaError) -> None:
    assert not isinstance(error, errors.Conflict)
    assert kind_of(error) in TEXTS
