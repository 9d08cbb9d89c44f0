"""`shelve`, `shelveOffload`, `unshelve`: what is taken, what the conductor gets, and every "no"."""

from pathlib import Path
from typing import Any

import bcrypt
import pytest

from tests.functional.api.compute.test_aggregates import add_host, make
from tests.functional.api.conftest import Cloud, at
from tests.unit.api.access.test_auth import basic


class Server:
    def __init__(self, cloud: Cloud, name: str = "web", **more: Any) -> None:
        self.cloud = cloud
        self.uuid = cloud.make_server(name, **more)["id"]
        cloud.conductor.edit(self.uuid, vm_state="shelved_offloaded", task_state=None, host=None)

    def act(self, body: Any, version: str = "2.91", **headers: str) -> tuple[int, Any]:
        sent = at(version)["headers"] | headers
        return self.cloud.ask("POST", f"/v2.1/servers/{self.uuid}/action", body, headers=sent)

    @property
    def sent(self) -> Any:
        return [(kind, arguments) for _, kind, arguments in self.cloud.conductor.actions]


@pytest.mark.parametrize("name", ["web", "n" * 255])
def test_a_shelve_names_its_image_after_the_server(stocked: Cloud, name: str) -> None:
    server = Server(stocked, name)
    for body in (None, {}, {"whatever": 1}):
        assert server.act({"shelve": body}, "2.1") == (202, None)
    images = [arguments["image"] for kind, arguments in server.sent if kind == "shelve"]
    assert {image["name"] for image in images} == {name[:247] + "-shelved"}
    assert len({image["id"] for image in images}) == 3
    assert {image["properties"]["image_type"] for image in images} == {"snapshot"}
    assert {image["properties"]["instance_uuid"] for image in images} == {server.uuid}


def test_an_offload_takes_nothing(stocked: Cloud) -> None:
    server = Server(stocked)
    assert server.act({"shelveOffload": None}) == (202, None)
    assert server.sent == [("shelve_offload", {})]


@pytest.mark.parametrize(
    ("version", "body", "sent"),
    [
        ("2.1", None, {}),
        ("2.76", {}, {}),
        ("2.77", None, {}),
        ("2.77", {"availability_zone": "nova"}, {"availability_zone": "nova"}),
        ("2.91", {"availability_zone": None}, {"availability_zone": None}),
        ("2.91", {"host": "h1"}, {"host": "h1"}),
        ("2.91", {"availability_zone": "nova", "host": "h1"}, {"availability_zone": "nova", "host": "h1"}),
        ("2.91", {"availability_zone": None, "host": "h1"}, {"availability_zone": None, "host": "h1"}),
    ],
)
def test_an_unshelve_names_where_the_server_goes(stocked: Cloud, version: str, body: Any, sent: Any) -> None:
    server = Server(stocked)
    add_host(stocked, "h1")
    assert server.act({"unshelve": body}, version) == (202, None)
    assert server.sent == [("unshelve", sent)]


def test_bug_unshelve_drops_the_host_that_minova_names(stocked: Cloud) -> None:
    """`minova server unshelve --host` sends no microversion, but accepts all fields."""
    server = Server(stocked)
    add_host(stocked, "h1")
    own = {"headers": {"X-Minova-Fields": "all"}}
    for host, status in (("h1", 202), ("nosuch", 400)):
        answer = stocked.ask("POST", f"/v2.1/servers/{server.uuid}/action", {"unshelve": {"host": host}}, **own)
        assert answer[0] == status, answer
    assert server.sent == [("unshelve", {"host": "h1"})]


@pytest.mark.parametrize(
    ("version", "body", "status", "message"),
    [
        ("2.76", {"availability_zone": "nova"}, 400, "'availability_zone' was unexpected"),
        ("2.1", {"host": "nosuch"}, 400, "'host' was unexpected"),
        ("2.77", {}, 400, "must be null, or name"),
        ("2.77", {"host": "h1"}, 400, "'host' was unexpected"),
        ("2.77", {"availability_zone": None}, 400, "before 2.91"),
        ("2.91", {}, 400, "must be null, or name"),
        ("2.91", {"node": "h1"}, 400, "node"),
        ("2.91", {"availability_zone": 5}, 400, "availability_zone"),
        ("2.91", {"availability_zone": ""}, 400, "availability_zone"),
        ("2.91", {"host": None}, 400, "host"),
        ("2.91", [], 400, "unshelve"),
        ("2.91", {"availability_zone": "nowhere"}, 400, "The requested availability zone is not available: nowhere."),
        ("2.91", {"host": "nowhere"}, 400, "Compute host nowhere could not be found."),
        ("2.91", {"host": "h1", "availability_zone": "east"}, 409, "Host 'h1' is not in the availability zone 'east'."),
    ],
)
def test_what_an_unshelve_cannot_take_is_refused(
    stocked: Cloud, version: str, body: Any, status: int, message: str
) -> None:
    server = Server(stocked)
    add_host(stocked, "h1")
    add_host(stocked, "h2")
    make(stocked, "e", "h2", availability_zone="east")
    answered, fault = server.act({"unshelve": body}, version)
    assert (answered, server.sent) == (status, [])
    assert message in next(iter(fault.values()))["message"]


def test_a_host_outside_the_zone_that_the_server_is_pinned_to_is_refused(stocked: Cloud) -> None:
    add_host(stocked, "h1")
    add_host(stocked, "h2")
    make(stocked, "e", "h2", availability_zone="east")
    server = Server(stocked, availability_zone="nova")
    status, fault = server.act({"unshelve": {"host": "h2"}})
    assert (status, fault["conflictingRequest"]["message"]) == (
        409,
        "Host 'h2' is not in the availability zone 'nova'.",
    )
    assert server.act({"unshelve": {"host": "h1"}})[0] == 202
    assert server.act({"unshelve": {"host": "h2", "availability_zone": None}})[0] == 202


def test_only_administrators_name_a_host(stocked: Cloud, tmp_path: Path) -> None:
    server = Server(stocked, headers={"X-Auth-Token": "alice:alice"})
    add_host(stocked, "h1")
    users = tmp_path / "htpasswd"
    users.write_text(f"alice:{bcrypt.hashpw(b'secret', bcrypt.gensalt(4)).decode()}\n")
    server.cloud = Cloud(
        tmp_path, auth_strategy="http_basic", http_basic_auth_user_file=str(users), admin_users=["root"]
    )
    alice = {"Authorization": basic(b"alice:secret")}
    try:
        status, fault = server.act({"unshelve": {"host": "h1"}}, **alice)
        assert (status, "os-shelve:unshelve_to_host" in fault["forbidden"]["message"]) == (403, True)
        assert server.act({"shelveOffload": None}, **alice)[0] == 403
        assert server.act({"unshelve": {"availability_zone": "nova"}}, **alice)[0] == 202
        assert server.sent == [("unshelve", {"availability_zone": "nova"})]
    finally:
        server.cloud.close()
