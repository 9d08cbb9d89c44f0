"""What docs/security.md says cannot be here because it is not served: resize, and guests that leave their host.

A commit that serves one of them fails here first, and then has to close the hole that its row in the table names.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import minova
from minova.contracts.base import methods_of
from minova.contracts.compute import ComputeApi
from minova.objects.actions.table import ACTIONS
from tests.functional.api.conftest import Cloud

VIRT = Path(minova.__file__).parent / "virt"
# By the names of Nova's API: CVE-2026-24708; OSSN-0007 and OSSN-0089.
NOT_SERVED = {
    "resize": {"flavorRef": "1"},
    "migrate": None,
    "os-migrateLive": {"host": None, "block_migration": "auto"},
}


@pytest.fixture
def stocked(tmp_path: Path) -> Iterator[Cloud]:
    cloud = Cloud(tmp_path)
    yield cloud.with_catalogue()
    cloud.close()


def test_api_serves_no_action_of_them(stocked: Cloud) -> None:
    path = f"/v2.1/servers/{stocked.make_server()['id']}/action"
    for action, body in NOT_SERVED.items():
        status, answer = stocked.ask("POST", path, {action: body})
        assert status == 400, (action, answer)


def test_no_host_is_asked_for_one_of_them() -> None:
    words = {name.lower().removeprefix("os-") for name in NOT_SERVED}
    asked = {*methods_of(ComputeApi), *(action.kind for action in ACTIONS)}
    assert asked
    assert [name for name in asked if any(word in name.lower() for word in words)] == []


@pytest.mark.parametrize("word", ["resize", "migrate"])
def test_no_driver_resizes_a_disk_or_moves_a_guest(word: str) -> None:
    """Neither by libvirt nor by a program."""
    names = []
    for path in VIRT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            name = (
                node.attr if isinstance(node, ast.Attribute) else node.value if isinstance(node, ast.Constant) else ""
            )
            if isinstance(name, str) and name.lower().startswith(word):
                names.append(f"{path.name}: {name}")
    assert names == []
