"""A user learns nothing of what other projects have: what may not be seen is answered as what does not exist."""

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from minova import errors
from minova.context import service_context
from minova.db import models
from tests.functional.api.conftest import Cloud
from tests.security.identities import login, with_users
from tests.unit.api.compute.test_public_keys import ED25519

IMAGES, GROUPS, SERVERS, FLAVORS = "/v2/images", "/v2.1/os-server-groups", "/v2.1/servers", "/v2.1/flavors"
KEYPAIRS = "/v2.1/os-keypairs"
IMAGE = {"name": "i", "disk_format": "raw", "container_format": "bare"}


class Users:
    """Requests of a user answer (status, document)."""

    def __init__(self, cloud: Cloud) -> None:
        self.cloud = cloud

    def ask(self, user: str, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """At a microversion that has `user_id` of key pairs."""
        return self.cloud.ask(method, path, body, headers={**login(user), "OpenStack-API-Version": "compute 2.10"})

    def make(self, user: str, path: str, body: Any) -> Any:
        status, created = self.ask(user, "POST", path, body)
        assert status < 300, created
        return created

    def image(self, user: str, **more: Any) -> str:
        """The id of an active image."""
        image_id: str = self.make(user, IMAGES, {**IMAGE, **more})["id"]
        headers = {"Content-Type": "application/octet-stream", **login(user)}
        assert self.cloud.ask("PUT", f"{IMAGES}/{image_id}/file", b"\0" * 1024, headers=headers)[0] == 204
        return image_id

    def flavor(self, **more: Any) -> str:
        flavor = {"name": "f", "ram": 64, "vcpus": 1, "disk": 1, **more}
        flavor_id: str = self.make("admin", FLAVORS, {"flavor": flavor})["flavor"]["id"]
        return flavor_id


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
    group = users.make("alice", GROUPS, {"server_group": {"name": "g", "policies": ["affinity"]}})["server_group"]["id"]
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


def test_networks_subnets_and_ports_of_another_project_are_unknown(users: Users) -> None:
    root = "/network/v2.0"
    network = users.make("alice", f"{root}/networks", {"network": {}})["network"]["id"]
    body = {"network_id": network, "ip_version": 4, "cidr": "10.1.0.0/24"}
    subnet = users.make("alice", f"{root}/subnets", {"subnet": body})["subnet"]["id"]
    port = users.make("alice", f"{root}/ports", {"port": {"network_id": network}})["port"]["id"]
    for kind, hidden in (("network", network), ("subnet", subnet), ("port", port)):
        path = f"{root}/{kind}s"
        for method in ("GET", "DELETE"):
            assert same_answer(users, method, f"{path}/{{}}", hidden)[0] == 404
        assert same_answer(users, "PUT", f"{path}/{{}}", hidden, lambda _, kind=kind: {kind: {"name": "x"}})[0] == 404
        assert same_answer(users, "GET", f"{path}?marker={{}}", hidden)[0] == 400
        assert users.ask("alice", "GET", f"{path}?marker={hidden}")[0] == 200
        # Networks have no filter of that name.
        by_network = [] if kind == "network" else [f"network_id={network}"]
        for query in (f"id={hidden}", *by_network):
            assert users.ask("bob", "GET", f"{path}?{query}")[1] == {f"{kind}s": []}
    new = lambda one: {"port": {"network_id": one}}  # noqa: E731
    assert same_answer(users, "POST", f"{root}/ports", network, new)[0] == 404
    new = lambda one: {"subnet": {"network_id": one, "ip_version": 4, "cidr": "10.2.0.0/24"}}  # noqa: E731
    assert same_answer(users, "POST", f"{root}/subnets", network, new)[0] == 404


def test_shared_network_is_used_and_not_changed(users: Users) -> None:
    root = "/network/v2.0"
    shared = users.make("admin", f"{root}/networks", {"network": {"shared": True}})["network"]
    body = {"network_id": shared["id"], "ip_version": 4, "cidr": "10.1.0.0/24"}
    subnet = users.make("admin", f"{root}/subnets", {"subnet": body})["subnet"]
    seen = users.ask("bob", "GET", f"{root}/networks")[1]["networks"]
    assert [image_view["id"] for image_view in seen] == [shared["id"]]
    assert "provider:network_type" not in seen[0]
    assert [subnet["id"] for subnet in users.ask("bob", "GET", f"{root}/subnets")[1]["subnets"]] == [subnet["id"]]
    port = users.make("bob", f"{root}/ports", {"port": {"network_id": shared["id"]}})["port"]
    assert (port["project_id"], "binding:host_id" in port) == ("bob", False)
    by_subnet = {"port": {"network_id": shared["id"], "fixed_ips": [{"subnet_id": subnet["id"]}]}}
    users.make("bob", f"{root}/ports", by_subnet)
    # Who owns the network chooses addresses.
    for more in ({"mac_address": "02:00:00:00:00:01"}, {"fixed_ips": [{"ip_address": "10.1.0.77"}]}):
        assert users.ask("bob", "POST", f"{root}/ports", {"port": {"network_id": shared["id"], **more}})[0] == 403
        assert users.ask("bob", "PUT", f"{root}/ports/{port['id']}", {"port": more})[0] == 403
    for path, body in (
        (f"networks/{shared['id']}", {"network": {"name": "x"}}),
        (f"subnets/{subnet['id']}", {"subnet": {"name": "x"}}),
    ):
        assert users.ask("bob", "PUT", f"{root}/{path}", body)[0] == 403
        assert users.ask("bob", "DELETE", f"{root}/{path}")[0] == 403
    assert users.ask("bob", "POST", f"{root}/subnets", {"subnet": {**body_of(shared), "cidr": "10.2.0.0/24"}})[0] == 403
    # Others on the network do not see the port, its owner does.
    assert users.ask("alice", "GET", f"{root}/ports/{port['id']}")[0] == 404
    assert users.ask("admin", "GET", f"{root}/ports/{port['id']}")[0] == 200


def body_of(network: Any) -> Any:
    return {"network_id": network["id"], "ip_version": 4}


def test_external_network_is_seen_and_not_used(users: Users) -> None:
    """Not by the way of a port either, which an administrator made there for the project."""
    root = "/network/v2.0"
    network = users.ask("admin", "POST", f"{root}/networks", {"network": {}})[1]["network"]
    users.cloud.db.run(lambda session: session.query(models.Network).update({"external": True}))
    users.ask("admin", "POST", f"{root}/subnets", {"subnet": {**body_of(network), "cidr": "10.1.0.0/24"}})
    body = {"port": {"network_id": network["id"]}}
    status, created = users.ask("admin", "POST", f"{root}/ports", {"port": body["port"] | {"project_id": "bob"}})
    assert status == 201
    assert users.ask("bob", "GET", f"{root}/ports/{created['port']['id']}")[0] == 200
    assert users.ask("bob", "GET", f"{root}/networks/{network['id']}")[0] == 200
    assert users.ask("bob", "POST", f"{root}/ports", body)[0] == 403
    server = {"name": "vm", "flavorRef": users.flavor(), "imageRef": users.image("bob")}
    for nic in ({"port": created["port"]["id"]}, {"uuid": network["id"]}):
        assert users.ask("bob", "POST", SERVERS, {"server": server | {"networks": [nic]}})[0] == 403


@pytest.mark.parametrize(
    "more",
    [
        {"shared": True},
        {"provider:network_type": "local"},
        {"project_id": "globex"},
        {"tenant_id": "globex"},
    ],
)
def test_member_makes_no_network_for_all_or_for_others(users: Users, more: Any) -> None:
    assert users.ask("alice", "POST", "/network/v2.0/networks", {"network": more})[0] == 403
    assert users.ask("admin", "POST", "/network/v2.0/networks", {"network": more})[0] == 201


def test_deleting_an_image_that_is_not_there_uses_no_id(users: Users) -> None:
    with pytest.raises(errors.NotFound):
        users.cloud.conductor.delete_image(service_context(), image_id="8d3e7b02-5d3c-4f3c-a0e8-1d5f8f6b2f00")
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


def test_key_pair_of_another_user_is_unknown_and_administrators_name_its_user(users: Users) -> None:
    users.make("alice", KEYPAIRS, {"keypair": {"name": "mine", "public_key": ED25519}})
    for method in ("GET", "DELETE"):
        assert same_answer(users, method, f"{KEYPAIRS}/{{}}", "mine")[0] == 404
        assert users.ask("bob", method, f"{KEYPAIRS}/mine?user_id=alice")[0] == 403
    assert users.ask("bob", "GET", f"{KEYPAIRS}?user_id=alice")[0] == 403
    key_pair_body = {"name": "b", "public_key": ED25519, "user_id": "alice"}
    assert users.ask("bob", "POST", KEYPAIRS, {"keypair": key_pair_body})[0] == 403
    server = {"name": "vm", "flavorRef": users.flavor(), "imageRef": users.image("bob")}
    assert same_answer(users, "POST", SERVERS, "mine", lambda one: {"server": {**server, "key_name": one}})[0] == 400
    assert users.ask("admin", "GET", f"{KEYPAIRS}/mine")[0] == 404
    assert users.ask("admin", "GET", f"{KEYPAIRS}/mine?user_id=alice")[0] == 200
    assert users.ask("admin", "DELETE", f"{KEYPAIRS}/mine?user_id=alice")[0] == 204
    assert users.ask("alice", "GET", f"{KEYPAIRS}/mine")[0] == 404
