"""What users change of a server: name, addresses, metadata, lock; and what was asked of it."""

from typing import Any

import pytest

from tests.functional.api.conftest import ALL_FIELDS, Cloud

MISSING = "4a4a4a4a-4a4a-4a4a-4a4a-4a4a4a4a4a4a"
# The fields of an answer to an update at 2.1, by Nova's schema.
UPDATED = {
    "id", "name", "links", "status", "tenant_id", "user_id", "metadata", "hostId", "image", "flavor", "created", "updated",
    "addresses", "accessIPv4", "accessIPv6", "OS-DCF:diskConfig", "progress",
}  # fmt: skip


@pytest.fixture
def server(stocked: Cloud) -> str:
    """The path of an active one."""
    server_id = stocked.make_server("old", metadata={"a": "1"})["id"]
    stocked.conductor.edit(server_id, vm_state="active", task_state=None, host="h1", node="h1")
    return f"/v2.1/servers/{server_id}"


def test_a_server_is_renamed_and_gets_addresses(stocked: Cloud, server: str) -> None:
    body = {"server": {"name": "new", "accessIPv4": "10.0.0.7", "accessIPv6": "FE80::1"}}
    status, answer = stocked.ask("PUT", server, body)
    shown = stocked.get(server)["server"]
    assert (status, {*answer["server"]}) == (200, UPDATED)
    for server_view in (answer["server"], shown):
        assert (server_view["name"], server_view["accessIPv4"], server_view["accessIPv6"]) == (
            "new",
            "10.0.0.7",
            "fe80::1",
        )
    assert [server["name"] for server in stocked.get("/v2.1/servers?access_ip_v4=^10[.]")["servers"]] == ["new"]
    assert stocked.get("/v2.1/servers?access_ip_v4=^11[.]")["servers"] == []
    assert stocked.ask("PUT", server, {"server": {"accessIPv4": ""}})[1]["server"]["accessIPv4"] == ""


def test_a_new_server_has_the_addresses_that_it_was_asked_for_with(stocked: Cloud) -> None:
    server_id = stocked.make_server("x", accessIPv4="10.0.0.7", accessIPv6="FE80::1")["id"]
    shown = stocked.get(f"/v2.1/servers/{server_id}")["server"]
    assert (shown["accessIPv4"], shown["accessIPv6"]) == ("10.0.0.7", "fe80::1")


@pytest.mark.parametrize("wrong", ["", None, "fe80::1", "10.0.0", "10.0.0.1%eth0"])
def test_a_new_server_with_a_wrong_address_is_refused(stocked: Cloud, wrong: str | None) -> None:
    body = {"server": {**stocked.server, "accessIPv4": wrong}}
    status, answer = stocked.ask("POST", "/v2.1/servers", body)
    assert (status, "accessIPv4" in answer["badRequest"]["message"]) == (400, True)
    assert stocked.get("/v2.1/servers")["servers"] == []


@pytest.mark.parametrize(
    "changes",
    [
        {"name": ""},
        {"name": " x"},
        {"name": "x" * 256},
        {"name": None},
        {"accessIPv4": "fe80::1"},
        {"accessIPv4": "10.0.0"},
        {"accessIPv6": "10.0.0.1"},
        {"accessIPv6": "fe80::1%eth0"},
        {"OS-DCF:diskConfig": "auto"},
        {"description": "since 2.19"},
        {"status": "ACTIVE"},
    ],
)
def test_an_update_that_cannot_be_is_refused(stocked: Cloud, server: str, changes: dict[str, Any]) -> None:
    before = stocked.get(server)
    assert stocked.ask("PUT", server, {"server": changes})[0] == 400
    assert stocked.get(server) == before


def test_items_of_metadata(stocked: Cloud, server: str) -> None:
    path = f"{server}/metadata"
    assert stocked.get(path) == {"metadata": {"a": "1"}}
    assert stocked.ask("POST", path, {"metadata": {"b": "2"}}) == (200, {"metadata": {"a": "1", "b": "2"}})
    assert stocked.get(f"{path}/b") == {"meta": {"b": "2"}}
    assert stocked.ask("PUT", f"{path}/b", {"meta": {"b": "3"}}) == (200, {"meta": {"b": "3"}})
    assert stocked.ask("DELETE", f"{path}/a") == (204, None)
    assert stocked.get(path) == {"metadata": {"b": "3"}}
    assert stocked.ask("PUT", path, {"metadata": {"c": "4"}}) == (200, {"metadata": {"c": "4"}})
    assert stocked.get(server)["server"]["metadata"] == {"c": "4"}


@pytest.mark.parametrize(
    ("method", "key", "body", "status"),
    [
        ("GET", "/b", None, 404),
        ("DELETE", "/b", None, 404),
        ("PUT", "/b", {"meta": {"a": "1"}}, 400),
        ("PUT", "/b", {"meta": {"b": "1", "c": "2"}}, 400),
        ("PUT", "/b", {"meta": {"b": None}}, 400),
        ("POST", "", {"metadata": {"b": 1}}, 400),
        ("POST", "", {"metadata": {"b/c": "1"}}, 400),
        ("POST", "", {"metadata": {"b": "x" * 256}}, 400),
        ("POST", "", {"meta": {"b": "1"}}, 400),
        ("PUT", "", {"metadata": {str(number): "" for number in range(129)}}, 403),
    ],
)
def test_items_that_cannot_be(stocked: Cloud, server: str, method: str, key: str, body: Any, status: int) -> None:
    assert stocked.ask(method, f"{server}/metadata{key}", body)[0] == status
    assert stocked.get(f"{server}/metadata") == {"metadata": {"a": "1"}}


def test_a_lock_holds_back_its_owner(stocked: Cloud) -> None:
    alice = {"headers": {"X-Auth-Token": "alice:alice"}}
    server_id = stocked.make_server("mine", headers=alice["headers"])["id"]
    stocked.conductor.edit(server_id, vm_state="active", task_state=None, host="h1")
    path = f"/v2.1/servers/{server_id}"
    for key in ("lock", "unlock"):
        assert stocked.ask("POST", f"{path}/action", {key: None}, **alice) == (202, None)
    stocked.ask("POST", f"{path}/action", {"lock": None})
    assert stocked.get("/v2.1/servers?locked_by=owner|admin&all_tenants=1")["servers"][0]["id"] == server_id


def test_states_are_reset_to_active_or_error(stocked: Cloud, server: str) -> None:
    stocked.conductor.edit(server.rpartition("/")[2], task_state=None)
    assert stocked.ask("POST", f"{server}/action", {"os-resetState": {"state": "error"}}) == (202, None)
    assert stocked.get(server)["server"]["status"] == "ERROR"
    for body in ({"state": "paused"}, {}, None, {"state": "error", "why": "x"}):
        assert stocked.ask("POST", f"{server}/action", {"os-resetState": body})[0] == 400


def test_what_was_asked_of_a_server_is_listed(stocked: Cloud, server: str) -> None:
    stocked.ask("POST", f"{server}/action", {"lock": None})
    lock, create = stocked.get(f"{server}/os-instance-actions")["instanceActions"]
    assert {*lock} == {"action", "instance_uuid", "request_id", "user_id", "project_id", "start_time", "message"}
    assert (lock["action"], lock["user_id"], lock["message"]) == ("lock", "admin", None)
    assert create["action"] == "create"
    shown = stocked.get(f"{server}/os-instance-actions/{lock['request_id']}")["instanceAction"]
    assert shown == {**lock, "events": []}
    everything = stocked.get(f"{server}/os-instance-actions", **ALL_FIELDS)["instanceActions"][0]
    assert (everything["result"], {*everything} - {*lock}) == ("Success", {"finish_time", "result", "updated_at"})
    assert stocked.ask("GET", f"{server}/os-instance-actions/req-unknown")[0] == 404


def test_a_server_has_no_addresses_and_no_password_yet(stocked: Cloud, server: str) -> None:
    assert stocked.get(f"{server}/ips") == {"addresses": {}}
    assert stocked.ask("GET", f"{server}/ips/private")[0] == 404
    assert stocked.get(f"{server}/os-server-password") == {"password": ""}
    assert stocked.ask("DELETE", f"{server}/os-server-password") == (204, None)


@pytest.mark.parametrize("path", ["", "/metadata", "/os-instance-actions", "/ips", "/os-server-password"])
def test_nothing_is_told_of_a_server_that_there_is_not(stocked: Cloud, path: str) -> None:
    assert stocked.ask("GET", f"/v2.1/servers/{MISSING}{path}")[0] == 404
