"""`evacuate`: what each microversion takes, what the conductor gets and what is answered."""

from typing import Any

import msgspec
import pytest

from minova.objects.requests.diagnosis import Diagnosis, ScheduleAnswer
from minova.objects.requests.evacuation import EvacuationRequest
from minova.objects.requests.request_spec import Selection
from tests.functional.api.compute.test_aggregates import add_host
from tests.functional.api.conftest import Cloud, at


class Server:
    def __init__(self, cloud: Cloud) -> None:
        self.cloud = cloud
        self.uuid = cloud.make_server("web")["id"]
        cloud.conductor.edit(self.uuid, vm_state="active", task_state=None, host="dead")
        add_host(cloud, "h1")

    def evacuate(self, body: Any, version: str, path: str = "action") -> tuple[int, Any]:
        return self.cloud.ask("POST", f"/v2.1/servers/{self.uuid}/{path}", {"evacuate": body}, **at(version))

    @property
    def sent(self) -> EvacuationRequest:
        ((uuid, request),) = self.cloud.conductor.evacuated
        assert uuid == self.uuid
        return request


@pytest.mark.parametrize(
    ("version", "body", "sent"),
    [
        ("2.1", {"onSharedStorage": "False"}, {"shared_disks": False}),
        ("2.13", {"onSharedStorage": True}, {"shared_disks": True}),
        ("2.1", {"onSharedStorage": False, "host": "h1"}, {"shared_disks": False, "host": "h1", "force": True}),
        ("2.14", {}, {}),
        ("2.28", {"host": "h1"}, {"host": "h1", "force": True}),
        ("2.29", {"host": "h1"}, {"host": "h1"}),
        ("2.67", {"host": "h1", "force": "true"}, {"host": "h1", "force": True}),
        ("2.68", {"host": "h1"}, {"host": "h1"}),
        ("2.94", {}, {}),
        ("2.95", {}, {"stops": True}),
    ],
)
def test_each_version_says_where_the_server_goes(
    stocked: Cloud, version: str, body: dict[str, Any], sent: dict[str, Any]
) -> None:
    server = Server(stocked)
    status, answer = server.evacuate(body, version)
    assert status == 200, answer
    request = server.sent
    assert (request.admin_password is None) == (sent.get("shared_disks") is True)
    assert msgspec.structs.replace(request, admin_password=None) == EvacuationRequest(**sent)
    shown = {"adminPass": request.admin_password} if version in {"2.1", "2.13"} else None
    assert answer == shown


def test_a_password_of_the_request_is_passed_on(stocked: Cloud) -> None:
    server = Server(stocked)
    assert server.evacuate({"adminPass": "secret"}, "2.104") == (200, None)
    assert server.sent.admin_password == "secret"


@pytest.mark.parametrize(
    ("version", "body", "status", "text"),
    [
        ("2.1", {}, 400, "'onSharedStorage' is a required property"),
        ("2.1", {"onSharedStorage": True, "adminPass": "p"}, 400, "can't be changed on existing disk"),
        ("2.14", {"onSharedStorage": True}, 400, "'onSharedStorage' was unexpected"),
        ("2.28", {"force": True}, 400, "'force' was unexpected"),
        ("2.29", {"force": True}, 400, "Can't force to a non-provided destination"),
        ("2.29", {"force": "maybe", "host": "h1"}, 400, "Invalid input for evacuate"),
        ("2.68", {"force": True, "host": "h1"}, 400, "'force' was unexpected"),
        ("2.104", {"host": ""}, 400, "Invalid input for evacuate"),
        ("2.104", {"host": None}, 400, "Invalid input for evacuate"),
        ("2.104", {"whatever": 1}, 400, "Invalid input for evacuate"),
        ("2.104", "h1", 400, "Invalid input for evacuate"),
        ("2.104", {"host": "nowhere"}, 404, "Compute host nowhere not found."),
    ],
)
@pytest.mark.parametrize("path", ["action", "action/dry-run"])
def test_what_is_refused(stocked: Cloud, version: str, body: Any, status: int, text: str, path: str) -> None:
    server = Server(stocked)
    got, answer = server.evacuate(body, version, path)
    (fault,) = answer.values()
    assert (got, text in fault["message"]) == (status, True), answer
    assert stocked.conductor.evacuated == []


def test_a_dry_run_says_where_the_server_would_go(stocked: Cloud) -> None:
    server = Server(stocked)
    answer = server.evacuate({}, "2.104", "action/dry-run")[1]["dry_run"]
    assert (answer["fits"], answer["count"]) == (False, 1)
    assert "No valid host" in answer["reason"]
    chosen = Selection(host="h1", node="n1", provider_uuid="p", allocation={})
    diagnosis = Diagnosis(request_id="req-1", instance_uuids=(server.uuid,), hosts=1)
    stocked.conductor.preview = ScheduleAnswer(selections=((chosen,),), diagnosis=diagnosis)
    answer = server.evacuate({}, "2.104", "action/dry-run")[1]["dry_run"]
    assert (answer["fits"], answer["reason"]) == (True, None)


def test_only_actions_that_move_a_server_have_a_dry_run(stocked: Cloud) -> None:
    server = Server(stocked)
    path = f"/v2.1/servers/{server.uuid}/action/dry-run"
    bodies: tuple[dict[str, Any], ...] = ({"os-stop": None}, {}, {"evacuate": {}, "os-stop": None})
    for body in bodies:
        assert stocked.ask("POST", path, body, **at("2.104"))[0] == 400
