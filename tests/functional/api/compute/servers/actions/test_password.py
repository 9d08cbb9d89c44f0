"""`changePassword`: answered when its host has ended it, in Nova's words."""

import pytest

from minova import errors
from minova.api.compute.servers.actions import password as passwords
from tests.functional.api.conftest import Cloud

BODY = {"changePassword": {"adminPass": "s3cr3t"}}


def test_a_password_is_handed_on_and_the_request_waits_for_its_end(stocked: Cloud) -> None:
    server = stocked.make_server()["id"]
    assert stocked.ask("POST", f"/v2.1/servers/{server}/action", BODY) == (202, None)
    assert stocked.conductor.actions == [(server, "change_password", {"admin_password": "s3cr3t"})]


@pytest.mark.parametrize(
    ("kind", "status", "text"),
    [
        ("GuestAgentNotEnabled", 409, "QEMU guest agent is not enabled"),
        ("GuestAgentUnresponsive", 501, "Unable to set password on instance"),
        ("GuestNotRunning", 409, "Failed to set admin password on {0} because instance {0} is not running"),
        ("HypervisorUnavailable", 409, "Failed to set admin password on {0} because error setting admin password"),
        ("HostTooSlow", 409, "Failed to set admin password on {0} because error setting admin password"),
    ],
)
def test_each_failure_is_answered_as_nova_does(stocked: Cloud, kind: str, status: int, text: str) -> None:
    server = stocked.make_server()["id"]
    stocked.conductor.host_failure = kind
    answered, document = stocked.ask("POST", f"/v2.1/servers/{server}/action", BODY)
    (fault,) = document.values()
    assert (answered, fault["message"]) == (status, text.format(server))


def test_refusal_of_the_agent_is_answered_with_its_reason(stocked: Cloud) -> None:
    server = stocked.make_server()["id"]
    stocked.conductor.host_failure = "GuestAgentRefused"
    status, document = stocked.ask("POST", f"/v2.1/servers/{server}/action", BODY)
    text = f"Failed to set admin password on {server} because error setting admin password. why"
    assert (status, document["conflictingRequest"]["message"]) == (409, text)


@pytest.mark.parametrize(
    "body", [None, {}, {"adminPass": 5}, {"adminPass": None}, {"adminPass": "x", "user": "y"}, "x"]
)
def test_a_password_that_is_none_is_a_bad_request(stocked: Cloud, body: object) -> None:
    server = stocked.make_server()["id"]
    status, document = stocked.ask("POST", f"/v2.1/servers/{server}/action", {"changePassword": body})
    assert (status, stocked.conductor.actions) == (400, [])
    assert "changePassword" in document["badRequest"]["message"]


def test_a_refused_change_is_a_conflict_at_once(stocked: Cloud) -> None:
    server = stocked.make_server()["id"]

    def refuse(method: str) -> None:
        raise errors.Conflict("Cannot 'changePassword' instance x while it is in vm_state stopped")

    stocked.conductor.before = refuse
    status, document = stocked.ask("POST", f"/v2.1/servers/{server}/action", BODY)
    assert (status, "vm_state stopped" in document["conflictingRequest"]["message"]) == (409, True)


def test_a_host_that_never_answers_is_not_waited_for_without_end(
    stocked: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = stocked.make_server()["id"]
    monkeypatch.setattr(stocked.conductor, "_end_action", lambda *words: None)
    monkeypatch.setattr(passwords, "SECRET_TIMEOUT", 0.1)
    monkeypatch.setattr(passwords, "MARGIN", 0.1)
    status, document = stocked.ask("POST", f"/v2.1/servers/{server}/action", BODY)
    text = f"Failed to set admin password on {server} because its host has not answered in time"
    assert (status, document["conflictingRequest"]["message"]) == (409, text)
