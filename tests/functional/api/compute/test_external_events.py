"""Events of other services: what is answered for each, and what is gone from the API."""

import uuid
from typing import Any

import pytest

from tests.functional.api.conftest import Cloud, at

PATH = "/v2.1/os-server-external-events"


def test_each_event_is_answered(stocked: Cloud) -> None:
    hosted, waiting, unknown = stocked.make_server("a")["id"], stocked.make_server("b")["id"], str(uuid.uuid4())
    stocked.conductor.edit(hosted, host="h1")
    events = [
        {"name": "network-changed", "server_uuid": hosted, "tag": "port"},
        {"name": "network-vif-plugged", "server_uuid": waiting, "status": "failed"},
        {"name": "network-vif-plugged", "server_uuid": unknown},
        {"name": "power-update", "server_uuid": hosted},
    ]
    status, answer = stocked.ask("POST", PATH, {"events": events}, **at("2.76"))
    assert status == 207
    assert [(event["status"], event["code"]) for event in answer["events"]] == [
        ("completed", 200),
        ("failed", 422),
        ("failed", 404),
        ("failed", 400),
    ]
    assert stocked.ask("POST", PATH, {"events": events[:1]}) == (
        200,
        {"events": [{**events[0], "status": "completed", "code": 200}]},
    )


@pytest.mark.parametrize(
    ("event", "version"),
    [
        ({"name": "volume-extended"}, "2.50"),
        ({"name": "power-update"}, "2.75"),
        ({"name": "volume-reimaged"}, "2.92"),
        ({"name": "rain"}, "2.104"),
        ({"name": "network-changed", "status": "perhaps"}, "2.104"),
        ({"name": "network-changed", "server_uuid": "x"}, "2.104"),
        ({"name": "network-changed", "tag": "x" * 256}, "2.104"),
    ],
)
def test_what_is_no_event_is_refused(stocked: Cloud, event: dict[str, Any], version: str) -> None:
    whole = {"server_uuid": str(uuid.uuid4()), **event}
    assert stocked.ask("POST", PATH, {"events": [whole]}, **at(version))[0] == 400
    assert stocked.ask("POST", PATH, {"events": []}, **at(version))[0] == 400


def test_what_nova_has_removed_is_gone(stocked: Cloud) -> None:
    for method, path in (("GET", "/v2.1/os-cells"), ("POST", "/v2.1/os-networks"), ("GET", "/v2.1/os-fixed-ips/1")):
        status, answer = stocked.ask(method, path)
        assert (status, answer["computeFault"]["code"]) == (410, 410)
    server_id = stocked.make_server("a")["id"]
    assert stocked.ask("POST", f"/v2.1/servers/{server_id}/action", {"resetNetwork": None})[0] == 410
