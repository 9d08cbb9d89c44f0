"""policy.yaml changes what the API permits, and a refusal tells nothing of other projects' resources."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from minova.api.policies import enforcer
from tests.functional.api.conftest import Cloud
from tests.security.identities import login, with_users

SERVERS, GROUPS, IMAGES = "/v2.1/servers", "/v2.1/os-server-groups", "/v2/images"
ROLES = ["alice:acme:member", "carol:acme:member", "rita:acme:reader", "bob:globex:member"]


class Overridden:
    """A cloud whose policy.yaml tests write."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "policy.yaml"
        self.file.write_text("{}\n")
        users = ("admin", "alice", "carol", "rita", "bob")
        self.cloud: Cloud = with_users(folder, users=users, policy_file=str(self.file), user_roles=ROLES)

    def ask(self, user: str, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        return self.cloud.ask(method, path, body, headers=login(user))

    def group(self, user: str) -> str:
        body = {"server_group": {"name": "g", "policies": ["affinity"]}}
        status, created = self.ask(user, "POST", GROUPS, body)
        assert status == 200, created
        server_group_id: str = created["server_group"]["id"]
        return server_group_id

    def server(self, user: str) -> str:
        flavor = {"name": f"f-{user}", "ram": 64, "vcpus": 1, "disk": 1}
        flavor_id = self.ask("admin", "POST", "/v2.1/flavors", {"flavor": flavor})[1]["flavor"]["id"]
        record = {"name": "i", "disk_format": "raw", "container_format": "bare"}
        image_id = self.ask(user, "POST", IMAGES, record)[1]["id"]
        headers = {"Content-Type": "application/octet-stream", **login(user)}
        assert self.cloud.ask("PUT", f"{IMAGES}/{image_id}/file", b"\0" * 512, headers=headers)[0] == 204
        body = {"server": {"name": "vm", "flavorRef": flavor_id, "imageRef": image_id}}
        server_id: str = self.ask(user, "POST", SERVERS, body)[1]["server"]["id"]
        return server_id


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Overridden]:
    monkeypatch.setattr(enforcer, "LOOK_AGAIN", 0.0)
    overridden = Overridden(tmp_path)
    yield overridden
    overridden.cloud.close()


def forbidden(rule: str) -> tuple[int, Any]:
    return 403, {"forbidden": {"code": 403, "message": f"Policy doesn't allow {rule} to be performed."}}


def test_refusal_names_the_policy(site: Overridden) -> None:
    assert site.ask("alice", "GET", "/v2.1/os-services") == forbidden("os_compute_api:os-services:list")
    rule = "os_compute_api:servers:detail:get_all_tenants"
    assert site.ask("alice", "GET", f"{SERVERS}/detail?all_tenants=1") == forbidden(rule)


def test_override_takes_effect_while_the_api_runs(site: Overridden) -> None:
    site.file.write_text('"os_compute_api:os-services:list": "role:reader"\n"os_compute_api:servers:index": "!"\n')
    assert site.ask("alice", "GET", "/v2.1/os-services") == (200, {"services": []})
    assert site.ask("admin", "GET", SERVERS) == forbidden("os_compute_api:servers:index")


def test_policy_of_the_user_holds_within_a_project(site: Overridden) -> None:
    """Nova's documented user-based policy: the target is the resource, and not the caller's own."""
    rule = "os_compute_api:os-server-groups:delete"
    site.file.write_text(f'"{rule}": "user_id:%(user_id)s"\n')
    group = site.group("alice")
    assert site.ask("carol", "DELETE", f"{GROUPS}/{group}") == forbidden(rule)
    assert site.ask("alice", "DELETE", f"{GROUPS}/{group}")[0] == 204


def test_policy_of_the_user_holds_for_servers_and_their_actions(site: Overridden) -> None:
    show, stop = "os_compute_api:servers:show", "os_compute_api:servers:stop"
    server = site.server("alice")
    site.file.write_text(f'"{show}": "user_id:%(user_id)s"\n"{stop}": "user_id:%(user_id)s"\n')
    assert site.ask("carol", "GET", f"{SERVERS}/{server}") == forbidden(show)
    assert site.ask("carol", "POST", f"{SERVERS}/{server}/action", {"os-stop": None}) == forbidden(stop)
    assert site.ask("alice", "GET", f"{SERVERS}/{server}")[0] == 200


@pytest.mark.parametrize("user", ["bob", "rita"])
def test_refusal_is_alike_for_a_resource_that_exists_and_one_that_does_not(site: Overridden, user: str) -> None:
    server, group = site.server("alice"), site.group("alice")
    unknown = "8d3e7b02-5d3c-4f3c-a0e8-1d5f8f6b2f00"
    for path, hidden in ((SERVERS, server), (GROUPS, group)):
        of_hidden = site.ask(user, "DELETE", f"{path}/{hidden}")
        other = site.ask(user, "DELETE", f"{path}/{unknown}")
        assert of_hidden[0] == {"bob": 404, "rita": 403}[user]
        assert (of_hidden[0], str(of_hidden[1])) == (other[0], str(other[1]).replace(unknown, hidden))


def test_hosts_are_shown_to_whom_the_policy_says(site: Overridden) -> None:
    server = site.server("alice")
    assert "OS-EXT-SRV-ATTR:host" not in site.ask("alice", "GET", f"{SERVERS}/{server}")[1]["server"]
    site.file.write_text('"os_compute_api:os-extended-server-attributes": "role:member"\n')
    assert "OS-EXT-SRV-ATTR:host" in site.ask("alice", "GET", f"{SERVERS}/{server}")[1]["server"]


def test_all_tenants_can_be_opened_to_another_role(site: Overridden) -> None:
    server = site.server("alice")
    site.file.write_text(
        '"os_compute_api:servers:index:get_all_tenants": "role:reader"\n'
        '"os_compute_api:servers:allow_all_filters": "role:reader"\n'
    )
    listed = site.ask("bob", "GET", f"{SERVERS}?all_tenants=1")[1]["servers"]
    assert [server_view["id"] for server_view in listed] == [server]
    assert len(site.ask("bob", "GET", f"{SERVERS}?all_tenants=1&project_id=acme")[1]["servers"]) == 1


def test_image_policies_speak_as_the_image_api_does(site: Overridden) -> None:
    record = {"name": "i", "disk_format": "raw", "container_format": "bare"}
    for change, rule in (({"visibility": "public"}, "publicize_image"), ({"owner": "globex"}, "add_image")):
        status, document = site.ask("alice", "POST", IMAGES, record | change)
        assert (status, document["message"]) == (403, f"You are not authorized to complete {rule} action.")
    public = site.ask("admin", "POST", IMAGES, record | {"visibility": "public"})[1]["id"]
    status, document = site.ask("alice", "DELETE", f"{IMAGES}/{public}")
    assert (status, document["message"]) == (403, "You are not authorized to complete delete_image action.")
    site.file.write_text('"publicize_image": "role:member"\n')
    assert site.ask("alice", "POST", IMAGES, record | {"visibility": "public"})[0] == 201
