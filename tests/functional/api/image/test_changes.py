"""PATCH of an image in both media types, tags, deactivate and reactivate."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from minova import errors
from minova.api.image.images import PROPERTIES, PROPERTY_BYTES
from minova.context import service_context
from minova.db.api_queries import images as image_rows
from tests.functional.api.conftest import Cloud, Json

V20, V21 = (f"application/openstack-images-v2.{minor}-json-patch" for minor in (0, 1))


def patch(cloud: Cloud, image: Json, *operations: Any, media: str = V21) -> tuple[int, Any]:
    return cloud.ask(
        "PATCH", f"/v2/images/{image['id']}", msgspec.json.encode(operations), headers={"Content-Type": media}
    )


@pytest.fixture
def image(cloud: Cloud) -> Json:
    return cloud.make_image("guest", data=None, os_distro="debian", tags=["a"])


def test_operations_take_effect_in_their_order(cloud: Cloud, image: Json) -> None:
    status, answer = patch(
        cloud,
        image,
        {"op": "replace", "path": "/name", "value": "renamed"},
        {"op": "add", "path": "/visibility", "value": "private"},
        {"op": "replace", "path": "/protected", "value": True},
        {"op": "replace", "path": "/os_hidden", "value": True},
        {"op": "add", "path": "/min_disk", "value": 3},
        {"op": "replace", "path": "/min_ram", "value": 64},
        {"op": "replace", "path": "/tags", "value": ["b", "c", "b"]},
        {"op": "add", "path": "/disk_format", "value": "qcow2"},
        {"op": "add", "path": "/os_version", "value": "12"},
        {"op": "replace", "path": "/os_version", "value": "13"},
        {"op": "add", "path": "/a~1b~0c", "value": "slash"},
        {"op": "remove", "path": "/os_distro"},
    )
    assert status == 200, answer
    expected = {
        **{key: value for key, value in image.items() if key != "os_distro"},
        "name": "renamed",
        "visibility": "private",
        "protected": True,
        "os_hidden": True,
        "min_disk": 3,
        "min_ram": 64,
        "tags": ["b", "c"],
        "disk_format": "qcow2",
        "os_version": "13",
        "a/b~c": "slash",
        "updated_at": answer["updated_at"],
    }
    assert answer == expected
    assert cloud.get(f"/v2/images/{image['id']}") == expected


def test_the_older_media_type_names_the_operation_by_its_key(cloud: Cloud, image: Json) -> None:
    operations = ({"add": "/x", "value": "1"}, {"replace": "/os_distro", "value": "sid"}, {"remove": "/x"})
    assert patch(cloud, image, *operations, media=V20)[1]["os_distro"] == "sid"
    for attribute in ("name", "os_distro"):
        status, answer = patch(cloud, image, {"add": f"/{attribute}", "value": "y"}, media=V20)
        assert (status, answer["message"]) == (409, f"Property {attribute} already present.")


def test_no_operation_changes_nothing(cloud: Cloud, image: Json) -> None:
    assert patch(cloud, image) == (200, image)


REFUSED: list[tuple[Any, int, str]] = [
    *(
        ({"op": "replace", "path": f"/{key}", "value": "x"}, 403, f"Attribute '{key}' is read-only.")
        for key in ("id", "status", "created_at", "updated_at", "checksum", "size", "virtual_size", "self", "file")
    ),
    *(
        ({"op": "add", "path": f"/{key}", "value": "x"}, 403, f"Attribute '{key}' is read-only.")
        for key in ("schema", "direct_url", "os_hash_algo", "os_hash_value", "stores")
    ),
    *(
        ({"op": "add", "path": f"/{key}", "value": "x"}, 403, f"Attribute '{key}' is reserved.")
        for key in ("location", "deleted", "deleted_at", "os_glance_import_task")
    ),
    ({"op": "remove", "path": "/id"}, 403, "Attribute 'id' is read-only."),
    ({"op": "remove", "path": "/name"}, 403, "Property name may not be removed."),
    ({"op": "remove", "path": "/none"}, 409, "Property none does not exist."),
    ({"op": "replace", "path": "/none", "value": "x"}, 409, "Property none does not exist."),
    ({"op": "replace", "path": "/locations", "value": []}, 403, "Cannot set locations to empty list."),
    (
        {"op": "add", "path": "/locations/-", "value": {"url": "file:///etc/passwd"}},
        403,
        "It's not allowed to add locations",
    ),
    ({"op": "remove", "path": "/locations/0"}, 403, "It's not allowed to remove locations"),
    ({"op": "add", "path": "/tags/-", "value": "x"}, 400, "Invalid JSON pointer for this resource: '/tags/-'"),
    ({"op": "test", "path": "/name", "value": "x"}, 400, "Invalid operation: `test`."),
    ({"path": "/name", "value": "x"}, 400, "Unable to find `op`"),
    ({"op": "add", "value": "x"}, 400, "Unable to find 'path'"),
    ({"op": "add", "path": "/x"}, 400, 'Operation "add" requires a member named "value".'),
    ({"op": "add", "path": "x", "value": "x"}, 400, 'does not start with "/"'),
    ({"op": "add", "path": 5, "value": "x"}, 400, 'does not start with "/"'),
    ({"op": "add", "path": "/a//b", "value": "x"}, 400, 'contains adjacent "/"'),
    ({"op": "add", "path": "/a/", "value": "x"}, 400, 'end with "/"'),
    ({"op": "add", "path": "/a~2", "value": "x"}, 400, 'contains "~"'),
    ({"op": "add", "path": "/", "value": "x"}, 400, "it is empty"),
    ({"op": "add", "path": "/x", "value": 5}, 400, "must be a string"),
    ({"op": "add", "path": "/x\u0007", "value": "x"}, 400, "cannot be printed"),
    ({"op": "replace", "path": "/visibility", "value": "secret"}, 400, "schema 'image'"),
    ({"op": "replace", "path": "/min_disk", "value": -1}, 400, "schema 'image'"),
    ({"op": "replace", "path": "/name", "value": "x" * 300}, 400, "300 characters"),
    ({"op": "replace", "path": "/disk_format", "value": "vmdk"}, 400, "disk_format 'vmdk' is not served"),
    ({"op": "replace", "path": "/tags", "value": [f"t{n}" for n in range(129)]}, 413, "Attempted: 129, Maximum: 128"),
    ("text", 400, "Operations must be JSON objects."),
]


@pytest.mark.parametrize(("operation", "status", "words"), REFUSED)
def test_what_a_patch_may_not_do_is_refused_as_a_whole(
    cloud: Cloud, image: Json, operation: Any, status: int, words: str
) -> None:
    answered, document = patch(cloud, image, {"op": "add", "path": "/first", "value": "1"}, operation)
    assert answered == status, document
    assert words in document["message"]
    assert cloud.get(f"/v2/images/{image['id']}") == image


def test_formats_are_for_queued_images_and_properties_have_a_limit(cloud: Cloud) -> None:
    active = cloud.make_image("active")
    status, document = patch(cloud, active, {"op": "replace", "path": "/disk_format", "value": "qcow2"})
    assert (status, document["message"]) == (
        403,
        "Attribute disk_format can be only replaced for a queued image.",
    )
    many = [{"op": "add", "path": f"/p{number}", "value": "x"} for number in range(129)]
    assert patch(cloud, active, *many)[0] == 413
    assert patch(cloud, active, *many[:128])[0] == 200
    # What goes in between does not count.
    assert patch(cloud, active, many[128], {"op": "remove", "path": "/p0"})[0] == 200


@pytest.mark.parametrize("media", ["application/json", "text/plain", "application/json-patch+json"])
def test_other_media_types_are_told_what_is_taken(cloud: Cloud, image: Json, media: str) -> None:
    result = cloud.client.simulate_patch(f"/v2/images/{image['id']}", body=b"[]", headers={"Content-Type": media})
    assert result.status_code == 415
    assert result.headers["Accept-Patch"] == f"{V20}, {V21}"
    assert result.json["message"] == f"Image PATCH expects Content-Type one of: {V20}, {V21}"


@pytest.mark.parametrize("body", [b"", b"{}", b"[", b"null", b"[" * 100_000, b'[{"op": 1e400}]', b"\xff"])
def test_a_body_that_is_no_list_of_operations(cloud: Cloud, image: Json, body: bytes) -> None:
    headers = {"Content-Type": V21}
    assert cloud.ask("PATCH", f"/v2/images/{image['id']}", body, headers=headers)[0] == 400


def test_changes_at_the_same_time_are_both_there(cloud: Cloud, image: Json) -> None:
    """The second one comes between the first one's reading and its writing."""

    def meanwhile(method: str) -> None:
        cloud.conductor.before = lambda method: None
        assert patch(cloud, image, {"op": "add", "path": "/second", "value": "2"})[0] == 200

    cloud.conductor.before = meanwhile
    assert patch(cloud, image, {"op": "add", "path": "/first", "value": "1"})[0] == 200
    shown = cloud.get(f"/v2/images/{image['id']}")
    assert (shown["first"], shown["second"]) == ("1", "2")


def test_a_change_during_an_upload_is_kept(cloud: Cloud, image: Json) -> None:
    calls = iter(range(100))

    def meanwhile(method: str) -> None:
        if next(calls) == 1:  # the bytes have come
            assert patch(cloud, image, {"op": "replace", "path": "/name", "value": "renamed"})[0] == 200

    cloud.conductor.before = meanwhile
    assert cloud.upload(image["id"], b"\0" * 512)[0] == 204
    shown = cloud.get(f"/v2/images/{image['id']}")
    assert (shown["status"], shown["name"], shown["size"]) == ("active", "renamed", 512)


def test_an_image_that_others_change_all_the_time_is_a_conflict(cloud: Cloud, image: Json) -> None:
    def changed(method: str) -> None:
        if method == "change_image":
            raise errors.ImageChanged("changed")

    cloud.conductor.before = changed
    status, document = patch(cloud, image, {"op": "add", "path": "/x", "value": "1"})
    assert status == 409
    assert "Please try again" in document["message"]


def test_beside_a_conductor_of_the_last_release_an_image_can_be_uploaded(cloud: Cloud, image: Json) -> None:
    def older(method: str) -> None:
        if method == "change_image":
            raise errors.PeerTooOld("conductor 1.6 has no change_image")

    cloud.conductor.before = older
    assert cloud.upload(image["id"], b"\0" * 512)[0] == 204
    assert cloud.get(f"/v2/images/{image['id']}")["status"] == "active"


def test_one_that_belongs_to_another_project_meanwhile_is_not_changed(cloud: Cloud, image: Json) -> None:
    path = f"/v2/images/{image['id']}"

    def give_away(method: str) -> None:
        cloud.conductor.before = lambda method: None
        with cloud.app.images.db.read() as session:
            current = image_rows.image(session, image["id"])
        assert current is not None
        cloud.conductor.change_image(
            service_context(), expected=current, image=msgspec.structs.replace(current, owner="bob")
        )

    changes: list[Callable[[], Any]] = [
        lambda: patch(cloud, image, {"op": "replace", "path": "/name", "value": "hers"})[0],
        lambda: cloud.ask("PUT", f"{path}/tags/hers")[0],
    ]
    for change in changes:
        cloud.conductor.before = give_away
        assert change() == 404
        kept = cloud.get(path)
        assert (kept["name"], kept["tags"], kept["owner"]) == ("guest", ["a"], "bob")
        patch(cloud, image, {"op": "replace", "path": "/owner", "value": image["owner"]})


def test_properties_have_a_size_together(cloud: Cloud, image: Json) -> None:
    half = "x" * (PROPERTY_BYTES // 2)
    assert patch(cloud, image, {"op": "add", "path": "/one", "value": half})[0] == 200
    status, document = patch(cloud, image, {"op": "add", "path": "/two", "value": half})
    assert (status, f"at most {PROPERTY_BYTES} bytes" in document["message"]) == (413, True)


def test_an_image_with_too_many_properties_may_change_and_have_fewer(cloud: Cloud, image: Json) -> None:
    """A snapshot has some more than its request gave it."""
    with cloud.app.images.db.read() as session:
        current = image_rows.image(session, image["id"])
    assert current is not None
    many = {f"p{number}": "x" for number in range(PROPERTIES + 4)}
    crowded = msgspec.structs.replace(current, properties=many)
    cloud.conductor.change_image(service_context(), expected=current, image=crowded)
    assert patch(cloud, image, {"op": "replace", "path": "/name", "value": "shot"})[0] == 200
    assert patch(cloud, image, {"op": "remove", "path": "/p1"})[0] == 200
    swap = ({"op": "remove", "path": "/p2"}, {"op": "add", "path": "/q1", "value": "x"})
    assert patch(cloud, image, *swap)[0] == 200
    grow = ({"op": "add", "path": "/q2", "value": "x"},)
    assert patch(cloud, image, *grow)[0] == 413


# -- tags --------------------------------------------------------------------------------------------------------------


def test_tags_come_and_go_one_by_one(cloud: Cloud, image: Json) -> None:
    path = f"/v2/images/{image['id']}"
    for tag in ("b", "b", "c d"):
        assert cloud.ask("PUT", f"{path}/tags/{tag}") == (204, None)
    assert cloud.get(path)["tags"] == ["a", "b", "c d"]
    assert cloud.ask("DELETE", f"{path}/tags/a") == (204, None)
    assert cloud.ask("DELETE", f"{path}/tags/a")[0] == 404
    assert cloud.get(path)["tags"] == ["b", "c d"]
    assert cloud.ask("PUT", f"{path}/tags/{'x' * 256}")[0] == 400


def test_tags_have_a_limit(cloud: Cloud) -> None:
    full = cloud.make_image(data=None, tags=[f"t{number}" for number in range(128)])
    status, document = cloud.ask("PUT", f"/v2/images/{full['id']}/tags/more")
    assert status == 413
    assert document["message"].startswith(f"Image tag limit exceeded for image {full['id']}: ")
    assert cloud.ask("PUT", f"/v2/images/{full['id']}/tags/t5")[0] == 204


# -- deactivate --------------------------------------------------------------------------------------------------------


def test_a_deactivated_image_makes_no_servers_until_it_is_reactivated(stocked: Cloud) -> None:
    path = f"/v2/images/{stocked.server['imageRef']}"
    for _ in range(2):  # the second time nothing changes
        assert stocked.ask("POST", f"{path}/actions/deactivate") == (204, None)
    assert stocked.get(path)["status"] == "deactivated"
    assert stocked.get("/v2/images?status=deactivated")["images"]
    status, document = stocked.ask("POST", "/v2.1/servers", {"server": stocked.server})
    assert status == 400
    assert "is not active" in document["badRequest"]["message"]
    for _ in range(2):
        assert stocked.ask("POST", f"{path}/actions/reactivate") == (204, None)
    assert stocked.ask("POST", "/v2.1/servers", {"server": stocked.server})[0] == 202


def test_a_queued_image_cannot_be_deactivated(cloud: Cloud, image: Json) -> None:
    for verb in ("deactivate", "reactivate"):
        status, document = cloud.ask("POST", f"/v2/images/{image['id']}/actions/{verb}")
        assert (status, document["message"]) == (403, f"Not allowed to {verb} image in status 'queued'")
