"""What docs/security.md says cannot be here because the API does not serve it: guests that leave their host while they run.

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
# By the names of Nova's API: OSSN-0007 and OSSN-0089.
NOT_SERVED = {
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


def test_a_disk_is_resized_only_as_the_format_that_is_recorded_of_it() -> None:
    """CVE-2026-24708: without a format, qemu-img believes a header that the guest has written."""
    commands = [
        [ast.unparse(part) for part in node.elts]
        for path in VIRT.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.List) and "'resize'" in [ast.unparse(part) for part in node.elts]
    ]
    assert commands
    # An encrypted disk is opened by a description, which names its format.
    plain = [command for command in commands if "*key.opening(written)" not in command]
    assert plain != commands
    assert [command for command in plain if "'-f'" not in command] == []
