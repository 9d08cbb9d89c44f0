"""`resize`, `migrate`, `confirmResize`, `revertResize`: what is taken, what the conductor gets, and every "no"."""

from pathlib import Path
from typing import Any

import bcrypt
import pytest

from tests.functional.api.compute.test_aggregates import add_host
from tests.functional.api.conftest import Cloud, at
from tests.unit.api.access.test_auth import basic


class Server:
    def __init__(self, cloud: Cloud, **more: Any) -> None:
        self.cloud = cloud
        self.uuid = cloud.make_server("web", **more)["id"]
        cloud.conductor.edit(self.uuid, vm_state="active", task_state=None, host="h0")

    def act(self, body: Any, version: str = "2.91", **headers: str) -> tuple[int, Any]:
        sent = at(version)["headers"] | headers
        return self.cloud.ask("POST", f"/v2.1/servers/{self.uuid}/action", body, headers=sent)

    def flavor(self, name: str, **sizes: int) -> str:
        body = {"id": name, "name": name, "vcpus": 4, "ram": 4096, "disk": 40, **sizes}
        status, answer = self.cloud.ask("POST", "/v2.1/flavors", {"flavor": body})
        assert status == 200, answer
        return name

    @property
    def sent(self) -> Any:
        return [(kind, arguments) for _, kind, arguments in self.cloud.conductor.actions]


@pytest.fixture
def server(stocked: Cloud) -> Server:
    return Server(stocked)


def test_a_resize_sends_the_whole_flavor(server: Server) -> None:
    large = server.flavor("large")
    assert server.act({"resize": {"flavorRef": large}}, "2.1") == (202, None)
    ((kind, arguments),) = server.sent
    assert kind == "resize"
    assert arguments["flavor"]["flavorid"] == large
    assert arguments["flavor"]["vcpus"] == 4


@pytest.mark.parametrize(
    "body", [{}, {"flavorRef": ""}, {"flavorRef": "none"}, {"flavorRef": "large", "more": 1}, {"flavorRef": None}, None]
)
def test_a_wrong_flavor_is_a_bad_request(server: Server, body: Any) -> None:
    server.flavor("large")
    assert server.act({"resize": body})[0] == 400
    assert server.sent == []


def test_neither_the_own_flavor_nor_a_smaller_disk_is_a_resize(server: Server) -> None:
    own = server.cloud.ask("GET", f"/v2.1/servers/{server.uuid}", **at("2.1"))[1]["server"]["flavor"]["id"]
    status, answer = server.act({"resize": {"flavorRef": own}})
    assert (status, answer["badRequest"]["message"]) == (400, "When resizing, instances must change flavor!")
    status, answer = server.act({"resize": {"flavorRef": server.flavor("thin", disk=0)}})
    assert status == 400
    assert "smaller" in answer["badRequest"]["message"]
    assert server.sent == []


@pytest.mark.parametrize(
    ("version", "body", "host"),
    [("2.1", None, None), ("2.55", {}, None), ("2.56", None, None), ("2.56", {"host": "h1"}, "h1")],
)
def test_a_migration_names_its_host_from_2_56_on(server: Server, version: str, body: Any, host: str | None) -> None:
    add_host(server.cloud, "h1")
    assert server.act({"migrate": body}, version) == (202, None)
    ((kind, arguments),) = server.sent
    assert (kind, arguments["host"], arguments["flavor"]) == ("migrate", host, None)


@pytest.mark.parametrize("body", [{"host": "nowhere"}, {"host": "h0"}, {"host": 1}, {"hosts": "h1"}, "h1"])
def test_an_unknown_host_or_the_own_one_is_a_bad_request(server: Server, body: Any) -> None:
    add_host(server.cloud, "h0")
    assert server.act({"migrate": body}, "2.56")[0] == 400
    assert server.sent == []


def test_members_resize_and_do_not_migrate(stocked: Cloud, tmp_path: Path) -> None:
    server = Server(stocked, headers={"X-Auth-Token": "alice:alice"})
    large = server.flavor("large")
    users = tmp_path / "htpasswd"
    users.write_text(f"alice:{bcrypt.hashpw(b'secret', bcrypt.gensalt(4)).decode()}\n")
    server.cloud = Cloud(
        tmp_path, auth_strategy="http_basic", http_basic_auth_user_file=str(users), admin_users=["root"]
    )
    alice = {"Authorization": basic(b"alice:secret")}
    try:
        assert server.act({"migrate": None}, **alice)[0] == 403
        assert server.act({"resize": {"flavorRef": large}}, **alice)[0] == 202
        ((kind, arguments),) = server.sent
        assert (kind, arguments["names_hosts"]) == ("resize", False)
    finally:
        server.cloud.close()


def test_a_confirmation_answers_nothing_and_a_revert_is_accepted(server: Server) -> None:
    server.cloud.conductor.edit(server.uuid, vm_state="resized")
    assert server.act({"confirmResize": None}) == (204, None)
    assert server.act({"revertResize": None}) == (202, None)
    assert [kind for kind, _ in server.sent] == ["confirm_resize", "revert_resize"]


LIVE = {"host": None, "block_migration": "auto"}


@pytest.mark.parametrize(
    ("version", "body", "host", "force", "block"),
    [
        ("2.1", {"host": "h1", "block_migration": True, "disk_over_commit": False}, "h1", True, True),
        ("2.24", {"host": None, "block_migration": "false", "disk_over_commit": "no"}, None, False, False),
        ("2.25", LIVE, None, False, None),
        ("2.25", {"host": "h1", "block_migration": False}, "h1", True, False),
        ("2.30", {"host": "h1", "block_migration": "auto"}, "h1", False, None),
        ("2.67", {"host": "h1", "block_migration": "auto", "force": True}, "h1", True, None),
        ("2.68", {"host": "h1", "block_migration": "auto"}, "h1", False, None),
    ],
)
def test_each_version_of_a_live_migration(
    server: Server, version: str, body: Any, host: str | None, force: bool, block: bool | None
) -> None:
    add_host(server.cloud, "h1")
    assert server.act({"os-migrateLive": body}, version) == (202, None)
    ((kind, arguments),) = server.sent
    assert kind == "live_migrate"
    assert (arguments["host"], arguments["force"], arguments["block"]) == (host, force, block)


@pytest.mark.parametrize(
    ("version", "body", "text"),
    [
        ("2.1", {"host": None, "block_migration": False}, "'disk_over_commit' is a required property"),
        ("2.24", LIVE | {"disk_over_commit": False}, "Invalid input for os-migrateLive"),
        ("2.25", LIVE | {"disk_over_commit": False}, "'disk_over_commit' was unexpected"),
        ("2.25", {"block_migration": "auto"}, "host"),
        ("2.25", {"host": None}, "block_migration"),
        ("2.25", {"host": None, "block_migration": "maybe"}, "Invalid input for os-migrateLive"),
        ("2.29", {"host": "h1", "block_migration": "auto", "force": True}, "'force' was unexpected"),
        ("2.30", LIVE | {"force": True}, "Can't force to a non-provided destination"),
        ("2.68", {"host": "h1", "block_migration": "auto", "force": True}, "'force' was unexpected"),
        ("2.91", LIVE | {"host": "nowhere"}, "Compute host nowhere could not be found."),
        ("2.91", LIVE | {"host": "h0"}, "to current host (h0)"),
        ("2.91", LIVE | {"more": 1}, "more"),
    ],
)
def test_wrong_arguments_of_a_live_migration(server: Server, version: str, body: Any, text: str) -> None:
    add_host(server.cloud, "h0")
    add_host(server.cloud, "h1")
    status, answer = server.act({"os-migrateLive": body}, version)
    assert status == 400
    assert text in answer["badRequest"]["message"]
    assert server.sent == []


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({"migrate": None}, "migrate"),
        ({"os-migrateLive": LIVE}, "live_migrate"),
        ({"migrate": {"host": "h1"}}, "migrate"),
    ],
)
def test_a_dry_run_asks_where_a_move_would_go(server: Server, body: Any, kind: str) -> None:
    add_host(server.cloud, "h1")
    path = f"/v2.1/servers/{server.uuid}/action/dry-run"
    status, answer = server.cloud.ask("POST", path, body, headers=at("2.91")["headers"])
    assert status == 200
    assert set(answer["dry_run"]) == {"fits", "count", "reason", "diagnosis"}
    assert [each for each, _ in server.sent] == [kind]
    status, _ = server.cloud.ask("POST", path, {"os-migrateLive": {}}, headers=at("2.91")["headers"])
    assert status == 400
