"""Who sees and who uses a network."""

from typing import Any

import pytest

from minova.objects.network.network import Network


@pytest.mark.parametrize(
    ("more", "project_id", "is_admin", "visible", "usable"),
    [
        ({}, "own", False, True, True),
        ({}, "other", False, False, False),
        ({"shared": True}, "other", False, True, True),
        ({"external": True}, "other", False, True, False),
        ({}, "other", True, True, True),
    ],
)
def test_network_is_seen_and_used(
    more: dict[str, Any], project_id: str, is_admin: bool, visible: bool, usable: bool
) -> None:
    network = Network(id="n", project_id="own", **more)
    assert network.visible_to(project_id, is_admin=is_admin) is visible
    assert network.usable_by(project_id, is_admin=is_admin) is usable
