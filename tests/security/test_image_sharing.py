"""Images of other projects: who sees them, who may change them, and whom they may be shared with."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from minova.db import quotas
from tests.security.identities import login, with_users
from tests.security.test_existence import IMAGES, SERVERS, Users, same_answer

V21 = "application/openstack-images-v2.1-json-patch"


@pytest.fixture
def users(tmp_path: Path) -> Iterator[Users]:
    cloud = with_users(tmp_path)
    yield Users(cloud)
    cloud.close()


def patch(users: Users, user: str, image: str, **values: Any) -> tuple[int, Any]:
    operations = [{"op": "replace", "path": f"/{key}", "value": value} for key, value in values.items()]
    headers = {**login(user), "Content-Type": V21}
    return users.cloud.ask("PATCH", f"{IMAGES}/{image}", msgspec.json.encode(operations), headers=headers)


def share(users: Users, image: str, project: str = "bob") -> None:
    status, member = users.ask("alice", "POST", f"{IMAGES}/{image}/members", {"member": project})
    assert (status, member["status"], member["member_id"]) == (200, "pending", project)


def listed(users: Users, user: str, query: str = "") -> list[str]:
    answer = users.ask(user, "GET", f"{IMAGES}{query}")[1]
    return [image["id"] for image in answer["images"]]


REQUESTS = [
    ("PUT", "tags/x", None),
    ("DELETE", "tags/x", None),
    ("POST", "actions/deactivate", None),
    ("POST", "actions/reactivate", None),
    ("GET", "members", None),
    ("POST", "members", {"member": "bob"}),
    ("GET", "members/bob", None),
    ("PUT", "members/bob", {"status": "accepted"}),
    ("DELETE", "members/bob", None),
]


@pytest.mark.parametrize("visibility", ["private", "shared"])
def test_what_a_project_cannot_see_it_can_neither_change_nor_share(users: Users, visibility: str) -> None:
    hidden = users.image("alice", visibility=visibility)
    for method, path, body in REQUESTS:
        make_body = None if body is None else (lambda _, body=body: body)
        assert same_answer(users, method, f"{IMAGES}/{{}}/{path}", hidden, make_body)[0] == 404
    assert patch(users, "bob", hidden, name="mine")[0] == 404
    assert users.ask("alice", "GET", f"{IMAGES}/{hidden}/members")[1].get("members", []) == []


@pytest.mark.parametrize("visibility", ["public", "community"])
def test_what_everybody_sees_only_its_project_changes(users: Users, visibility: str) -> None:
    image = users.image("admin" if visibility == "public" else "alice", visibility=visibility)
    before = users.ask("bob", "GET", f"{IMAGES}/{image}")
    assert before[0] == 200
    for method, path, body in REQUESTS:
        assert users.ask("bob", method, f"{IMAGES}/{image}/{path}", body)[0] in (403, 404), path
    assert patch(users, "bob", image, name="mine")[0] == 403
    assert users.ask("bob", "DELETE", f"{IMAGES}/{image}")[0] == 403
    assert users.ask("bob", "GET", f"{IMAGES}/{image}") == before


def test_a_shared_image_is_seen_at_once_and_listed_when_it_is_accepted(users: Users) -> None:
    image = users.image("alice")
    share(users, image)
    assert users.ask("bob", "GET", f"{IMAGES}/{image}")[0] == 200
    assert (listed(users, "bob"), listed(users, "bob", "?member_status=pending")) == ([], [image])
    status, member = users.ask("bob", "PUT", f"{IMAGES}/{image}/members/bob", {"status": "accepted"})
    assert (status, member["status"]) == (200, "accepted")
    for query in ("", "?visibility=shared", "?member_status=all", "?member_status=accepted"):
        assert listed(users, "bob", query) == [image], query
    assert listed(users, "bob", "?member_status=rejected") == []
    assert listed(users, "alice", "?member_status=rejected") == [image], "her own"
    users.ask("bob", "PUT", f"{IMAGES}/{image}/members/bob", {"status": "rejected"})
    assert (listed(users, "bob"), listed(users, "bob", "?member_status=rejected")) == ([], [image])
    server = {"name": "vm", "flavorRef": users.flavor(), "imageRef": image}
    assert users.ask("bob", "POST", SERVERS, {"server": server})[0] == 202
    headers = login("bob")
    assert users.cloud.client.simulate_get(f"{IMAGES}/{image}/file", headers=headers).status_code == 200
    assert users.ask("alice", "DELETE", f"{IMAGES}/{image}/members/bob") == (204, None)
    assert users.ask("bob", "GET", f"{IMAGES}/{image}")[0] == 404
    assert users.ask("bob", "POST", SERVERS, {"server": server})[0] == 400


def test_a_member_cannot_share_on_nor_change_the_image(users: Users) -> None:
    image = users.image("alice")
    share(users, image)
    users.ask("bob", "PUT", f"{IMAGES}/{image}/members/bob", {"status": "accepted"})
    status, document = users.ask("bob", "POST", f"{IMAGES}/{image}/members", {"member": "carol"})
    assert (status, document["message"]) == (403, f"Not allowed to create members for image {image}.")
    status, document = users.ask("bob", "DELETE", f"{IMAGES}/{image}/members/bob")
    assert (status, document["message"]) == (403, f"Not allowed to delete members for image {image}.")
    assert patch(users, "bob", image, visibility="community")[0] == 403
    for method, path in (("DELETE", ""), ("PUT", "/tags/x"), ("POST", "/actions/deactivate")):
        assert users.ask("bob", method, f"{IMAGES}/{image}{path}")[0] == 403


def test_only_a_member_accepts(users: Users) -> None:
    image = users.image("alice")
    share(users, image)
    share(users, image, "carol")
    status, document = users.ask("alice", "PUT", f"{IMAGES}/{image}/members/bob", {"status": "accepted"})
    assert (status, document["message"]) == (403, f"Not allowed to update members for image {image}.")
    status, document = users.ask("bob", "PUT", f"{IMAGES}/{image}/members/carol", {"status": "accepted"})
    assert (status, document["message"]) == (404, f"carol not found in the member list of the image {image}.")
    status, document = users.ask("bob", "PUT", f"{IMAGES}/{image}/members/bob", {"status": "perhaps"})
    assert (status, document["message"]) == (
        400,
        'Incorrect request: Status must be "pending", "accepted" or "rejected".',
    )
    assert users.ask("admin", "PUT", f"{IMAGES}/{image}/members/bob", {"status": "accepted"})[0] == 200


def test_a_member_sees_no_other_member(users: Users) -> None:
    image = users.image("alice")
    share(users, image)
    share(users, image, "carol")
    members = f"{IMAGES}/{image}/members"

    def ids(user: str) -> list[str]:
        return [each["member_id"] for each in users.ask(user, "GET", members)[1]["members"]]

    assert (ids("alice"), ids("admin"), ids("bob")) == (["bob", "carol"], ["bob", "carol"], ["bob"])
    assert users.ask("bob", "GET", f"{members}/bob")[1]["schema"] == "/v2/schemas/member"
    assert users.ask("bob", "GET", f"{members}/carol")[0] == 404


def test_members_are_of_shared_images_and_share_only_those(users: Users) -> None:
    image = users.image("alice")
    share(users, image)
    assert patch(users, "alice", image, visibility="private")[0] == 200
    assert users.ask("bob", "GET", f"{IMAGES}/{image}")[0] == 404
    assert listed(users, "bob", "?member_status=all") == []
    status, document = users.ask("alice", "GET", f"{IMAGES}/{image}/members")
    assert (status, document["message"]) == (
        403,
        f"Not allowed to list members for image {image}: Only shared images have members.",
    )
    assert users.ask("alice", "POST", f"{IMAGES}/{image}/members", {"member": "carol"})[0] == 403


def test_who_is_to_be_a_member_is_checked(users: Users) -> None:
    image = users.image("alice")
    members = f"{IMAGES}/{image}/members"
    assert users.ask("alice", "POST", members, {})[1]["message"] == "Member to be added not specified"
    assert users.ask("alice", "POST", members, {"member": ""})[1]["message"] == "Member can't be empty"
    for wrong in ("x" * 256, "a\x00b", 5, ["bob"]):
        assert users.ask("alice", "POST", members, {"member": wrong})[0] == 400, wrong
    share(users, image)
    status, document = users.ask("alice", "POST", members, {"member": "bob"})
    assert (status, document["message"]) == (409, f"Member bob is duplicated for image {image}")
    for number in range(127):
        share(users, image, f"p{number}")
    status, document = users.ask("alice", "POST", members, {"member": "one-more"})
    assert status == 413
    assert "Attempted: 129, Maximum: 128" in document["message"]


def test_members_go_with_their_image(users: Users) -> None:
    image = users.image("alice")
    share(users, image)
    users.ask("alice", "DELETE", f"{IMAGES}/{image}")
    with users.cloud.db.read() as session:
        assert session.connection().exec_driver_sql("SELECT count(*) FROM image_members").scalar() == 0


def test_publishing_and_owners_are_for_administrators(users: Users) -> None:
    image = users.image("alice")
    status, document = patch(users, "alice", image, visibility="public")
    assert (status, document["message"]) == (403, "You are not authorized to complete publicize_image action.")
    assert patch(users, "alice", image, visibility="community")[0] == 200
    status, document = patch(users, "alice", image, owner="bob")
    assert (status, document["message"]) == (403, "Owner can't be updated by non admin.")
    assert patch(users, "admin", image, owner="bob", visibility="private")[0] == 200
    assert users.ask("alice", "GET", f"{IMAGES}/{image}")[0] == 404
    with users.cloud.db.read() as session:
        alice, bob = (quotas.current_usages(session, project) for project in ("alice", "bob"))
    for resource in ("image_count_total", "image_size_total"):
        assert (alice[resource], bob[resource]) == (0, 1)


def test_an_image_is_not_given_to_a_project_whose_quota_is_used_up(users: Users) -> None:
    image = users.image("alice")
    with users.cloud.db.write() as session:
        quotas.set_limits(session, "bob", {"image_count_total": 0})
    assert patch(users, "admin", image, owner="bob")[0] == 403
    assert users.ask("alice", "GET", f"{IMAGES}/{image}")[1]["owner"] == "alice"


def test_a_deactivated_image_is_downloaded_by_administrators_alone(users: Users) -> None:
    image = users.image("alice")
    share(users, image)
    assert users.ask("alice", "POST", f"{IMAGES}/{image}/actions/deactivate")[0] == 204
    for user in ("alice", "bob"):
        status, document = users.ask(user, "GET", f"{IMAGES}/{image}/file")
        assert (status, document["message"]) == (
            403,
            "The requested image has been deactivated. Image data download is forbidden.",
        )
    answer = users.cloud.client.simulate_get(f"{IMAGES}/{image}/file", headers=login("admin"))
    assert (answer.status_code, len(answer.content)) == (200, 1024)


def test_a_protected_image_stays_until_its_owner_changes_that(users: Users) -> None:
    image = users.image("alice", protected=True)
    for user in ("alice", "admin"):
        assert users.ask(user, "DELETE", f"{IMAGES}/{image}")[0] == 403
    assert patch(users, "alice", image, protected=False)[0] == 200
    assert users.ask("alice", "DELETE", f"{IMAGES}/{image}")[0] == 204
