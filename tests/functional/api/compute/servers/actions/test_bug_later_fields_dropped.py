"""Fields of later microversions were dropped: `migrate` before 2.56 and `unshelve` before 2.77 sent a server to another host than the request
named. Each action refuses such a field by its name.
"""

from typing import Any

import pytest

from minova.api.compute.servers.actions import evacuate, moves, rebuild, shelving
from minova.api.compute.servers.attributes import locks
from minova.api.http.microversions import ADDED
from tests.functional.api.conftest import Cloud, at

HISTORIES = {
    "lock": locks.BODY_HISTORY,
    "migrate": moves.BODY_HISTORY,
    "os-migrateLive": moves.LIVE_HISTORY,
    "unshelve": shelving.BODY_HISTORY,
    "evacuate": evacuate.BODY_HISTORY,
}
# The other fields that the action requires in the versions before.
REQUIRED: dict[str, dict[str, Any]] = {
    "os-migrateLive": {"host": None, "block_migration": False},
    "rebuild": {"imageRef": "70a599e0-31e7-49b7-b260-868f441e862b"},
}
VALUES: dict[str, Any] = {"force": True}


def later() -> list[tuple[str, str, str]]:
    """Returns each action with a field and the last version that lacks it."""
    later_fields = [
        (action, name, change.version)
        for action, history in HISTORIES.items()
        for change in history.changes
        for name in change.names
        if change.kind == ADDED
    ]
    later_fields += [("rebuild", name, (2, int(since.partition(".")[2]))) for name, since in rebuild.SINCE.items()]
    return [(action, name, f"{major}.{minor - 1}") for action, name, (major, minor) in later_fields]


@pytest.mark.parametrize(("action", "name", "version"), later())
def test_a_field_of_a_later_version_is_refused_by_name(stocked: Cloud, action: str, name: str, version: str) -> None:
    uuid = stocked.make_server("web")["id"]
    body = {action: {**REQUIRED.get(action, {}), name: VALUES.get(name, "h1")}}
    status, answer = stocked.ask("POST", f"/v2.1/servers/{uuid}/action", body, **at(version))
    assert status == 400, answer
    assert name in answer["badRequest"]["message"]
    assert stocked.conductor.actions == []
