"""A user learns nothing of what other projects have: what may not be seen is answered as what does not exist."""

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from minova import errors
from tests.functional.api.conftest import Cloud
from tests.security.identities import login, with_users

IMAGES, GROUPS, SERVERS, FLAVORS = "/v2/images", "/v2.1/os-server-groups", "/v2.1/servers", "/v2.1/flavors"
IMAGE = {"name": "i", "disk_format": "raw", "container_format": "bare"}


class Users:
    """Requests of a user answer (status, document)."""

    def __init__(self, cloud: Cloud) -> None:
        self.cloud = cloud

    def ask(self, user: str, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        return self.cloud.ask(method, path, body, headers=login(user))

    def make(self, user: str, path: str, body: Any) -> Any:
        status, made = self.ask(user, "POST", path, body)
        assert status < 300, made
        return made

    def image(self, user: str, **more: Any) -> str:
        """The id of an active image."""
        image_id: str = self.make(user, IMAGES, {**IMAGE, **more})["id"]
        headers = {"Content-Type": "application/octet-stream", **login(user)}
        assert self.cloud.ask("PUT", f"{IMAGES}/{image_id}/file", b"\0" * 1024, headers=headers)[0] == 204
        return image_id

    def flavor(self, **more: Any) -> str:
        flavor = {"name": "f", "ram": 64, "vcpus": 1, "disk": 1, **more}
        made: str = self.make("admin", FLAVORS, {"flavor": flavor})["flavor"]["id"]
        return made


@pytest.fixture
def users(tmp_path: Path) -> Iterator[Users]:
    cloud = with_users(tmp_path)
    yield Users(cloud)
    cloud.close()


def same_answer(users: Users, method: str, path: str, hidden: str, body: Any = None) -> tuple[int, Any]:
    """What bob is answered about `hidden`, which must differ from what he is answered about an unknown id by the id only."""
    unknown = str(uuid.uuid4())
    status, document = users.ask("bob", method, path.format(hidden), body and body(hidden))
    other = users.ask("bob", method, path.format(unknown), body and body(unknown))
    assert (status, str(document)) == (other[0], str(other[1]).replace(unknown, hidden))
    return status, document


def test_image_of_another_project_is_unknown(users: Users) -> None:
    hidden = users.image("alice", visibility="private")
    for method, path in (("GET", "{}"), ("DELETE", "{}"), ("GET", "{}/file"), ("PUT", "{}/file")):
        assert same_answer(users, method, f"{IMAGES}/{path}", hidden)[0] == 404
    assert same_answer(users, "GET", f"{IMAGES}?marker={{}}", hidden)[0] == 400
    assert users.ask("alice", "GET", f"{IMAGES}?marker={hidden}")[0] == 200
    assert users.ask("admin", "GET", f"{IMAGES}?marker={hidden}")[0] == 200


def test_image_id_of_another_project_is_taken_as_a_deleted_one_is(users: Users) -> None:
    """As in OpenStack's Image API an id that was used once is a 409: it does not tell whether the image still exists."""
    hidden, deleted = users.image("alice"), users.image("alice")
    assert users.ask("alice", "DELETE", f"{IMAGES}/{deleted}")[0] == 204
    status, document = users.ask("bob", "POST", IMAGES, {**IMAGE, "id": hidden})
    other = users.ask("bob", "POST", IMAGES, {**IMAGE, "id": deleted})
    assert status == 409
    assert (status, str(document)) == (other[0], str(other[1]).replace(deleted, hidden))


@pytest.mark.parametrize("form", [str, str.upper, lambda one: one.replace("-", ""), lambda one: f"{{{one}}}"])
def test_id_of_a_deleted_image_is_never_used_again(users: Users, form: Any) -> None:
    """OSSN-0075: who made an image under that id could make other projects boot other bytes."""
    image_id = str(uuid.uuid4())
    assert users.image("alice", id=form(image_id)) == image_id
    users.ask("alice", "DELETE", f"{IMAGES}/{image_id}")
    for user in ("alice", "bob", "admin"):
        assert users.ask(user, "POST", IMAGES, {**IMAGE, "id": form(image_id)})[0] == 409
        assert users.ask(user, "GET", f"{IMAGES}/{image_id}")[0] == 404
    assert users.image("bob", id=str(uuid.uuid4()))


def test_queued_image_that_is_deleted_leaves_its_id_used(users: Users) -> None:
    image_id = users.make("alice", IMAGES, IMAGE)["id"]
    users.ask("alice", "DELETE", f"{IMAGES}/{image_id}")
    assert users.ask("bob", "POST", IMAGES, {**IMAGE, "id": image_id})[0] == 409


def test_server_group_of_another_project_is_unknown(users: Users) -> None:
    group = users.make("alice", GROUPS, {"server_group": {"name": "g", "policy": "affinity"}})["server_group"]["id"]
    for method in ("GET", "DELETE"):
        assert same_answer(users, method, f"{GROUPS}/{{}}", group)[0] == 404
    server = {"name": "vm", "flavorRef": users.flavor(), "imageRef": users.image("bob")}
    body = lambda one: {"server": server, "os:scheduler_hints": {"group": one}}  # noqa: E731
    assert same_answer(users, "POST", SERVERS, group, body)[0] == 400
    assert users.ask("admin", "GET", f"{GROUPS}/{group}")[0] == 200
    assert users.ask("alice", "DELETE", f"{GROUPS}/{group}")[0] == 204


def test_server_of_another_project_is_unknown(users: Users) -> None:
    server = {"name": "vm", "flavorRef": users.flavor(), "imageRef": users.image("alice")}
    server_id = users.make("alice", SERVERS, {"server": server})["server"]["id"]
    for method, path in (("GET", "{}"), ("DELETE", "{}"), ("GET", "{}/diagnosis")):
        assert same_answer(users, method, f"{SERVERS}/{path}", server_id)[0] == 404
    for action in ("os-stop", "os-getConsoleOutput"):
        assert (
            same_answer(users, "POST", f"{SERVERS}/{{}}/action", server_id, lambda _, key=action: {key: {}})[0] == 404
        )
    assert same_answer(users, "GET", f"{SERVERS}?marker={{}}", server_id)[0] == 400
    assert users.ask("bob", "GET", f"{SERVERS}?uuid={server_id}")[1] == {"servers": []}


def test_private_flavor_and_private_image_of_others_are_unknown_to_a_new_server(users: Users) -> None:
    private = users.flavor(name="p", **{"os-flavor-access:is_public": False})
    for path in ("", "/os-extra_specs", "/os-extra_specs/x"):
        assert same_answer(users, "GET", f"{FLAVORS}/{{}}{path}", private)[0] == 404
    assert same_answer(users, "GET", f"{FLAVORS}?marker={{}}", private)[0] == 400
    own, hidden = users.image("bob"), users.image("alice")
    of_flavor = lambda one: {"server": {"name": "vm", "flavorRef": one, "imageRef": own}}  # noqa: E731
    assert same_answer(users, "POST", SERVERS, private, of_flavor)[0] == 400
    public = users.flavor(name="q")
    of_image = lambda one: {"server": {"name": "vm", "flavorRef": public, "imageRef": one}}  # noqa: E731
    assert same_answer(users, "POST", SERVERS, hidden, of_image)[0] == 400


def test_deleting_an_image_that_is_not_there_uses_no_id(users: Users) -> None:
    with pytest.raises(errors.NotFound):
        users.cloud.conductor.delete_image(None, "8d3e7b02-5d3c-4f3c-a0e8-1d5f8f6b2f00")  # type: ignore[arg-type]
    assert users.image("bob", id="8d3e7b02-5d3c-4f3c-a0e8-1d5f8f6b2f00")


@pytest.mark.parametrize(
    ("user", "allowed", "status"), [("alice", False, 403), ("alice", True, 202), ("admin", False, 202)]
)
def test_zero_disk_flavor_is_for_administrators_unless_the_policy_says_otherwise(
    tmp_path: Path, user: str, allowed: bool, status: int
) -> None:
    policies = tmp_path / "policy.yaml"
    policies.write_text('"os_compute_api:servers:create:zero_disk_flavor": "role:member"\n' if allowed else "{}\n")
    users = Users(with_users(tmp_path, policy_file=str(policies)))
    server = {"name": "vm", "flavorRef": users.flavor(disk=0), "imageRef": users.image(user)}
    assert users.ask(user, "POST", SERVERS, {"server": server})[0] == status
    dry_run, document = users.ask(user, "POST", f"{SERVERS}/dry-run", {"server": server})
    assert dry_run == (403 if status == 403 else 200)
    if status == 403:
        message = "Only volume-backed servers are allowed for flavors with zero disk."
        assert document == {"forbidden": {"code": 403, "message": message}}
    users.cloud.close()
